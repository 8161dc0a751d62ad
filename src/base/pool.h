// SPDX-License-Identifier: Apache-2.0
//
// pool.h -- a fixed number of equal slots, taken and put back in constant time.
//
//     memory  [ slot 0: used ][ slot 1: free ][ slot 2: used ][ never taken ... ][ stack ]
//     stack   [ 1 ]    the slot that was put back last is taken first: the CPU cache has it;
//              ^       the bottom was idle longest
//
// The memory is the caller's, reserved and not touched: no page of it is read or written before its
// first use, so a generous limit costs nothing until it is needed.  pool_trim gives the pages of
// slots that were not taken since the previous trim back to the system, so memory shrinks after a
// burst.
//
// Threads: one owner.  Under AddressSanitizer a slot that was put back is poisoned.
#pragma once

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

// Gives the pages of [bytes, bytes + size) back; their content is undefined afterwards.
typedef void pool_discard_fn(void *bytes, size_t size);

// The memory that pool_init needs; a slot is a multiple of 64 bytes.
size_t pool_memory_size(size_t slot_size, uint32_t capacity);

// `memory` is page-aligned and of pool_memory_size.  Keeps it.
void pool_init(struct pool *pool, void *memory, size_t slot_size, uint32_t capacity);

// Every slot must have been put back.  The memory is the caller's again.
void pool_fini(struct pool *pool);

// NULL when all slots are in use.  The bytes are not cleared.
void *pool_take(struct pool *pool);

// `slot_ptr` is a T **, for any T; clears the caller's pointer.
void pool_put(struct pool *pool, void *slot_ptr);

uint32_t pool_in_use(const struct pool *pool);

// Meant for slots of whole pages.  Returns the number of slots discarded.
uint32_t pool_trim(struct pool *pool, pool_discard_fn *discard);
