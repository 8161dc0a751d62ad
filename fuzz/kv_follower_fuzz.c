// SPDX-License-Identifier: Apache-2.0
//
// For any order of messages, replays, connections and documents, with any numbers: the follower
// asserts nothing, and it asks for a replay only where it may.  Each byte is a call, and the next
// ones are its arguments.

#include "fuzz.h"
#include "kvevent/batch_fixture.h"
#include "kvevent/kv_follower.h"

enum { ranks = 2, names = 8, raw_size_max = 32 };

struct input {
    const uint8_t *at;
    const uint8_t *end;
};

static uint64_t take_byte(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

// Small ones mostly, and those at the end of the range.
static uint64_t take_number(struct input *input)
{
    uint64_t byte = take_byte(input);
    return byte < 250 ? byte % 32 : UINT64_MAX - (255 - byte);
}

// Events of few names, of which one is 0; or bytes as they are.
static struct slice take_payload(struct input *input, struct batch *batch)
{
    uint64_t count = take_byte(input);
    if (count >= 250) {
        size_t left = (size_t)(input->end - input->at);
        size_t size = left < raw_size_max ? left : raw_size_max;
        struct slice raw = slice_of(input->at, size);
        input->at += size;
        return raw;
    }
    batch_begin(batch);
    for (uint64_t i = 0; i < count % 4; i++) {
        static const enum kv_event_kind kinds[] = {KV_EVENT_STORED, KV_EVENT_STORED,
                                                   KV_EVENT_REMOVED, KV_EVENT_CLEARED};
        uint64_t what = take_byte(input);
        batch_add(batch, kinds[what % 4], what / 4 % names, what / 32);
    }
    return batch_end(batch);
}

static void take_notices(struct kv_follower *follower, struct kv_reader *reader,
                         struct slice payload, uint64_t now_ms)
{
    struct kv_notice notice;
    enum status status = kv_reader_begin(reader, payload);
    while (status == STATUS_OK && (status = kv_reader_next(reader, &notice)) == STATUS_OK) {
        kv_follower_apply(follower, &notice, now_ms);
    }
}

static void make_call(struct kv_follower *follower, struct kv_reader *reader, struct input *input,
                      uint64_t *now_ms)
{
    struct batch batch;
    uint64_t call = take_byte(input);
    uint64_t number = call % 16 < 8 ? take_number(input) : 0;

    switch (call % 16) {
    case 0:
    case 1:
    case 2: {
        struct kv_numbered message = {number, take_payload(input, &batch)};
        kv_follower_live(follower, &message, *now_ms);
        break;
    }
    case 3:
    case 4: {
        struct kv_numbered message = {number, take_payload(input, &batch)};
        kv_follower_replayed(follower, &message, *now_ms);
        break;
    }
    case 5:
        kv_follower_begin_polled(follower, number, take_number(input));
        take_notices(follower, reader, take_payload(input, &batch), *now_ms);
        break;
    case 6:
        take_notices(follower, reader, take_payload(input, &batch), *now_ms);
        break;
    case 7:
        kv_follower_set_capacity(follower, number);
        break;
    case 8:
        kv_follower_replay_ended(follower, *now_ms);
        break;
    case 9:
        kv_follower_connected(follower, *now_ms);
        break;
    case 10:
        kv_follower_disconnected(follower);
        break;
    case 11:
        kv_follower_restarted(follower, *now_ms);
        break;
    case 12:
        kv_follower_distrust(follower);
        break;
    default:
        *now_ms += take_byte(input) * take_byte(input);
        break;
    }
}

static void follow(struct kv_follower *follower, struct kv_reader *reader, struct input *input,
                   bool has_replay)
{
    uint64_t now_ms = 1000;
    while (input->at < input->end) {
        make_call(follower, reader, input, &now_ms);
        struct kv_follower_action action = kv_follower_next_action(follower, now_ms);
        ASSERT(has_replay || !action.wants_replay);
        ASSERT(kv_follower_state(follower) <= KV_LIVE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, bytes + size};
    bool has_replay = take_byte(&input) % 2 == 0;
    struct kv_names_budget budget = {.limit = 1 << 20};
    struct kv_reader *reader = kv_reader_create();
    struct prefix_ledger *ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 1 << 20, .backend_count_max = ranks});
    ASSERT(reader != NULL && ledger != NULL);
    struct kv_follower *follower = kv_follower_create(&(struct kv_follower_options){
        .holdings = {.ledger = ledger, .budget = &budget, .backend = 1},
        .reader = reader,
        .has_replay = has_replay,
    });
    ASSERT(follower != NULL);
    follow(follower, reader, &input, has_replay);
    kv_follower_destroy(&follower);
    ASSERT(budget.used == 0);
    prefix_ledger_destroy(&ledger);
    kv_reader_destroy(&reader);
    return 0;
}
