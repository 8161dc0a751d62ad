// SPDX-License-Identifier: Apache-2.0
//
// msgpack_vector_internal.h -- the inner loop over token ids, two at a time.
//
// Ids of a vocabulary take one, two, three or five bytes, in no predictable order, and where one
// begins is known only when the one before it is.  So no branch depends on their size.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    msgpack_id_size = 5, // bytes of an id, at most
    msgpack_id_lead = 3, // bytes that must be there before an id, which is read by its last four
};

// By the bytes of an id, which of its last four are its value.
extern const uint32_t msgpack_id_masks[msgpack_id_size + 1];

// Cheap enough to ask every time: the C library's start-up code has asked the processor.
static inline bool msgpack_vector_is_supported(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("ssse3");
#else
    return false;
#endif
}

struct msgpack_id_run {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t *out;
    uint32_t count; // wanted
};

// Moves the run behind the ids that it has read: positive fixints and unsigned integers of up to
// 32 bits.  May stop early, and does within 20 bytes of the end.  At least msgpack_id_lead bytes
// are before `at`.
void msgpack_vector_ids(struct msgpack_id_run *run);

// The scalar twin, which stops within 5 bytes of the end.
void msgpack_scalar_ids(struct msgpack_id_run *run);
