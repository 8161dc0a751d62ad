// SPDX-License-Identifier: Apache-2.0

#include "replica/frame.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

enum { record_max = 64, bits = 10 };

static struct key_window sender;
static struct key_window receiver;
static struct frame_writer writer;
static uint8_t frame[frame_size_max];
static uint64_t keys[frame_key_max];
static struct frame_head head;

static void set_up(void)
{
    ASSERT(key_window_open_sender(&sender, bits) && key_window_open_receiver(&receiver, bits));
    frame_writer_begin(&writer, &sender);
}

static void tear_down(void)
{
    key_window_close(&sender);
    key_window_close(&receiver);
}

static const struct frame_head batch_head = {
    .kind = FRAME_BATCH, .space = 0x1122334455667788, .sequence = 77};

// One record in a frame of its own, as the reader gets it.  False: the frame was not understood.
static bool carry(const struct frame_record *record, struct frame_record *out)
{
    struct frame_record copy = *record;
    copy.backend = frame_writer_backend(
        &writer, &(struct frame_backend){.identity = 0xabcdef, .era = 1ULL << 40});
    ASSERT(frame_writer_add(&writer, &copy));
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    return frame_read_head(&reader, &head) && key_window_skip_to(&receiver, head.position) &&
           frame_read_record(&reader, &head, &receiver, keys, out) && reader.left == 0 &&
           !reader.is_bad;
}

TEST(the_head_of_a_batch_is_read_as_it_was_written)
{
    struct frame_record out;
    set_up();
    CHECK(carry(&(struct frame_record){.kind = RECORD_WITHDRAW, .number = 3}, &out));
    CHECK_EQ(head.kind, FRAME_BATCH);
    CHECK_EQ(head.space, 0x1122334455667788);
    CHECK_EQ(head.sequence, 77);
    CHECK_EQ(head.bits, bits);
    CHECK_EQ(head.backend_count, 1);
    CHECK_EQ(head.backends[0].identity, 0xabcdef);
    CHECK_EQ(head.backends[0].era, 1LL << 40);
    CHECK(!head.is_last && !head.is_whole);
    tear_down();
}

TEST(the_head_of_a_snapshot_has_its_part_and_what_it_is_the_end_of)
{
    set_up();
    for (uint32_t flags = 0; flags < 4; flags++) {
        struct frame_head written = {.kind = FRAME_SNAPSHOT,
                                     .space = 1,
                                     .sequence = 2,
                                     .part = 300000,
                                     .is_last = (flags & 1) != 0,
                                     .is_whole = (flags & 2) != 0};
        size_t size = frame_writer_end(&writer, &written, frame);
        struct wire_reader reader = wire_reader_of(slice_of(frame, size));
        CHECK(frame_read_head(&reader, &head));
        CHECK_EQ(head.kind, FRAME_SNAPSHOT);
        CHECK_EQ(head.part, 300000);
        CHECK_EQ(head.is_last, written.is_last);
        CHECK_EQ(head.is_whole, written.is_whole);
        CHECK_EQ(reader.left, 0);
    }
    tear_down();
}

TEST(a_question_has_its_space_and_number)
{
    size_t size = frame_write_ask(9, 12345, 7, frame);
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    CHECK(frame_read_head(&reader, &head));
    CHECK_EQ(head.kind, FRAME_ASK);
    CHECK_EQ(head.space, 9);
    CHECK_EQ(head.sequence, 12345);
    CHECK_EQ(head.part, 7);
    for (size_t cut = 0; cut < size; cut++) {
        reader = wire_reader_of(slice_of(frame, cut));
        CHECK(!frame_read_head(&reader, &head));
    }
}

TEST(frames_of_another_version_or_kind_are_refused)
{
    set_up();
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    frame[0] = frame_version + 1;
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    CHECK(!frame_read_head(&reader, &head));
    frame[0] = frame_version;
    for (uint32_t kind = 0; kind < 256; kind++) {
        frame[1] = (uint8_t)kind;
        reader = wire_reader_of(slice_of(frame, size));
        bool is_known = kind == FRAME_BATCH || kind == FRAME_SNAPSHOT || kind == FRAME_ASK;
        CHECK_EQ(frame_read_head(&reader, &head), is_known);
    }
    tear_down();
}

