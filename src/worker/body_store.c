// SPDX-License-Identifier: Apache-2.0

#include "worker/body_store.h"

#include "base/base.h"
#include "sys/pages.h"

#include <string.h>

// The smallest takes most chat prompts; the largest is whatever the configuration allows.
static const size_t class_sizes[body_class_count - 1] = {128 << 10, 1 << 20, 8 << 20};

bool body_store_init(struct body_store *store, uint64_t body_size_max, uint64_t memory_max,
                     atomic_uint_fast64_t *used)
{
    *store = (struct body_store){.memory_max = memory_max, .used = used};
    for (uint32_t i = 0; i < body_class_count; i++) {
        bool last = i + 1 == body_class_count || class_sizes[i] >= body_size_max;
        size_t size = last ? (body_size_max + 4095) / 4096 * 4096 : class_sizes[i];
        uint64_t count = memory_max / size;
        count = count == 0 ? 1 : count;
        store->sizes[i] = size;
        store->memory[i] = pages_reserve(pool_memory_size(size, (uint32_t)count));
        if (store->memory[i] == NULL) {
            body_store_fini(store);
            return false;
        }
        pool_init(&store->classes[i], store->memory[i], size, (uint32_t)count);
    }
    return true;
}

void body_store_fini(struct body_store *store)
{
    for (uint32_t i = 0; i < body_class_count; i++) {
        if (store->memory[i] != NULL) {
            struct pool *pool = &store->classes[i];
            size_t size = pool_memory_size(pool->slot_size, pool->capacity);
            pool_fini(pool);
            pages_release(&store->memory[i], size);
        }
    }
}

// The charge for a block of a class.  The largest may be a little larger than the bound, for the
// sake of trailers; alone, one always fits.
static uint64_t body_block_price(const struct body_store *store, uint32_t class_index)
{
    uint64_t size = store->sizes[class_index];
    return size < store->memory_max ? size : store->memory_max;
}

static bool body_store_charge(struct body_store *store, uint64_t size)
{
    uint64_t before = atomic_fetch_add_explicit(store->used, size, memory_order_relaxed);
    if (before + size <= store->memory_max) {
        return true;
    }
    atomic_fetch_sub_explicit(store->used, size, memory_order_relaxed);
    return false;
}

// A block of at least `size` bytes, of which `paid` are charged already.
static bool body_store_take_slot(struct body_store *store, size_t size, uint64_t paid,
                                 struct body_block *out)
{
    uint32_t i = 0;
    while (i < body_class_count && store->sizes[i] < size) {
        i++;
    }
    ASSERT(i < body_class_count && body_block_price(store, i) >= paid);
    uint64_t extra = body_block_price(store, i) - paid;
    if (!body_store_charge(store, extra)) {
        return false;
    }
    uint8_t *bytes = pool_take(&store->classes[i]);
    if (bytes == NULL) {
        atomic_fetch_sub_explicit(store->used, extra, memory_order_relaxed);
        return false;
    }
    *out = (struct body_block){.bytes = bytes, .capacity = store->sizes[i], .class_index = i};
    return true;
}

bool body_store_take(struct body_store *store, size_t size, struct body_block *out)
{
    return body_store_take_slot(store, size, 0, out);
}

bool body_store_grow(struct body_store *store, struct body_block *block, size_t used, size_t size)
{
    struct body_block larger;
    if (!body_store_take_slot(store, size, body_block_price(store, block->class_index), &larger)) {
        return false;
    }
    memcpy(larger.bytes, block->bytes, used);
    pool_put(&store->classes[block->class_index], &block->bytes);
    *block = larger;
    return true;
}

void body_store_put(struct body_store *store, struct body_block *block)
{
    if (block->bytes == NULL) {
        return;
    }
    atomic_fetch_sub_explicit(store->used, body_block_price(store, block->class_index),
                              memory_order_relaxed);
    pool_put(&store->classes[block->class_index], &block->bytes);
    block->capacity = 0;
}

void body_store_trim(struct body_store *store)
{
    for (uint32_t i = 0; i < body_class_count; i++) {
        pool_trim(&store->classes[i], pages_discard);
    }
}
