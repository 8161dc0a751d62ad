// SPDX-License-Identifier: Apache-2.0

#include "base/pool.h"

#include "base/base.h"

#include <string.h>

// gcc says it with a macro, clang with a feature.
#if defined(__SANITIZE_ADDRESS__)
#define POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON 1
#endif
#endif
#ifdef POISON
void __asan_poison_memory_region(void const volatile *bytes, size_t size);
void __asan_unpoison_memory_region(void const volatile *bytes, size_t size);
#define SLOT_POISON(bytes, size) __asan_poison_memory_region(bytes, size)
#define SLOT_UNPOISON(bytes, size) __asan_unpoison_memory_region(bytes, size)
#else
#define SLOT_POISON(bytes, size) ((void)(bytes), (void)(size))
#define SLOT_UNPOISON(bytes, size) ((void)(bytes), (void)(size))
#endif

static size_t slots_size(size_t slot_size, uint32_t capacity)
{
    return (slot_size + 63) / 64 * 64 * capacity;
}

size_t pool_memory_size(size_t slot_size, uint32_t capacity)
{
    return slots_size(slot_size, capacity) + capacity * sizeof(uint32_t);
}

void pool_init(struct pool *pool, void *memory, size_t slot_size, uint32_t capacity)
{
    ASSERT(slot_size > 0 && capacity > 0 && memory != NULL);

    uint8_t *slots = memory;
    void *stack = slots + slots_size(slot_size, capacity);
    *pool = (struct pool){
        .slots = slots,
        .slot_size = (slot_size + 63) / 64 * 64,
        .capacity = capacity,
        .free_stack = stack,
    };
}

void pool_fini(struct pool *pool)
{
    ASSERT(pool_in_use(pool) == 0);
    SLOT_UNPOISON(pool->slots, pool->slot_size * pool->fresh);
    *pool = (struct pool){0};
}

uint32_t pool_in_use(const struct pool *pool)
{
    return pool->fresh - pool->free_count;
}

void *pool_take(struct pool *pool)
{
    uint32_t index;

    if (pool->free_count > 0) {
        index = pool->free_stack[--pool->free_count];
        pool->free_low = pool->free_count < pool->free_low ? pool->free_count : pool->free_low;
        pool->clean_count =
            pool->free_count < pool->clean_count ? pool->free_count : pool->clean_count;
    } else if (pool->fresh < pool->capacity) {
        index = pool->fresh++;
        pool->free_low = 0;
    } else {
        return NULL;
    }
    uint8_t *slot = pool->slots + index * pool->slot_size;
    SLOT_UNPOISON(slot, pool->slot_size);
    return slot;
}

void pool_put(struct pool *pool, void *slot_ptr)
{
    uint8_t *slot;
    memcpy(&slot, slot_ptr, sizeof(slot)); // of whatever pointer type it is
    memset(slot_ptr, 0, sizeof(slot));

    ASSERT(slot >= pool->slots);
    size_t offset = (size_t)(slot - pool->slots);
    size_t index = offset / pool->slot_size;
    ASSERT(offset % pool->slot_size == 0 && index < pool->fresh);
    ASSERT(pool->free_count < pool->fresh);

    SLOT_POISON(slot, pool->slot_size);
    pool->free_stack[pool->free_count++] = (uint32_t)index;
}

uint32_t pool_trim(struct pool *pool, pool_discard_fn *discard)
{
    uint32_t discarded = 0;

    for (uint32_t i = pool->clean_count; i < pool->free_low; i++) {
        discard(pool->slots + pool->free_stack[i] * pool->slot_size, pool->slot_size);
        discarded++;
    }
    if (pool->free_low > pool->clean_count) {
        pool->clean_count = pool->free_low;
    }
    pool->free_low = pool->free_count;
    return discarded;
}