TEST(predictions_and_confirmations_carry_their_keys)
{
    static const enum record_kind kinds[] = {RECORD_PREDICT, RECORD_EXPECT, RECORD_CONFIRM};
    static const uint64_t chain[] = {11, 12, UINT64_MAX, 14};
    set_up();
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct frame_record out;
        CHECK(carry(&(struct frame_record){.kind = kinds[i],
                                           .number = UINT64_MAX,
                                           .block_tokens = UINT16_MAX,
                                           .keys = chain,
                                           .key_count = 4},
                    &out));
        CHECK_EQ(out.kind, kinds[i]);
        CHECK_EQ(out.backend, 0);
        CHECK_EQ(out.number, UINT64_MAX);
        CHECK_EQ(out.block_tokens, UINT16_MAX);
        CHECK(out.is_known);
        CHECK_EQ(out.key_count, 4);
        CHECK(memcmp(out.keys, chain, sizeof(chain)) == 0);
    }
    tear_down();
}

TEST(records_without_keys_carry_their_numbers)
{
    struct frame_record out;
    set_up();
    CHECK(carry(&(struct frame_record){.kind = RECORD_WITHDRAW, .number = UINT64_MAX}, &out));
    CHECK_EQ(out.number, UINT64_MAX);
    CHECK(carry(&(struct frame_record){.kind = RECORD_EVICTED, .age = UINT32_MAX}, &out));
    CHECK_EQ(out.age, UINT32_MAX);
    CHECK(carry(&(struct frame_record){.kind = RECORD_SESSION, .session = 5, .stamp = UINT64_MAX},
                &out));
    CHECK_EQ(out.session, 5);
    CHECK_EQ(out.stamp, UINT64_MAX);
    CHECK(carry(
        &(struct frame_record){.kind = RECORD_TRAFFIC, .pool = UINT64_MAX, .arrivals = UINT32_MAX},
        &out));
    CHECK_EQ(out.pool, UINT64_MAX);
    CHECK_EQ(out.arrivals, UINT32_MAX);
    CHECK(carry(&(struct frame_record){.kind = RECORD_COVER, .router = 8, .sequence = UINT64_MAX},
                &out));
    CHECK_EQ(out.router, 8);
    CHECK_EQ(out.sequence, UINT64_MAX);
    tear_down();
}

TEST(a_load_carries_its_six_numbers)
{
    struct frame_record out;
    struct frame_record record = {.kind = RECORD_LOAD,
                                  .load = {.requests = UINT32_MAX,
                                           .sequences = 2,
                                           .queued_tokens = UINT64_MAX,
                                           .context_tokens = 4,
                                           .begun_requests = 5,
                                           .begun_tokens = UINT64_MAX - 1}};
    set_up();
    CHECK(carry(&record, &out));
    CHECK_EQ(out.load.requests, UINT32_MAX);
    CHECK_EQ(out.load.sequences, 2);
    CHECK_EQ(out.load.queued_tokens, UINT64_MAX);
    CHECK_EQ(out.load.context_tokens, 4);
    CHECK_EQ(out.load.begun_requests, 5);
    CHECK_EQ(out.load.begun_tokens, UINT64_MAX - 1);
    tear_down();
}

TEST(a_hold_carries_its_ages_and_keys)
{
    static const uint64_t chain[] = {1, 2, 3};
    struct frame_record out;
    set_up();
    CHECK(carry(
        &(struct frame_record){
            .kind = RECORD_HOLD, .age = UINT32_MAX, .age_s = 9, .keys = chain, .key_count = 3},
        &out));
    CHECK_EQ(out.age, UINT32_MAX);
    CHECK_EQ(out.age_s, 9);
    CHECK_EQ(out.key_count, 3);
    tear_down();
}

