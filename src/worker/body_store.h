// SPDX-License-Identifier: Apache-2.0
//
// body_store.h -- room for request bodies that do not fit beside their head.
//
// A body is held in one piece, so that it can be read as one text and sent again to another
// backend.  Blocks come in four sizes; a body that outgrows its block moves to the next.  Address
// space is plentiful and pages are touched only as bytes arrive, so a large block costs what is in
// it.
//
// One shared counter bounds the blocks of all workers together; at the bound a take fails, and the
// client gets a 503.
//
// Threads: one store per worker; the counter is shared.
#pragma once

#include "base/pool.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { body_class_count = 4 };

struct body_block {
    uint8_t *bytes; // NULL: none
    size_t capacity;
    uint32_t class_index;
};

struct body_store {
    struct pool classes[body_class_count];
    size_t sizes[body_class_count];
    void *memory[body_class_count];
    uint64_t memory_max;
    atomic_uint_fast64_t *used; // by all workers
};

// False when address space is short.  Keeps `used`.
bool body_store_init(struct body_store *store, uint64_t body_size_max, uint64_t memory_max,
                     atomic_uint_fast64_t *used);
void body_store_fini(struct body_store *store);

// A block of at least `size` bytes; false when the bound is reached.
bool body_store_take(struct body_store *store, size_t size, struct body_block *out);

// The same bytes, of which `used` matter, in a block of at least `size`.
bool body_store_grow(struct body_store *store, struct body_block *block, size_t used, size_t size);

// Clears the block, which may be empty.
void body_store_put(struct body_store *store, struct body_block *block);

void body_store_trim(struct body_store *store);
