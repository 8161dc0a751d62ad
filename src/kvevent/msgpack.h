// SPDX-License-Identifier: Apache-2.0
//
// msgpack.h -- a pull cursor over msgpack: reads values in place, front to back, without a tree.
//
//     struct msgpack cursor = msgpack_open(bytes);
//     struct msgpack_value value;
//     if (msgpack_next(&cursor, &value) && value.kind == MSGPACK_MAP) {
//         for (uint64_t i = 0; i < value.number; i++) {
//             msgpack_next(&cursor, &key);      // its content follows: a key,
//             msgpack_skip(&cursor, 1);         // and a value
//         }
//     }
//
// The head of an array or map is handed out with its count, which never exceeds what the
// remaining bytes can hold; its elements come next unless they are skipped.  Errors stick: after
// the first one no value is left and every function returns false.
//
// Time is linear in the bytes.  Nesting is not limited and need not be: no function recurses.
//
// Threads: a cursor belongs to one thread.  Memory: a cursor neither allocates nor copies.  It
// keeps the bytes it was opened on, and every slice it hands out points into them.
#pragma once

#include "base/slice.h"

enum msgpack_kind {
    MSGPACK_NIL,
    MSGPACK_BOOL,
    MSGPACK_UNSIGNED, // signed forms too, if the number is not negative
    MSGPACK_NEGATIVE,
    MSGPACK_FLOAT,
    MSGPACK_STRING,
    MSGPACK_BINARY,
    MSGPACK_EXTENSION,
    MSGPACK_ARRAY,
    MSGPACK_MAP,
};

struct msgpack_value {
    enum msgpack_kind kind;
    // An integer, a negative one in two's complement; the bits of a float, as wide as it is; the
    // type of an extension; the elements of an array; the pairs of a map.
    uint64_t number;
    struct slice bytes; // of a string, of binary, of an extension
};

// A cursor.  Only `at` is for others to read: where the next value begins.
struct msgpack {
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    bool is_broken;
};

static inline struct msgpack msgpack_open(struct slice bytes)
{
    return (struct msgpack){
        .begin = bytes.bytes,
        .at = bytes.bytes,
        .end = slice_end(bytes),
    };
}

// The next value, or the head of one.  False, with `*out` untouched: at the end, or invalid.
bool msgpack_next(struct msgpack *cursor, struct msgpack_value *out);

// Passes over whole values, with all their content.  False: they are not all there.
bool msgpack_skip(struct msgpack *cursor, uint64_t count);

// Passes over the content of a value that msgpack_next has just handed out.
bool msgpack_leave(struct msgpack *cursor, const struct msgpack_value *value);

// Runs: each reads up to `count` values of its kind and returns how many there were; a value of
// another kind is then next.

uint32_t msgpack_nils(struct msgpack *cursor, uint32_t count);

// Integers below 2^32, of any form.
uint32_t msgpack_ids(struct msgpack *cursor, uint32_t *out, uint32_t count);

// Integers of any form and sign, negative ones in two's complement.
uint32_t msgpack_integers(struct msgpack *cursor, uint64_t *out, uint32_t count);