TEST(open_numbers_come_back_in_any_order)
{
    static const uint64_t numbers[] = {5, 4, UINT64_MAX, 0, 1ULL << 63, 1, 1};
    static uint64_t many[frame_open_max];
    struct frame_record out;
    set_up();
    CHECK(
        carry(&(struct frame_record){.kind = RECORD_OPEN, .keys = numbers, .key_count = 7}, &out));
    CHECK_EQ(out.key_count, 7);
    CHECK(memcmp(out.keys, numbers, sizeof(numbers)) == 0);
    CHECK(carry(&(struct frame_record){.kind = RECORD_OPEN}, &out));
    CHECK_EQ(out.key_count, 0);
    // The most numbers, at their longest.
    for (uint32_t i = 0; i < frame_open_max; i++) {
        many[i] = i % 2 == 0 ? 0 : UINT64_MAX / 2 + 1;
    }
    CHECK(carry(
        &(struct frame_record){.kind = RECORD_OPEN, .keys = many, .key_count = frame_open_max},
        &out));
    CHECK_EQ(out.key_count, frame_open_max);
    CHECK(memcmp(out.keys, many, sizeof(many)) == 0);
    tear_down();
}

TEST(an_empty_frame_has_room_for_the_longest_chain)
{
    static uint64_t chain[frame_key_max];
    struct frame_record out;
    set_up();
    for (uint32_t i = 0; i < frame_key_max; i++) {
        chain[i] = rng_mix(i + 1);
    }
    CHECK(carry(
        &(struct frame_record){
            .kind = RECORD_CONFIRM, .number = 1, .keys = chain, .key_count = frame_key_max},
        &out));
    CHECK_EQ(out.key_count, key_chain_new_max);
    CHECK(memcmp(out.keys, chain, out.key_count * sizeof(chain[0])) == 0);
    tear_down();
}

TEST(the_same_backend_has_one_place_and_another_era_another)
{
    set_up();
    CHECK_EQ(frame_writer_backend(&writer, &(struct frame_backend){.identity = 1, .era = 1}), 0);
    CHECK_EQ(frame_writer_backend(&writer, &(struct frame_backend){.identity = 1, .era = 2}), 1);
    CHECK_EQ(frame_writer_backend(&writer, &(struct frame_backend){.identity = 1, .era = 1}), 0);
    CHECK(!frame_writer_is_empty(&writer));
    tear_down();
}

TEST(a_frame_names_at_most_128_backends)
{
    set_up();
    for (uint64_t i = 0; i < frame_backend_max; i++) {
        CHECK_EQ(frame_writer_backend(&writer, &(struct frame_backend){.identity = 1 + i}), i);
    }
    CHECK_EQ(frame_writer_backend(&writer, &(struct frame_backend){.identity = 1000}), UINT32_MAX);
    // It has room for the longest record besides.
    static uint64_t chain[frame_key_max];
    for (uint32_t i = 0; i < frame_key_max; i++) {
        chain[i] = rng_mix(i + 1);
    }
    CHECK(frame_writer_add(&writer, &(struct frame_record){.kind = RECORD_PREDICT,
                                                           .backend = frame_backend_max - 1,
                                                           .number = UINT64_MAX,
                                                           .keys = chain,
                                                           .key_count = frame_key_max}));
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    struct frame_record out;
    CHECK(frame_read_head(&reader, &head));
    CHECK_EQ(head.backend_count, frame_backend_max);
    CHECK(frame_read_record(&reader, &head, &receiver, keys, &out));
    CHECK_EQ(out.backend, frame_backend_max - 1);
    CHECK(frame_writer_is_empty(&writer));
    tear_down();
}

TEST(a_record_of_a_backend_that_the_frame_does_not_name_is_malformed)
{
    struct frame_record out;
    set_up();
    CHECK(frame_writer_add(&writer,
                           &(struct frame_record){.kind = RECORD_EVICTED, .backend = 0, .age = 1}));
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    CHECK(frame_read_head(&reader, &head));
    CHECK(!frame_read_record(&reader, &head, &receiver, keys, &out));
    CHECK(reader.is_bad);
    tear_down();
}

