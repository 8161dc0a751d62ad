// SPDX-License-Identifier: Apache-2.0
//
// pool.h -- a fixed number of equal slots, taken and put back in constant time.
//
//     slots   [ used ][ free ][ used ][ never taken ... ]
//     free    [ 1 ]                      a stack: what was put back last is taken first,
//              ^ bottom: the coldest     since it is warm in the cache
//
// All address space is reserved by _create and no page of it is touched before its first use, so a
// generous limit costs nothing until it is needed.  pool_trim gives the pages of slots that nobody
// wanted since the previous trim back to the system, so a burst does not stay in memory for ever.
//
// Threads: one owner.  Under AddressSanitizer a free slot is poisoned.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
    uint8_t *slots;
    size_t slot_size;
    uint32_t capacity;
    uint32_t fresh;       // slots from here on were never taken
    uint32_t *free_stack; // indices of free slots
    uint32_t free_count;
    uint32_t free_low;    // the fewest free slots since the last trim
    uint32_t clean_count; // slots at the bottom of the stack whose pages were given back
};

// Gives the pages of [bytes, bytes + size) back; what is read there afterwards is undefined.
typedef void pool_discard_fn(void *bytes, size_t size);

// False when address space is short, which only startup has to deal with.  `slot_size` is rounded
// up to a multiple of 64.
bool pool_init(struct pool *pool, size_t slot_size, uint32_t capacity);

// Every slot must have been put back.
void pool_fini(struct pool *pool);

// NULL when all slots are in use.  The bytes are whatever was left in them.
void *pool_take(struct pool *pool);

// Clears the caller's pointer.
void pool_put(struct pool *pool, void *slot_ptr);

uint32_t pool_in_use(const struct pool *pool);

// Meant for slots of whole pages.  Returns the number of slots discarded.
uint32_t pool_trim(struct pool *pool, pool_discard_fn *discard);
