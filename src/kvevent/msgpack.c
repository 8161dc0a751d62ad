// SPDX-License-Identifier: Apache-2.0

#include "kvevent/msgpack.h"

#include "base/base.h"
#include "kvevent/msgpack_vector_internal.h"

#include <string.h>

// The values that begin with the bytes 0xc0 to 0xdf.
struct msgpack_head {
    enum msgpack_kind kind;
    uint8_t width;    // of the big-endian number that follows: the value, a size or a count
    uint8_t fixed;    // the number, if width is 0
    bool is_signed;   // an integer
    bool is_reserved; // invalid
};

static const struct msgpack_head heads[32] = {
    [0x00] = {.kind = MSGPACK_NIL},
    [0x01] = {.is_reserved = true},
    [0x02] = {.kind = MSGPACK_BOOL, .fixed = 0},
    [0x03] = {.kind = MSGPACK_BOOL, .fixed = 1},
    [0x04] = {.kind = MSGPACK_BINARY, .width = 1},
    [0x05] = {.kind = MSGPACK_BINARY, .width = 2},
    [0x06] = {.kind = MSGPACK_BINARY, .width = 4},
    [0x07] = {.kind = MSGPACK_EXTENSION, .width = 1},
    [0x08] = {.kind = MSGPACK_EXTENSION, .width = 2},
    [0x09] = {.kind = MSGPACK_EXTENSION, .width = 4},
    [0x0a] = {.kind = MSGPACK_FLOAT, .width = 4},
    [0x0b] = {.kind = MSGPACK_FLOAT, .width = 8},
    [0x0c] = {.kind = MSGPACK_UNSIGNED, .width = 1},
    [0x0d] = {.kind = MSGPACK_UNSIGNED, .width = 2},
    [0x0e] = {.kind = MSGPACK_UNSIGNED, .width = 4},
    [0x0f] = {.kind = MSGPACK_UNSIGNED, .width = 8},
    [0x10] = {.kind = MSGPACK_UNSIGNED, .width = 1, .is_signed = true},
    [0x11] = {.kind = MSGPACK_UNSIGNED, .width = 2, .is_signed = true},
    [0x12] = {.kind = MSGPACK_UNSIGNED, .width = 4, .is_signed = true},
    [0x13] = {.kind = MSGPACK_UNSIGNED, .width = 8, .is_signed = true},
    [0x14] = {.kind = MSGPACK_EXTENSION, .fixed = 1},
    [0x15] = {.kind = MSGPACK_EXTENSION, .fixed = 2},
    [0x16] = {.kind = MSGPACK_EXTENSION, .fixed = 4},
    [0x17] = {.kind = MSGPACK_EXTENSION, .fixed = 8},
    [0x18] = {.kind = MSGPACK_EXTENSION, .fixed = 16},
    [0x19] = {.kind = MSGPACK_STRING, .width = 1},
    [0x1a] = {.kind = MSGPACK_STRING, .width = 2},
    [0x1b] = {.kind = MSGPACK_STRING, .width = 4},
    [0x1c] = {.kind = MSGPACK_ARRAY, .width = 2},
    [0x1d] = {.kind = MSGPACK_ARRAY, .width = 4},
    [0x1e] = {.kind = MSGPACK_MAP, .width = 2},
    [0x1f] = {.kind = MSGPACK_MAP, .width = 4},
};

const uint32_t msgpack_id_masks[msgpack_id_size + 1] = {0, 0xff, 0xff, 0xffff, 0, 0xffffffff};

// By its first byte, the size of an id in its shortest form; 0: not an id.
static const uint8_t id_sizes[256] = {
    [0 ... 0x7f] = 1,
    [0xcc] = 2,
    [0xcd] = 3,
    [0xce] = 5,
};

static bool stop_cursor(struct msgpack *cursor)
{
    cursor->is_broken = true;
    cursor->at = cursor->end;
    return false;
}

