// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/kv_pool.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
    none = UINT32_MAX,
    unnamed = UINT32_MAX - 1,
    // How far ahead memory is prefetched.  A pool takes some MB, and there are many of them:
    // without prefetching most of the time goes into cache misses.
    lead = 12,
    block_count_max = 1 << 28,
};

struct kv_block {
    uint64_t key;
    uint32_t users; // 0: it is in the free list
    uint32_t next;  // in its bucket; `none`: the last; `unnamed`: in no bucket
    uint32_t free_before;
    uint32_t free_after;
};

struct kv_pool {
    uint32_t block_count;
    uint32_t shift; // from a mixed key to its bucket
    uint32_t free_count;
    struct kv_block *blocks; // one more than there are: the free list begins and ends there
    uint32_t *buckets;       // the first block of each chain; the oldest of a name comes first
    kv_pool_evicted_fn *evicted;
    void *owner;
};

// Keys are hashes, but tests may count: the product spreads those too.
static uint32_t *kv_pool_bucket(const struct kv_pool *pool, uint64_t key)
{
    return &pool->buckets[(key * 0x9e3779b97f4a7c15) >> pool->shift];
}

// Inline, or gcc 12 sees a function without effect and leaves it out.
__attribute__((always_inline)) static inline void kv_pool_prefetch(const struct kv_pool *pool,
                                                                   uint64_t key)
{
    __builtin_prefetch(kv_pool_bucket(pool, key), 1);
}

// The oldest block of that name, or `none`.
static uint32_t kv_pool_find(const struct kv_pool *pool, uint64_t key)
{
    uint32_t block = *kv_pool_bucket(pool, key);
    while (block != none && pool->blocks[block].key != key) {
        block = pool->blocks[block].next;
    }
    return block;
}

// The link of a block's bucket that holds `target`: the block itself, or `none` for the end.
static uint32_t *kv_pool_link(const struct kv_pool *pool, uint64_t key, uint32_t target)
{
    uint32_t *link = kv_pool_bucket(pool, key);
    while (*link != target) {
        link = &pool->blocks[*link].next;
    }
    return link;
}

static void kv_pool_add_free(struct kv_pool *pool, uint32_t block, bool is_first)
{
    struct kv_block *blocks = pool->blocks;
    uint32_t ends = pool->block_count;
    uint32_t before = is_first ? ends : blocks[ends].free_before;
    uint32_t after = is_first ? blocks[ends].free_after : ends;

    blocks[block].free_before = before;
    blocks[block].free_after = after;
    blocks[before].free_after = block;
    blocks[after].free_before = block;
    pool->free_count++;
}

static void kv_pool_remove_free(struct kv_pool *pool, const struct kv_block *block)
{
    pool->blocks[block->free_before].free_after = block->free_after;
    pool->blocks[block->free_after].free_before = block->free_before;
    pool->free_count--;
}

static bool block_is_free(const struct kv_block *block)
{
    return block->users == 0;
}

static bool block_is_named(const struct kv_block *block)
{
    return block->next != unnamed;
}

// The smallest power of two that is not below.
static uint32_t kv_pool_power_above(uint32_t count)
{
    return count <= 1 ? 1 : 1U << (32 - __builtin_clz(count - 1));
}

struct kv_pool *kv_pool_create(uint32_t block_count, kv_pool_evicted_fn *evicted, void *owner)
{
    ASSERT(block_count > 0 && block_count <= block_count_max);
    uint32_t bucket_count = kv_pool_power_above(2 * block_count);
    struct kv_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct kv_pool){
        .block_count = block_count,
        .shift = 64 - (uint32_t)__builtin_ctz(bucket_count),
        .blocks = calloc((size_t)block_count + 1, sizeof(struct kv_block)),
        .buckets = calloc(bucket_count, sizeof(uint32_t)),
        .evicted = evicted,
        .owner = owner,
    };
    if (pool->blocks == NULL || pool->buckets == NULL) {
        kv_pool_destroy(&pool);
        return NULL;
    }
    kv_pool_clear(pool);
    pool->blocks[block_count].free_before = pool->blocks[block_count].free_after = block_count;
    for (uint32_t i = 0; i < block_count; i++) {
        kv_pool_add_free(pool, i, false);
    }
    return pool;
}

