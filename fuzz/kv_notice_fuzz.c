// SPDX-License-Identifier: Apache-2.0
//
// For any input: notices keep to their limits and lie within the input, a valid msgpack batch is
// read to its end with a notice for each event, and reading it again gives the same.  The input is
// copied to a block of its exact size, so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "fuzz.h"
#include "kvevent/kv_notice.h"
#include "kvevent/msgpack.h"

#include <stdlib.h>

struct tally {
    uint64_t sum; // of all that was said, in order
    uint64_t count;
    int64_t rank;
    enum status status;
};

static void mix(struct tally *tally, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        tally->sum = (tally->sum ^ at[i]) * 0x100000001b3;
    }
    tally->sum = (tally->sum ^ size) * 0x100000001b3;
}

static void mix_slice(struct tally *tally, struct slice bytes)
{
    mix(tally, bytes.bytes, bytes.size);
}

static void check_extras(const struct kv_notice *notice, struct tally *tally)
{
    size_t size = 0;
    for (uint32_t i = 0; i < notice->extra_count; i++) {
        const struct kv_extra *extra = &notice->extras[i];
        ASSERT(extra->block < notice->hash_count);
        ASSERT(i == 0 || extra->block > notice->extras[i - 1].block);
        ASSERT(extra->bytes.size >= 4);
        size += extra->bytes.size;
        mix_slice(tally, extra->bytes);
    }
    ASSERT(size <= kv_extra_max);
}

static void check_notice(const struct kv_notice *notice, struct tally *tally)
{
    ASSERT(notice->hash_count <= kv_hash_max && notice->token_count <= kv_token_max);
    ASSERT(notice->kind <= KV_NOTICE_MALFORMED && notice->tier < prefix_tier_count);
    ASSERT(notice->is_plain || notice->token_count == 0);
    ASSERT(notice->copies_left == NULL || notice->kind == KV_NOTICE_REMOVED);
    ASSERT(notice->kind < KV_NOTICE_UNKNOWN || notice->hash_count + notice->token_count == 0);
    mix(tally, &notice->kind, sizeof(notice->kind));
    mix(tally, notice->hashes, notice->hash_count * sizeof(uint64_t));
    mix(tally, notice->tokens, notice->token_count * sizeof(uint32_t));
    if (notice->copies_left != NULL) {
        mix(tally, notice->copies_left, notice->hash_count * sizeof(uint32_t));
    }
    mix_slice(tally, notice->adapter);
    mix_slice(tally, notice->salt);
    tally->sum += notice->block_tokens + notice->group + notice->parent + notice->has_parent;
    tally->sum += notice->has_group + 2 * notice->decides + 4 * notice->is_remote;
    check_extras(notice, tally);
}

static void mix_prefetched(void *owner, const uint64_t *hashes, uint32_t count)
{
    ASSERT(count > 0 && count <= kv_hash_max);
    mix(owner, hashes, count * sizeof(*hashes));
}

static struct tally read_all(struct kv_reader *reader, struct slice payload)
{
    struct tally tally = {.status = kv_reader_begin(reader, payload)};
    struct kv_notice notice;

    // Separately: a removal like the one before is not read field by field, and has no hint.
    struct tally prefetched = {0};
    kv_reader_prefetch(reader, mix_prefetched, &prefetched);
    while (tally.status == STATUS_OK) {
        tally.status = kv_reader_next(reader, &notice);
        if (tally.status == STATUS_OK) {
            tally.count++;
            check_notice(&notice, &tally);
        }
    }
    tally.rank = kv_reader_rank(reader);
    ASSERT(tally.rank >= -1);
    ASSERT(tally.status == STATUS_CLOSED || tally.status == STATUS_MALFORMED);
    return tally;
}

// The events of a batch that is an array, if all of it is msgpack; otherwise false.
static bool count_events(struct slice payload, uint64_t *count)
{
    struct msgpack whole = msgpack_open(payload);
    struct msgpack cursor = whole;
    struct msgpack_value batch;
    struct msgpack_value events;
    if (!msgpack_skip(&whole, 1) || !msgpack_next(&cursor, &batch) || batch.kind != MSGPACK_ARRAY ||
        batch.number < 2 || !msgpack_skip(&cursor, 1) || !msgpack_next(&cursor, &events) ||
        events.kind != MSGPACK_ARRAY) {
        return false;
    }
    *count = events.number;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kv_reader *reader; // its memory is taken once, as in earnest
    reader = reader != NULL ? reader : kv_reader_create();
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL && reader != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice payload = slice_of(copy, size);
    struct tally first = read_all(reader, payload);
    struct tally second = read_all(reader, payload);
    uint64_t count = 0;
    ASSERT(first.sum == second.sum && first.count == second.count && first.rank == second.rank);
    ASSERT(first.status == second.status);
    if (count_events(payload, &count)) {
        ASSERT(first.status == STATUS_CLOSED && first.count == count);
    }
    free(copy);
    return 0;
}
