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

#define IS_FREE (1U << 31)

// Four to a line of the CPU's cache.
struct block {
    uint64_t key;
    uint32_t users; // or, of a free one, IS_FREE and its spot in the free list
    // The next one in the ring of those with the same name; the youngest one's is the oldest, and one
    // alone its own.  `none`: no name.
    uint32_t younger;
};

// A place of the table of names: open addressing, linear probing.
struct place {
    uint32_t tag;   // the high half of the key's hash, whose first bits say where it belongs
    uint32_t block; // the oldest of that name; `none`: empty
};

// The free list is an array, so that what comes next is known ahead.  It goes round: positions are
// counted on without end.  Who is taken from the middle leaves a gap, `none`; when there is no room left,
// the gaps are closed.
struct free_list {
    uint32_t head; // the position of the first
    uint32_t tail; // and behind the last
    uint32_t mask; // from a position to a spot
    uint32_t count;
    uint32_t *spots;
};

struct kv_pool {
    uint32_t block_count;
    uint32_t mask;  // of the table
    uint32_t shift; // from a tag to a place
    struct block *blocks;
    uint32_t *older; // the ring the other way round; not of those alone, which are most
    struct place *places;
    struct free_list free;
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

__attribute__((always_inline)) static inline void expect_key(const struct kv_pool *pool,
                                                             uint64_t key)
{
    __builtin_prefetch(&pool->places[tag_of(key) >> pool->shift], 1);
}

// Where the key is, or would be.
static struct place *find(const struct kv_pool *pool, uint64_t key)
{
    uint32_t tag = tag_of(key);
    uint32_t at = tag >> pool->shift;

    while (pool->places[at].block != none &&
           (pool->places[at].tag != tag || pool->blocks[pool->places[at].block].key != key)) {
        at = (at + 1) & pool->mask;
    }
    return &pool->places[at];
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

static void close_gaps(struct kv_pool *pool)
{
    struct free_list *list = &pool->free;
    uint32_t kept = list->head;

    for (uint32_t at = list->head; at != list->tail; at++) {
        uint32_t block = list->spots[at & list->mask];
        if (block != none) {
            pool->blocks[block].users = IS_FREE | (kept & list->mask);
            list->spots[kept++ & list->mask] = block;
        }
    }
    list->tail = kept;
}

static void add_free(struct kv_pool *pool, uint32_t block, bool is_first)
{
    struct free_list *list = &pool->free;

    if (list->tail - list->head > list->mask) {
        close_gaps(pool);
    }
    uint32_t spot = (is_first ? --list->head : list->tail++) & list->mask;
    list->spots[spot] = block;
    pool->blocks[block].users = IS_FREE | spot;
    list->count++;
}

static void remove_free(struct kv_pool *pool, uint32_t block)
{
    pool->free.spots[pool->blocks[block].users & ~IS_FREE] = none;
    pool->free.count--;
    pool->blocks[block].users = 0;
}

static bool is_free(const struct block *block)
{
    return (block->users & IS_FREE) != 0;
}

static bool is_named(const struct block *block)
{
    return block->younger != none;
}

// The smallest power of two that is not below.
static uint32_t power_above(uint32_t count)
{
    return count <= 1 ? 1 : 1U << (32 - __builtin_clz(count - 1));
}

struct kv_pool *kv_pool_create(uint32_t block_count, void (*evicted)(void *owner, uint64_t key),
                               void *owner)
{
    ASSERT(block_count > 0 && block_count < 1U << 30);
    // Room for a table that is full by two thirds, and for as many gaps as blocks.
    uint32_t place_count = power_above(block_count + block_count / 2 + 1);
    uint32_t spot_count = power_above(2 * block_count);
    struct kv_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct kv_pool){
        .block_count = block_count,
        .mask = place_count - 1,
        .shift = (uint32_t)__builtin_clz(place_count - 1),
        .blocks = calloc(block_count, sizeof(struct block)),
        .older = malloc(block_count * sizeof(uint32_t)),
        .places = malloc(place_count * sizeof(struct place)),
        .free = {.mask = spot_count - 1, .spots = calloc(spot_count, sizeof(uint32_t))},
        .evicted = evicted,
        .owner = owner,
    };
    if (pool->blocks == NULL || pool->older == NULL || pool->places == NULL ||
        pool->free.spots == NULL) {
        kv_pool_destroy(&pool);
        return NULL;
    }
    clear_places(pool);
    for (uint32_t i = 0; i < block_count; i++) {
        pool->blocks[i].younger = none;
        add_free(pool, i, false);
    }
    return pool;
}

void kv_pool_destroy(struct kv_pool **pool_ptr)
{
    struct kv_pool *pool = *pool_ptr;
    *pool_ptr = NULL;

    if (pool != NULL) {
        free(pool->blocks);
        free(pool->older);
        free(pool->places);
        free(pool->free.spots);
        free(pool);
    }
}

uint32_t kv_pool_free_count(const struct kv_pool *pool)
{
    return pool->free.count;
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
        *idle += is_free(&pool->blocks[block]);
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
        if (is_free(&pool->blocks[block])) {
            remove_free(pool, block);
        }
        pool->blocks[block].users++;
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
        pool->blocks[pool->older[block]].younger = leaving->younger;
        pool->older[leaving->younger] = pool->older[block];
    }
    leaving->younger = none;
}

// Asks for a block further down the free list, and for the name of one that comes sooner.  Inline, or
// gcc 12 sees a function without effect and leaves it out.
__attribute__((always_inline)) static inline void expect_free(const struct kv_pool *pool,
                                                              uint32_t position)
{
    const struct free_list *list = &pool->free;
    uint32_t later = list->spots[(position + 2 * lead) & list->mask];
    uint32_t sooner = list->spots[(position + lead) & list->mask];

    if (later < pool->block_count) {
        __builtin_prefetch(&pool->blocks[later], 1);
    }
    if (sooner < pool->block_count) {
        expect_key(pool, pool->blocks[sooner].key);
    }
}

static uint32_t first_free(struct free_list *list)
{
    uint32_t block;
    do {
        block = list->spots[list->head++ & list->mask];
    } while (block == none);
    list->count--;
    return block;
}

void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks)
{
    ASSERT(count <= pool->free.count);
    for (uint32_t i = 0; i < count; i++) {
        if (count > 1) {
            expect_free(pool, pool->free.head);
        }
        uint32_t block = first_free(&pool->free);
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
    bool is_alone = pool->blocks[oldest].younger == oldest;
    uint32_t youngest = is_alone ? oldest : pool->older[oldest];

    pool->older[block] = youngest;
    pool->blocks[block].younger = oldest;
    pool->blocks[youngest].younger = block;
    pool->older[oldest] = block;
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

        ASSERT(!is_free(named) && !is_named(named));
        named->key = keys[i];
        if (place->block == none) {
            *place = (struct place){.tag = tag_of(keys[i]), .block = blocks[i]};
            named->younger = blocks[i];
        } else {
            join_twins(pool, blocks[i], place->block);
        }
    }
}

void kv_pool_release(struct kv_pool *pool, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        struct block *released = &pool->blocks[blocks[i]];
        if (i >= lead) {
            __builtin_prefetch(&pool->blocks[blocks[i - lead]], 1);
        }
        ASSERT(!is_free(released) && released->users > 0);
        if (--released->users == 0) {
            add_free(pool, blocks[i], !is_named(released));
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