void kv_pool_destroy(struct kv_pool **pool_ptr)
{
    struct kv_pool *pool = *pool_ptr;
    *pool_ptr = NULL;

    if (pool != NULL) {
        free(pool->blocks);
        free(pool->buckets);
        free(pool);
    }
}

uint32_t kv_pool_free_count(const struct kv_pool *pool)
{
    return pool->free_count;
}

uint32_t kv_pool_block_count(const struct kv_pool *pool)
{
    return pool->block_count;
}

uint32_t kv_pool_match(const struct kv_pool *pool, const uint64_t *keys, uint32_t count,
                       uint32_t *idle)
{
    *idle = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i + lead < count) {
            kv_pool_prefetch(pool, keys[i + lead]);
        }
        uint32_t block = kv_pool_find(pool, keys[i]);
        if (block == none) {
            return i;
        }
        *idle += block_is_free(&pool->blocks[block]);
    }
    return count;
}

void kv_pool_share(struct kv_pool *pool, const uint64_t *keys, uint32_t count, uint32_t *blocks)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + lead < count) {
            kv_pool_prefetch(pool, keys[i + lead]);
        }
        uint32_t block = kv_pool_find(pool, keys[i]);
        ASSERT(block != none);
        if (block_is_free(&pool->blocks[block])) {
            kv_pool_remove_free(pool, &pool->blocks[block]);
        }
        pool->blocks[block].users++;
        blocks[i] = block;
    }
}

static void kv_pool_evict(struct kv_pool *pool, uint32_t block)
{
    struct kv_block *evicted = &pool->blocks[block];
    *kv_pool_link(pool, evicted->key, block) = evicted->next;
    evicted->next = unnamed;
    if (pool->evicted != NULL) {
        pool->evicted(pool->owner, block, evicted->key);
    }
}

void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks)
{
    ASSERT(count <= pool->free_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = pool->blocks[pool->block_count].free_after;
        kv_pool_remove_free(pool, &pool->blocks[block]);
        __builtin_prefetch(&pool->blocks[pool->blocks[block].free_after], 1);
        if (block_is_named(&pool->blocks[block])) {
            kv_pool_evict(pool, block);
        }
        pool->blocks[block].users = 1;
        blocks[i] = block;
    }
}

void kv_pool_name(struct kv_pool *pool, const uint32_t *blocks, const uint64_t *keys,
                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + lead < count) {
            kv_pool_prefetch(pool, keys[i + lead]);
        }
        struct kv_block *named = &pool->blocks[blocks[i]];
        ASSERT(!block_is_free(named) && !block_is_named(named));
        *kv_pool_link(pool, keys[i], none) = blocks[i];
        named->key = keys[i];
        named->next = none;
    }
}

void kv_pool_release(struct kv_pool *pool, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        struct kv_block *released = &pool->blocks[blocks[i]];
        if (i >= lead) {
            __builtin_prefetch(&pool->blocks[blocks[i - lead]], 1);
        }
        ASSERT(!block_is_free(released) && released->users > 0);
        if (--released->users == 0) {
            kv_pool_add_free(pool, blocks[i], !block_is_named(released));
        }
    }
}

void kv_pool_evict_free(struct kv_pool *pool)
{
    for (uint32_t block = pool->blocks[pool->block_count].free_after; block != pool->block_count;
         block = pool->blocks[block].free_after) {
        if (block_is_named(&pool->blocks[block])) {
            kv_pool_evict(pool, block);
        }
    }
}

void kv_pool_clear(struct kv_pool *pool)
{
    memset(pool->buckets, 0xff, ((size_t)1 << (64 - pool->shift)) * sizeof(uint32_t)); // `none`
    for (uint32_t i = 0; i < pool->block_count; i++) {
        pool->blocks[i].next = unnamed;
    }
}
