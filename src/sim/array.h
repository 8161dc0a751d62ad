// SPDX-License-Identifier: Apache-2.0
//
// array.h -- arrays of the simulation that grow with the run.
//
// A run cannot go on without its memory: it asserts.  A trace, the only outside input that fills
// one, is bounded by mooncake_size_max.
#pragma once

#include "base/base.h"

#include <stdint.h>
#include <stdlib.h>

// The array, with room for one item more than its `count`.  NULL is an empty one of capacity 0.
static inline void *array_grow(void *items, uint32_t count, uint32_t *capacity, size_t item_size)
{
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity * 2 + 64;
    items = reallocarray(items, *capacity, item_size);
    ASSERT(items != NULL);
    return items;
}
