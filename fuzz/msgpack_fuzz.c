// SPDX-License-Identifier: Apache-2.0
//
// For any input: values lie within it, skipping a value ends where walking through it does, and
// runs of integers equal their values one by one.  The input is copied to a block of its exact
// size, so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "fuzz.h"
#include "kvevent/msgpack.h"

#include <stdlib.h>

static void check_value(const struct msgpack *cursor, const struct msgpack_value *value)
{
    uint64_t rest = (uint64_t)(cursor->end - cursor->at);
    ASSERT(value->bytes.size == 0 || (value->bytes.bytes >= cursor->begin &&
                                      value->bytes.bytes + value->bytes.size == cursor->at));
    ASSERT(value->kind != MSGPACK_ARRAY || value->number <= rest);
    ASSERT(value->kind != MSGPACK_MAP || value->number <= rest / 2);
    ASSERT(value->kind != MSGPACK_NEGATIVE || (int64_t)value->number < 0);
    ASSERT(value->kind != MSGPACK_BOOL || value->number <= 1);
}

// As msgpack_skip, one head after the other.
static bool walk(struct msgpack *cursor)
{
    uint64_t pending = 1;
    struct msgpack_value value;
    while (pending > 0 && msgpack_next(cursor, &value)) {
        check_value(cursor, &value);
        pending--;
        pending += value.kind == MSGPACK_ARRAY ? value.number : 0;
        pending += value.kind == MSGPACK_MAP ? 2 * value.number : 0;
    }
    return pending == 0;
}

static bool is_integer(const struct msgpack_value *value)
{
    return value->kind == MSGPACK_UNSIGNED || value->kind == MSGPACK_NEGATIVE;
}

static void check_runs(struct slice bytes)
{
    uint32_t count = (uint32_t)bytes.size;
    uint32_t *ids = malloc((count + 1) * sizeof(*ids));
    uint64_t *integers = malloc((count + 1) * sizeof(*integers));
    ASSERT(ids != NULL && integers != NULL);
    struct msgpack id_cursor = msgpack_open(bytes);
    struct msgpack integer_cursor = msgpack_open(bytes);
    struct msgpack cursor = msgpack_open(bytes);
    uint32_t id_count = msgpack_ids(&id_cursor, ids, count);
    uint32_t integer_count = msgpack_integers(&integer_cursor, integers, count);
    struct msgpack_value value;

    ASSERT(id_count <= integer_count && integer_count <= count);
    for (uint32_t i = 0; i < integer_count; i++) {
        ASSERT(i != id_count || id_cursor.is_broken || id_cursor.at == cursor.at);
        ASSERT(msgpack_next(&cursor, &value) && is_integer(&value));
        ASSERT(value.number == integers[i]);
        ASSERT(i >= id_count || value.number == ids[i]);
    }
    ASSERT(integer_cursor.is_broken || integer_cursor.at == cursor.at);
    ASSERT(integer_count == count || !msgpack_next(&cursor, &value) || !is_integer(&value));
    free(integers);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct msgpack walked = msgpack_open(slice_of(copy, size));
    struct msgpack skipped = walked;
    bool is_whole = walk(&walked);
    ASSERT(msgpack_skip(&skipped, 1) == is_whole);
    ASSERT(skipped.at == walked.at || !is_whole);
    ASSERT(skipped.is_broken == !is_whole);
    check_runs(slice_of(copy, size));
    // Runs begin further inside too, behind the head of an array.
    if (size > 3) {
        check_runs(slice_of(copy + 3, size - 3));
    }
    free(copy);
    return 0;
}
