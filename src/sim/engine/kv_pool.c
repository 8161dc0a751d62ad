// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/kv_pool.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
    none = UINT32_MAX,
    // How far ahead memory is asked for.  A pool is some MB, and there are many of them: without it
    // most of the time goes into waiting, line by line.
    lead = 12,
    bucket_slots = 7,
    bucket_stride = 8, // numbers of places from one bucket to the next
    bucket_fill = 4,   // names, on average, when each block has one of its own
    block_count_max = 1 << 28,
};

#define IS_FREE (1U << 31)
#define HAS_TWIN (1U << 31)

// Four to a line of the CPU's cache.
struct kv_block {
    uint64_t key;
    uint32_t users; // or, of a free one, IS_FREE and its spot in the free list
    uint32_t place; // of its name, which it may share with twins: HAS_TWIN; `none`: no name
};

// Blocks of one name are a ring, from the oldest to the youngest and back.
struct twin {
    uint32_t older;
    uint32_t younger;
};

// The table of names: one line for each bucket.  A name never moves, so that a block knows its
// place.
struct kv_bucket {
    uint32_t tags[bucket_slots];   // of keys; 0: empty
    uint32_t overflow;             // names that are further on because it was full, or pass by here
    uint32_t blocks[bucket_slots]; // the oldest of each name
    uint32_t unused;
};

// The free list is an array, so that the next blocks are known ahead.  It is a ring: positions
// count on without end.  A block taken from the middle leaves a gap, `none`; when the ring is full,
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
    uint32_t shift; // from a tag to the bucket where it belongs
    struct kv_block *blocks;
    struct twin *twins; // of blocks that have some
    struct kv_bucket *buckets;
    struct free_list free;
    kv_pool_evicted_fn *evicted;
    void *owner;
};

// Keys are hashes, but callers of tests may count: the product spreads those too.
static uint32_t kv_pool_tag_of(uint64_t key)
{
    return (uint32_t)((key * 0x9e3779b97f4a7c15) >> 32) | 1;
}

// Inline, or gcc 12 sees a function without effect and leaves it out.
__attribute__((always_inline)) static inline void expect_key(const struct kv_pool *pool,
                                                             uint64_t key)
{
    __builtin_prefetch(&pool->buckets[kv_pool_tag_of(key) >> pool->shift], 1);
}

// A bit for each slot.  All are looked at: it costs less than guessing wrong when to stop.
static uint32_t bucket_slots_with(const struct kv_bucket *bucket, uint32_t tag)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < bucket_slots; i++) {
        slots |= (uint32_t)(bucket->tags[i] == tag) << i;
    }
    return slots;
}

static uint32_t *oldest_at(const struct kv_pool *pool, uint32_t place)
{
    return &pool->buckets[place / bucket_stride].blocks[place % bucket_stride];
}

// The oldest block of that name, or `none`.
static uint32_t kv_pool_find(const struct kv_pool *pool, uint64_t key)
{
    uint32_t tag = kv_pool_tag_of(key);
    uint32_t home = tag >> pool->shift;
    const struct kv_bucket *bucket;
    uint32_t at = home;
    do {
        bucket = &pool->buckets[at];
        for (uint32_t slots = bucket_slots_with(bucket, tag); slots != 0; slots &= slots - 1) {
            uint32_t block = bucket->blocks[__builtin_ctz(slots)];
            if (pool->blocks[block].key == key) {
                return block;
            }
        }
        at = (at + 1) & pool->mask;
    } while (bucket->overflow > 0 && at != home);
    return none;
}

// The place of a new name.
static uint32_t kv_pool_add_name(struct kv_pool *pool, uint64_t key, uint32_t block)
{
    uint32_t tag = kv_pool_tag_of(key);
    uint32_t at = tag >> pool->shift;
    uint32_t empty = bucket_slots_with(&pool->buckets[at], 0);
    while (empty == 0) {
        pool->buckets[at].overflow++;
        at = (at + 1) & pool->mask;
        empty = bucket_slots_with(&pool->buckets[at], 0);
    }
    uint32_t slot = (uint32_t)__builtin_ctz(empty);
    pool->buckets[at].tags[slot] = tag;
    pool->buckets[at].blocks[slot] = block;
    return at * bucket_stride + slot;
}

static void kv_pool_remove_name(struct kv_pool *pool, uint32_t place)
{
    struct kv_bucket *bucket = &pool->buckets[place / bucket_stride];
    uint32_t *tag = &bucket->tags[place % bucket_stride];

    for (uint32_t at = *tag >> pool->shift; at != place / bucket_stride;
         at = (at + 1) & pool->mask) {
        pool->buckets[at].overflow--;
    }
    *tag = 0;
}

static void kv_pool_close_gaps(struct kv_pool *pool)
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
        kv_pool_close_gaps(pool);
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

static bool block_is_free(const struct kv_block *block)
{
    return (block->users & IS_FREE) != 0;
}

static bool block_is_named(const struct kv_block *block)
{
    return block->place != none;
}

// The smallest power of two that is not below.
static uint32_t kv_pool_power_above(uint32_t count)
{
    return count <= 1 ? 1 : 1U << (32 - __builtin_clz(count - 1));
}