// A frame by hand: records of a later version between those of this one.
TEST(records_of_an_unknown_kind_are_skipped)
{
    struct frame_record out;
    set_up();
    CHECK(frame_writer_add(&writer, &(struct frame_record){.kind = RECORD_WITHDRAW, .number = 5}));
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    struct wire_writer more = wire_writer_over(frame + size, sizeof(frame) - size);
    static const uint8_t unknown[] = {0, 0, 200, 3, 'a', 'b', 'c', 255, 0};
    wire_put_bytes(&more, unknown, sizeof(unknown));
    static const uint8_t withdraw[] = {RECORD_WITHDRAW, 1, 6};
    wire_put_bytes(&more, withdraw, sizeof(withdraw));
    static const uint8_t longer[] = {RECORD_WITHDRAW, 4, 7, 'x', 'y', 'z'};
    wire_put_bytes(&more, longer, sizeof(longer)); // with fields that are not known here
    wire_put_bytes(&more, unknown, sizeof(unknown));
    struct wire_reader reader = wire_reader_of(slice_of(frame, size + more.size));
    CHECK(frame_read_head(&reader, &head));
    for (uint64_t number = 5; number <= 7; number++) {
        CHECK(frame_read_record(&reader, &head, &receiver, keys, &out));
        CHECK_EQ(out.kind, RECORD_WITHDRAW);
        CHECK_EQ(out.number, number);
    }
    CHECK(!frame_read_record(&reader, &head, &receiver, keys, &out));
    CHECK(!reader.is_bad);
    tear_down();
}

TEST(a_chain_refers_to_keys_of_earlier_frames)
{
    uint64_t chain[40];
    struct frame_record out;
    set_up();
    for (uint32_t i = 0; i < 40; i++) {
        chain[i] = rng_mix(i + 1);
    }
    struct frame_record record = {
        .kind = RECORD_CONFIRM, .number = 1, .keys = chain, .key_count = 40};
    CHECK(carry(&record, &out));
    CHECK(carry(&record, &out)); // a copy
    CHECK_EQ(out.key_count, 40);
    CHECK(memcmp(out.keys, chain, sizeof(chain)) == 0);
    // A receiver that has not had the first knows that it lacks the keys.
    key_window_close(&receiver);
    CHECK(key_window_open_receiver(&receiver, bits));
    CHECK(carry(&record, &out));
    CHECK(!out.is_known);
    CHECK_EQ(out.key_count, 0);
    tear_down();
}

static uint64_t chains[4][300];

static struct frame_record random_record(struct rng *rng)
{
    struct frame_record record = {
        .kind = (enum record_kind)(1 + rng_below(rng, RECORD_COUNT - 1)),
        .number = rng_next(rng) >> rng_below(rng, 64),
        .block_tokens = rng_below(rng, UINT16_MAX),
        .age = rng_below(rng, UINT32_MAX),
        .age_s = rng_below(rng, UINT32_MAX),
        .session = rng_next(rng),
        .stamp = rng_next(rng),
        .pool = rng_next(rng),
        .arrivals = rng_below(rng, UINT32_MAX),
        .router = rng_next(rng),
        .clock = rng_next(rng) >> rng_below(rng, 64),
        .sequence = rng_next(rng) >> rng_below(rng, 64),
        .keys = chains[rng_below(rng, 4)],
        .key_count = rng_below(rng, 300),
    };
    record.setting = (struct record_setting){.field = rng_below(rng, SETTING_COUNT),
                                             .value = rng_next(rng) >> rng_below(rng, 64),
                                             .stamp = rng_next(rng)};
    record.speed = (struct record_speed){.prefill_ns = rng_next(rng) >> rng_below(rng, 64),
                                         .step_ns = rng_next(rng) >> rng_below(rng, 64)};
    record.load =
        (struct record_load){.requests = rng_below(rng, UINT32_MAX), .begun_tokens = rng_next(rng)};
    return record;
}

