// SPDX-License-Identifier: Apache-2.0

#include "sim/kv_pool.h"

#include "base/base.h"

#include <stdlib.h>

enum {
    none = UINT32_MAX,
    // How far ahead memory is asked for.  A pool is some MB, and there are many of them: without it
    // most of the time goes into waiting, place by place.
    lead = 12,
};

// Two to a line of the CPU's cache.
struct block {
    uint64_t key;
    uint32_t previous; // in the free list
    uint32_t next;
    uint32_t users;
    // The ring of those with the same name, a block alone being its own neighbour; `none`: no name.
    uint32_t older;
    uint32_t younger; // the youngest one's is the oldest
};

// A place of the table of names: open addressing, linear probing.
struct place {
    uint32_t tag;   // the high half of the key's hash, whose first bits say where it belongs
    uint32_t block; // the oldest of that name; `none`: empty
};

struct kv_pool {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t mask;        // of the table
    uint32_t shift;       // from a tag to a place
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
static uint32_t tag_of(uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15) >> 32);
}

static void expect_key(const struct kv_pool *pool, uint64_t key)
{
    __builtin_prefetch(&pool->places[tag_of(key) >> pool->shift], 1);
}

// Where the key is, or would be.
static struct place *find(const struct kv_pool *pool, uint64_t key)
{
    uint32_t tag = tag_of(key);
    struct place *place = &pool->places[tag >> pool->shift];

    while (place->block != none && (place->tag != tag || pool->blocks[place->block].key != key)) {
        place = &pool->places[(uint32_t)(place + 1 - pool->places) & pool->mask];
    }
    return place;
}

// Where a block is that is the oldest of its name.
static struct place *find_block(const struct kv_pool *pool, uint32_t block)
{
    uint32_t at = tag_of(pool->blocks[block].key) >> pool->shift;
    while (pool->places[at].block != block) {
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
        uint32_t home = pool->places[at].tag >> pool->shift;
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

static bool is_named(const struct block *block)
{
    return block->younger != none;
}

struct kv_pool *kv_pool_create(uint32_t block_count, void (*evicted)(void *owner, uint64_t key),
                               void *owner)
{
    ASSERT(block_count > 0 && block_count < 1U << 30);
    uint32_t place_count = 16;
    uint32_t shift = 28;
    while (place_count < block_count + block_count / 2) {
        place_count *= 2;
        shift--;
    }
    struct kv_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct kv_pool){
        .block_count = block_count,
        .mask = place_count - 1,
        .shift = shift,
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
        pool->blocks[i].younger = none;
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
        if (i + lead < count) {
            expect_key(pool, keys[i + lead]);
        }
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
        if (i + lead < count) {
            expect_key(pool, keys[i + lead]);
        }
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

    if (leaving->younger == block) {
        empty_place(pool, find_block(pool, block));
    } else {
        struct place *place = find(pool, leaving->key);
        place->block = place->block == block ? leaving->younger : place->block;
        pool->blocks[leaving->older].younger = leaving->younger;
        pool->blocks[leaving->younger].older = leaving->older;
    }
    leaving->younger = none;
}

void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks)
{
    uint32_t ahead = pool->block_count;

    ASSERT(count <= pool->free_count);
    for (uint32_t i = 0; i < lead && i < count; i++) {
        ahead = pool->blocks[ahead].next;
        expect_key(pool, pool->blocks[ahead].key);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i + lead < count) {
            ahead = pool->blocks[ahead].next;
            expect_key(pool, pool->blocks[ahead].key);
        }
        uint32_t block = pool->blocks[pool->block_count].next;
        unlink_free(pool, block);
        if (is_named(&pool->blocks[block])) {
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

// The youngest of a ring whose oldest one is known.
static void join_twins(struct kv_pool *pool, uint32_t block, uint32_t oldest)
{
    uint32_t youngest = pool->blocks[oldest].older;

    pool->blocks[block].older = youngest;
    pool->blocks[block].younger = oldest;
    pool->blocks[youngest].younger = block;
    pool->blocks[oldest].older = block;
}

void kv_pool_name(struct kv_pool *pool, const uint32_t *blocks, const uint64_t *keys,
                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + lead < count) {
            expect_key(pool, keys[i + lead]);
        }
        struct block *named = &pool->blocks[blocks[i]];
        struct place *place = find(pool, keys[i]);

        ASSERT(named->users > 0 && !is_named(named));
        named->key = keys[i];
        if (place->block == none) {
            *place = (struct place){.tag = tag_of(keys[i]), .block = blocks[i]};
            named->older = named->younger = blocks[i];
        } else {
            join_twins(pool, blocks[i], place->block);
        }
    }
}

void kv_pool_release(struct kv_pool *pool, const uint32_t *blocks, uint32_t count)
{
    uint32_t end = pool->block_count;

    for (uint32_t i = count; i-- > 0;) {
        struct block *released = &pool->blocks[blocks[i]];
        if (i >= lead) {
            __builtin_prefetch(&pool->blocks[blocks[i - lead]], 1);
        }
        ASSERT(released->users > 0);
        if (--released->users > 0) {
            continue;
        }
        if (is_named(released)) {
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
        pool->blocks[i].younger = none;
    }
}