struct kv_pool *kv_pool_create(uint32_t block_count, kv_pool_evicted_fn *evicted, void *owner)
{
    ASSERT(block_count > 0 && block_count <= block_count_max);
    uint32_t bucket_count = kv_pool_power_above(block_count / bucket_fill + 2);
    uint32_t spot_count = kv_pool_power_above(2 * block_count); // as many gaps as blocks
    struct kv_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return NULL;
    }
    *pool = (struct kv_pool){
        .block_count = block_count,
        .mask = bucket_count - 1,
        .shift = (uint32_t)__builtin_clz(bucket_count - 1),
        .blocks = calloc(block_count, sizeof(struct kv_block)),
        .twins = calloc(block_count, sizeof(struct twin)),
        .buckets = aligned_alloc(sizeof(struct kv_bucket), bucket_count * sizeof(struct kv_bucket)),
        .free = {.mask = spot_count - 1, .spots = calloc(spot_count, sizeof(uint32_t))},
        .evicted = evicted,
        .owner = owner,
    };
    if (pool->blocks == NULL || pool->twins == NULL || pool->buckets == NULL ||
        pool->free.spots == NULL) {
        kv_pool_destroy(&pool);
        return NULL;
    }
    kv_pool_clear(pool);
    for (uint32_t i = 0; i < block_count; i++) {
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
        free(pool->twins);
        free(pool->buckets);
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
            expect_key(pool, keys[i + lead]);
        }
        uint32_t block = kv_pool_find(pool, keys[i]);
        ASSERT(block != none);
        if (block_is_free(&pool->blocks[block])) {
            remove_free(pool, block);
        }
        pool->blocks[block].users++;
        blocks[i] = block;
    }
}

// The youngest of its name, of which there is another.
static void join_twins(struct kv_pool *pool, uint32_t block, uint32_t oldest)
{
    struct twin *twins = pool->twins;

    if ((pool->blocks[oldest].place & HAS_TWIN) == 0) {
        pool->blocks[oldest].place |= HAS_TWIN;
        twins[oldest] = (struct twin){.older = oldest, .younger = oldest};
    }
    uint32_t youngest = twins[oldest].older;
    twins[block] = (struct twin){.older = youngest, .younger = oldest};
    twins[youngest].younger = block;
    twins[oldest].older = block;
    pool->blocks[block].place = pool->blocks[oldest].place;
}

// The name goes to the younger one.
static void leave_twins(struct kv_pool *pool, uint32_t block)
{
    struct twin leaving = pool->twins[block];
    uint32_t *oldest = oldest_at(pool, pool->blocks[block].place & ~HAS_TWIN);

    pool->twins[leaving.older].younger = leaving.younger;
    pool->twins[leaving.younger].older = leaving.older;
    *oldest = *oldest == block ? leaving.younger : *oldest;
    if (leaving.older == leaving.younger) {
        pool->blocks[leaving.older].place &= ~HAS_TWIN;
    }
}

static void forget_name(struct kv_pool *pool, uint32_t block)
{
    if ((pool->blocks[block].place & HAS_TWIN) != 0) {
        leave_twins(pool, block);
    } else {
        kv_pool_remove_name(pool, pool->blocks[block].place);
    }
    pool->blocks[block].place = none;
}

// Asks for a block further down the free list, and for the name of one that comes sooner.
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

static void evict(struct kv_pool *pool, uint32_t block)
{
    forget_name(pool, block);
    if (pool->evicted != NULL) {
        pool->evicted(pool->owner, block, pool->blocks[block].key);
    }
}

void kv_pool_take(struct kv_pool *pool, uint32_t count, uint32_t *blocks)
{
    ASSERT(count <= pool->free.count);
    for (uint32_t i = 0; i < count; i++) {
        if (count > 1) {
            expect_free(pool, pool->free.head);
        }
        uint32_t block = first_free(&pool->free);
        if (block_is_named(&pool->blocks[block])) {
            evict(pool, block);
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
            expect_key(pool, keys[i + lead]);
        }
        struct kv_block *named = &pool->blocks[blocks[i]];
        ASSERT(!block_is_free(named) && !block_is_named(named));
        uint32_t oldest = kv_pool_find(pool, keys[i]);
        named->key = keys[i];
        if (oldest == none) {
            named->place = kv_pool_add_name(pool, keys[i], blocks[i]);
        } else {
            join_twins(pool, blocks[i], oldest);
        }
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
            add_free(pool, blocks[i], !block_is_named(released));
        }
    }
}

void kv_pool_evict_free(struct kv_pool *pool)
{
    const struct free_list *list = &pool->free;
    for (uint32_t at = list->head; at != list->tail; at++) {
        uint32_t block = list->spots[at & list->mask];
        if (block != none && block_is_named(&pool->blocks[block])) {
            evict(pool, block);
        }
    }
}

void kv_pool_clear(struct kv_pool *pool)
{
    memset(pool->buckets, 0, ((size_t)pool->mask + 1) * sizeof(struct kv_bucket));
    for (uint32_t i = 0; i < pool->block_count; i++) {
        pool->blocks[i].place = none;
    }
}