static void make_chains(struct rng *rng)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t shared = rng_below(rng, 300);
        for (uint32_t k = 0; k < 300; k++) {
            chains[i][k] = i > 0 && k < shared ? chains[0][k] : rng_next(rng) | 1;
        }
    }
}

static bool has_keys(enum record_kind kind)
{
    return kind == RECORD_PREDICT || kind == RECORD_EXPECT || kind == RECORD_CONFIRM ||
           kind == RECORD_HOLD || kind == RECORD_OPEN;
}

// Fills the frame; its records are in `records`.  Returns their number.
static uint32_t fill(struct rng *rng, struct frame_record *records)
{
    uint32_t count = 0;
    uint32_t wanted = 1 + rng_below(rng, record_max - 1);
    while (count < wanted) {
        struct frame_record record = random_record(rng);
        record.backend = frame_writer_backend(
            &writer, &(struct frame_backend){.identity = 1 + rng_below(rng, 5)});
        if (!frame_writer_add(&writer, &record)) {
            break;
        }
        records[count++] = record;
    }
    return count;
}

static bool is_same(const struct frame_record *a, const struct frame_record *b)
{
    bool keys_are_same =
        !has_keys(a->kind) || (a->key_count == b->key_count && b->is_known &&
                               memcmp(a->keys, b->keys, a->key_count * sizeof(a->keys[0])) == 0);
    switch (a->kind) {
    case RECORD_LOAD:
        return a->load.requests == b->load.requests && a->load.begun_tokens == b->load.begun_tokens;
    case RECORD_HOLD:
        return keys_are_same && a->age == b->age && a->age_s == b->age_s;
    case RECORD_SESSION:
        return a->session == b->session && a->stamp == b->stamp;
    case RECORD_TRAFFIC:
        return a->pool == b->pool && a->arrivals == b->arrivals;
    case RECORD_CLOCK:
        return a->clock == b->clock;
    case RECORD_ECHO:
        return a->router == b->router && a->clock == b->clock && a->age == b->age;
    case RECORD_COVER:
        return a->router == b->router && a->sequence == b->sequence;
    case RECORD_EVICTED:
        return a->age == b->age;
    case RECORD_OPEN:
        return keys_are_same;
    case RECORD_SETTING:
        return a->setting.field == b->setting.field && a->setting.value == b->setting.value &&
               a->setting.stamp == b->setting.stamp;
    case RECORD_SPEED:
        return a->speed.prefill_ns == b->speed.prefill_ns && a->speed.step_ns == b->speed.step_ns;
    default:
        return keys_are_same && a->number == b->number;
    }
}

static void carry_many(struct rng *rng)
{
    struct frame_record records[record_max];
    struct frame_record out;
    uint32_t count = fill(rng, records);
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    struct wire_reader reader = wire_reader_of(slice_of(frame, size));
    CHECK(frame_read_head(&reader, &head));
    CHECK(key_window_skip_to(&receiver, head.position));
    for (uint32_t i = 0; i < count; i++) {
        CHECK(frame_read_record(&reader, &head, &receiver, keys, &out));
        CHECK_EQ(out.kind, records[i].kind);
        CHECK(is_same(&records[i], &out));
    }
    CHECK(!frame_read_record(&reader, &head, &receiver, keys, &out));
    CHECK(!reader.is_bad);
}

TEST(any_records_come_back_in_their_order)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rng rng = {.state = seed};
        set_up();
        make_chains(&rng);
        for (int round = 0; round < 20; round++) {
            carry_many(&rng);
        }
        tear_down();
    }
}

// Reads all of a frame that may be broken.  The bytes lie alone on the heap, so that a sanitizer
// sees a read behind them.  False: some record is beyond the limits.
static bool read_broken(const uint8_t *bytes, size_t size)
{
    struct key_window window;
    struct frame_record out;
    bool is_good = true;
    uint8_t *alone = malloc(size + 1);
    ASSERT(alone != NULL && key_window_open_receiver(&window, bits));
    memcpy(alone + 1, bytes, size);
    struct wire_reader reader = wire_reader_of(slice_of(alone + 1, size));
    if (frame_read_head(&reader, &head)) {
        is_good = head.backend_count <= frame_backend_max;
        (void)key_window_skip_to(&window, head.position);
        while (frame_read_record(&reader, &head, &window, keys, &out)) {
            is_good &= out.key_count <= frame_key_max && out.backend < frame_backend_max &&
                       (out.key_count == 0 || out.keys == keys);
        }
        is_good &= reader.left == 0;
    }
    key_window_close(&window);
    free(alone);
    return is_good;
}

