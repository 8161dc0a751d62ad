// SPDX-License-Identifier: Apache-2.0
//
// config_memory.h -- the one block that a configuration lives in.
//
//     [ struct config | nodes of the file | values | strings | ...            | free ]
//                                                             ^ used          ^ capacity
//
// Taken from the front and released as a whole.  The block is reserved at its largest, and pages
// that are not used are never touched, so a generous capacity costs address space only.
#pragma once

#include "base/slice.h"

struct config_memory {
    uint8_t *bytes; // zeroed
    size_t used;
    size_t capacity;
};

// Zeroed and aligned for any type; NULL when the rest of the block is too small.
static inline void *config_memory_take(struct config_memory *memory, size_t size)
{
    size_t rounded = (size + 15) / 16 * 16;
    if (rounded < size || rounded > memory->capacity - memory->used) {
        return NULL;
    }
    void *taken = memory->bytes + memory->used;
    memory->used += rounded;
    return taken;
}

// A copy that ends in NUL; NULL when the rest of the block is too small.
static inline char *config_memory_copy(struct config_memory *memory, struct slice text)
{
    char *copy = config_memory_take(memory, text.size + 1);
    if (copy != NULL && text.size > 0) {
        memcpy(copy, text.bytes, text.size);
    }
    return copy;
}