static size_t bytes_left(const struct msgpack *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

static uint64_t read_big_endian(const uint8_t *bytes, uint32_t width)
{
    ASSERT_SLOW(width <= sizeof(uint64_t));
    uint64_t number = 0;
    for (uint32_t i = 0; i < width; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

// An integer of so many bytes, with its sign.
static void extend_sign(struct msgpack_value *value, uint32_t width)
{
    ASSERT_SLOW(width >= 1 && width <= sizeof(uint64_t));
    uint32_t unused = 64 - 8 * width;
    int64_t number = (int64_t)(value->number << unused) >> unused;
    value->number = (uint64_t)number;
    value->kind = number < 0 ? MSGPACK_NEGATIVE : MSGPACK_UNSIGNED;
}

// The first byte, and the number behind it.
static bool read_value_head(struct msgpack *cursor, struct msgpack_value *value)
{
    uint8_t tag = *cursor->at++;

    *value = (struct msgpack_value){.kind = MSGPACK_UNSIGNED, .number = tag};
    if (tag < 0x80) {
        return true;
    }
    if (tag >= 0xe0) {
        extend_sign(value, 1);
        return true;
    }
    if (tag < 0xc0) {
        value->kind = tag < 0x90 ? MSGPACK_MAP : tag < 0xa0 ? MSGPACK_ARRAY : MSGPACK_STRING;
        value->number = tag < 0xa0 ? tag & 0x0f : tag & 0x1f;
        return true;
    }
    const struct msgpack_head *head = &heads[tag - 0xc0];
    if (head->is_reserved || head->width > bytes_left(cursor)) {
        return false;
    }
    value->kind = head->kind;
    value->number = head->width > 0 ? read_big_endian(cursor->at, head->width) : head->fixed;
    cursor->at += head->width;
    if (head->is_signed) {
        extend_sign(value, head->width);
    }
    return true;
}

// The bytes that belong to a head; for containers, whether enough bytes are left for their
// elements.
static bool read_value_body(struct msgpack *cursor, struct msgpack_value *value)
{
    if (value->kind < MSGPACK_STRING) {
        return true;
    }
    if (value->kind == MSGPACK_ARRAY) {
        return value->number <= bytes_left(cursor);
    }
    if (value->kind == MSGPACK_MAP) {
        return value->number <= bytes_left(cursor) / 2;
    }
    uint64_t size = value->number;
    uint64_t type_size = value->kind == MSGPACK_EXTENSION;
    if (type_size + size > bytes_left(cursor)) {
        return false;
    }
    value->number = type_size > 0 ? *cursor->at : 0;
    value->bytes = slice_of(cursor->at + type_size, size);
    cursor->at += type_size + size;
    return true;
}

bool msgpack_next(struct msgpack *cursor, struct msgpack_value *out)
{
    struct msgpack_value value;

    if (cursor->at == cursor->end || !read_value_head(cursor, &value) ||
        !read_value_body(cursor, &value)) {
        return stop_cursor(cursor);
    }
    *out = value;
    return true;
}

// Every value takes at least a byte, so the number of values to come never overflows.
bool msgpack_skip(struct msgpack *cursor, uint64_t count)
{
    while (count > 0) {
        struct msgpack_value value;
        if (count > bytes_left(cursor) || !msgpack_next(cursor, &value)) {
            return stop_cursor(cursor);
        }
        count--;
        if (value.kind == MSGPACK_ARRAY) {
            count += value.number;
        } else if (value.kind == MSGPACK_MAP) {
            count += 2 * value.number;
        }
    }
    return true;
}

bool msgpack_leave(struct msgpack *cursor, const struct msgpack_value *value)
{
    ASSERT_SLOW(value->kind <= MSGPACK_MAP);
    switch (value->kind) {
    case MSGPACK_ARRAY:
        return msgpack_skip(cursor, value->number);
    case MSGPACK_MAP:
        return msgpack_skip(cursor, 2 * value->number);
    default:
        return true;
    }
}

uint32_t msgpack_nils(struct msgpack *cursor, uint32_t count)
{
    ASSERT(cursor->at <= cursor->end);
    uint32_t most = bytes_left(cursor) < count ? (uint32_t)bytes_left(cursor) : count;
    uint32_t done = 0;
    while (done < most && cursor->at[done] == 0xc0) {
        done++;
    }
    cursor->at += done;
    return done;
}

// Integers of 64 bits.  Returns how many there were.
static uint32_t read_wide(struct msgpack *cursor, uint64_t *out, uint32_t count)
{
    enum { size = 9 };
    const uint8_t *at = cursor->at;
    uint32_t done = 0;
    // One branch for both tags: signed hashes of either sign come in no order.
    while (done < count && cursor->end - at >= size && ((*at == 0xcf) | (*at == 0xd3)) != 0) {
        uint64_t number;
        memcpy(&number, at + 1, sizeof(number));
        out[done++] = __builtin_bswap64(number);
        at += size;
    }
    cursor->at = at;
    return done;
}

uint32_t msgpack_integers(struct msgpack *cursor, uint64_t *out, uint32_t count)
{
    uint32_t done = 0;
    while (done < count) {
        done += read_wide(cursor, out + done, count - done);
        struct msgpack before = *cursor;
        struct msgpack_value value;
        if (done == count || !msgpack_next(cursor, &value)) {
            break;
        }
        if (value.kind != MSGPACK_UNSIGNED && value.kind != MSGPACK_NEGATIVE) {
            *cursor = before;
            break;
        }
        out[done++] = value.number;
    }
    return done;
}

void msgpack_scalar_ids(struct msgpack_id_run *run)
{
    while (run->count > 0 && run->end - run->at >= msgpack_id_size) {
        uint32_t size = id_sizes[*run->at];
        if (size == 0) {
            return;
        }
        run->at += size;
        *run->out++ = (uint32_t)read_big_endian(run->at - 4, 4) & msgpack_id_masks[size];
        run->count--;
    }
}

// An integer of any form.
static bool read_id(struct msgpack *cursor, uint32_t *out)
{
    struct msgpack before = *cursor;
    struct msgpack_value value;

    if (!msgpack_next(cursor, &value)) {
        return false;
    }
    if (value.kind != MSGPACK_UNSIGNED || value.number > UINT32_MAX) {
        *cursor = before;
        return false;
    }
    *out = (uint32_t)value.number;
    return true;
}

static void read_id_run(struct msgpack *cursor, struct msgpack_id_run *run)
{
    ASSERT(cursor->begin <= cursor->at && cursor->at <= cursor->end);
    run->at = cursor->at;
    if (cursor->at - cursor->begin >= msgpack_id_lead) {
        if (msgpack_vector_is_supported()) {
            msgpack_vector_ids(run);
        }
        msgpack_scalar_ids(run);
    }
    cursor->at = run->at;
}

uint32_t msgpack_ids(struct msgpack *cursor, uint32_t *out, uint32_t count)
{
    struct msgpack_id_run run = {.end = cursor->end, .out = out, .count = count};

    while (run.count > 0) {
        read_id_run(cursor, &run);
        if (run.count == 0 || !read_id(cursor, &out[count - run.count])) {
            break;
        }
        run.out++;
        run.count--;
    }
    return count - run.count;
}