TEST(a_frame_cut_at_any_byte_is_read_up_to_there)
{
    struct rng rng = {.state = 4};
    struct frame_record records[record_max];
    set_up();
    make_chains(&rng);
    (void)fill(&rng, records);
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    for (size_t cut = 0; cut <= size; cut++) {
        CHECK(read_broken(frame, cut));
    }
    tear_down();
}

static void read_flipped(uint64_t seed)
{
    struct rng rng = {.state = seed};
    struct frame_record records[record_max];
    static uint8_t broken[frame_size_max];
    set_up();
    make_chains(&rng);
    (void)fill(&rng, records);
    size_t size = frame_writer_end(&writer, &batch_head, frame);
    for (int round = 0; round < 100; round++) {
        memcpy(broken, frame, size);
        for (uint32_t flips = 1 + rng_below(&rng, 8); flips > 0; flips--) {
            // Mostly in the head and the first records, where the counts are.
            uint32_t span = rng_below(&rng, 2) == 0 && size > 100 ? 100 : (uint32_t)size;
            broken[rng_below(&rng, span)] = (uint8_t)rng_next(&rng);
        }
        CHECK(read_broken(broken, size));
    }
    tear_down();
}

TEST(flipped_bytes_never_give_more_than_the_limits)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        read_flipped(seed);
    }
}

TEST(a_number_that_is_too_long_or_too_large_is_malformed)
{
    uint8_t bytes[11];
    memset(bytes, 0x80, sizeof(bytes));
    struct wire_reader reader = wire_reader_of(slice_of(bytes, sizeof(bytes)));
    CHECK_EQ(wire_take_varint(&reader), 0);
    CHECK(reader.is_bad);
    bytes[0] = 11;
    reader = wire_reader_of(slice_of(bytes, 1));
    CHECK_EQ(wire_take_count(&reader, 10), 0);
    CHECK(reader.is_bad);
    reader = wire_reader_of(slice_of(bytes, 1));
    CHECK_EQ(wire_take_count(&reader, 11), 11);
    CHECK(!reader.is_bad);
}

static void carry_number(uint64_t number)
{
    uint8_t bytes[wire_varint_size_max];
    struct wire_writer out = wire_writer_over(bytes, sizeof(bytes));
    wire_put_varint(&out, number);
    struct wire_reader reader = wire_reader_of(slice_of(bytes, out.size));
    CHECK(!out.is_full);
    CHECK_EQ(wire_take_varint(&reader), number);
    CHECK_EQ(reader.left, 0);
    reader = wire_reader_of(slice_of(bytes, out.size - 1));
    CHECK_EQ(wire_take_varint(&reader), 0);
    CHECK(reader.is_bad);
}

TEST(numbers_of_every_size_come_back)
{
    for (uint32_t shift = 0; shift < 64; shift++) {
        for (int64_t off = -1; off <= 1; off++) {
            carry_number((1ULL << shift) + (uint64_t)off);
        }
    }
}

TEST(a_full_writer_stays_full_and_a_bad_reader_gives_zeros)
{
    uint8_t bytes[4] = {0};
    struct wire_writer out = wire_writer_over(bytes, 3);
    wire_put_word(&out, 1);
    CHECK(out.is_full);
    CHECK_EQ(out.size, 0);
    struct wire_reader reader = wire_reader_of(slice_of(bytes, 4));
    CHECK_EQ(wire_take_word(&reader), 0);
    CHECK(reader.is_bad);
    CHECK_EQ(wire_take_byte(&reader), 0);
    struct wire_reader part = wire_take_part(&reader, 1);
    CHECK(part.is_bad);
}
