// SPDX-License-Identifier: Apache-2.0
//
// arena.h -- memory that is given out in order and taken back all at once.
//
//     memory  [ taken ][ taken ][ free ............ ]
//                               ^ used
//
// The memory is the caller's.  Threads: one owner.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct arena {
    uint8_t *bytes;
    size_t size;
    size_t used;
};

// `bytes` is aligned for anything.  Keeps it.
static inline struct arena arena_over(void *bytes, size_t size)
{
    return (struct arena){.bytes = bytes, .size = size};
}

// NULL when it does not fit.  The bytes are not cleared.
static inline void *arena_take(struct arena *arena, size_t size)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > arena->size - arena->used) {
        return NULL;
    }
    void *taken = arena->bytes + arena->used;
    arena->used += rounded;
    return taken;
}

static inline void arena_reset(struct arena *arena)
{
    arena->used = 0;
}
