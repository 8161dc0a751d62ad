// SPDX-License-Identifier: Apache-2.0

#include "sim/kv_pool.h"

#include "base/base.h"

#include <stdlib.h>

enum { none = UINT32_MAX };

struct block {
    uint64_t key;
    uint32_t previous; // in the free list
    uint32_t next;
    uint32_t users;
    uint32_t twin; // the next younger block of the same name; `none`: no other
    bool is_named;
};

// A place of the table of names: open addressing, linear probing.
struct place {
    uint64_t key;
    uint32_t block; // `none`: empty
};

struct kv_pool {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t mask;        // of the table
    struct block *blocks; // and behind the last one the end of the free list
    struct place *places;
    void (*evicted)(void *owner, uint64_t key);
    void *owner;
};

static void clear_places(struct kv_pool *pool)
{
    for (uint32_t i = 0; i <= pool->mask; i++) {
        pool->places[i].block = none;
    }
}

// Keys are hashes, but callers of tests may count: the product spreads those too.
static uint32_t home_of(const struct kv_pool *pool, uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15) >> 32) & pool->mask;
}

static struct place *find(const struct kv_pool *pool, uint64_t key)
{
    uint32_t at = home_of(pool, key);
    while (pool->places[at].block != none && pool->places[at].key != key) {
        at = (at + 1) & pool->mask;
    }
    return &pool->places[at];
}

// Moves back what would not be found any more across the gap.
static void empty_place(struct kv_pool *pool, struct place *place)
{
    uint32_t gap = (uint32_t)(place - pool->places);
    for (uint32_t at = (gap + 1) & pool->mask; pool->places[at].block != none;
         at = (at + 1) & pool->mask) {
        uint32_t home = home_of(pool, pool->places[at].key);
        if (((at - home) & pool->mask) >= ((at - gap) & pool->mask)) {
            pool->places[gap] = pool->places[at];
            gap = at;
        }
    }
    pool->places[gap].block = none;
}

static void link_between(struct kv_pool *pool, uint32_t block, uint32_t before, uint32_t after)
{
    pool->blocks[block].previous = before;
    pool->blocks[block].next = after;
    pool->blocks[before].next = block;
    pool->blocks[after].previous = block;
    pool->free_count++;
}

static void unlink_free(struct kv_pool *pool, uint32_t block)
{
    const struct block *leaving = &pool->blocks[block];
    pool->blocks[leaving->previous].next = leaving->next;
    pool->blocks[leaving->next].previous = leaving->previous;
    pool->free_count--;
}

struct kv_pool *kv_pool_create(uint32_t block_count, void (*evicted)(void *owner, uint64_t key),
                               void *owner)
{
    ASSERT(block_count > 0 && block_count < 1U << 30);
    uint32_t place_count = 16;
    while (place_count < block_count + block_count / 2) {
        place_count *= 2;
    }
    struct kv_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct kv_pool){
        .block_count = block_count,
        .mask = place_count - 1,
        .blocks = calloc((size_t)block_count + 1, sizeof(struct block)),
        .places = malloc(place_count * sizeof(struct place)),
        .evicted = evicted,
        .owner = owner,
    };
    if (pool->blocks == NULL || pool->places == NULL) {
        kv_pool_destroy(&pool);
        return NULL;
    }
    clear_places(pool);
    pool->blocks[block_count].previous = pool->blocks[block_count].next = block_count;
    for (uint32_t i = 0; i < block_count; i++) {
        pool->blocks[i].twin = none;
        link_between(pool, i, pool->blocks[block_count].previous, block_count);
    }
    return pool;
}

void kv_pool_destroy(struct kv_pool **pool_ptr)
{
    struct kv_pool *pool = *pool_ptr;
    *pool_ptr = NULL;

    if (pool != NULL) {
        free(pool->blocks);
        free(pool->places);
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
        uint32_t block = find(pool, keys[i])->block;
        if (block == none) {
            return i;
        }
        *idle += pool->blocks[block].users == 0;
    }
    return count;
}

void kv_pool_share(struct kv_pool *pool, const uint64_t *keys, uint32_t count, uint32_t *blocks)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = find(pool, keys[i])->block;
        ASSERT(block != none);
        if (pool->blocks[block].users++ == 0) {
            unlink_free(pool, block);
        }
        blocks[i] = block;
    }
}

// The name goes to the block's younger twin, if it has one.
static void forget_name(struct kv_pool *pool, uint32_t block)
{
    struct block *leaving = &pool->blocks[block];
    struct place *place = find(pool, leaving->key);

    ASSERT(place->block != none);
    if (place->block == block && leaving->twin == none) {
        empty_place(pool, place);
    } else if (place->block == block) {
        place->block = leaving->twin;
    } else {
        uint32_t older = place->block;
        while (pool->blocks[older].twin != block) {
            older = pool->blocks[older].twin;
        }
        pool->blocks[older].twin = leaving->twin;
    }
    leaving->twin = none;
    leaving->is_named = false;
}

void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks)
{
    ASSERT(count <= pool->free_count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = pool->blocks[pool->block_count].next;
        unlink_free(pool, block);
        if (pool->blocks[block].is_named) {
            uint64_t key = pool->blocks[block].key;
            forget_name(pool, block);
            if (pool->evicted != NULL) {
                pool->evicted(pool->owner, key);
            }
        }
        pool->blocks[block].users = 1;
        blocks[i] = block;
    }
}

void kv_pool_name(struct kv_pool *pool, uint32_t block, uint64_t key)
{
    struct block *named = &pool->blocks[block];
    struct place *place = find(pool, key);

    ASSERT(named->users > 0 && !named->is_named);
    named->key = key;
    named->is_named = true;
    if (place->block == none) {
        *place = (struct place){.key = key, .block = block};
        return;
    }
    uint32_t older = place->block;
    while (pool->blocks[older].twin != none) {
        older = pool->blocks[older].twin;
    }
    pool->blocks[older].twin = block;
}

void kv_pool_release(struct kv_pool *pool, const uint32_t *blocks, uint32_t count)
{
    uint32_t end = pool->block_count;

    for (uint32_t i = count; i-- > 0;) {
        struct block *released = &pool->blocks[blocks[i]];
        ASSERT(released->users > 0);
        if (--released->users > 0) {
            continue;
        }
        if (released->is_named) {
            link_between(pool, blocks[i], pool->blocks[end].previous, end);
        } else {
            link_between(pool, blocks[i], end, pool->blocks[end].next);
        }
    }
}

void kv_pool_clear(struct kv_pool *pool)
{
    clear_places(pool);
    for (uint32_t i = 0; i < pool->block_count; i++) {
        pool->blocks[i].is_named = false;
        pool->blocks[i].twin = none;
    }
}
