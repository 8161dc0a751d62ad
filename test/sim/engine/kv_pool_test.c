// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/kv_pool.h"

#include "base/rng.h"
#include "test.h"

enum { size = 8, evicted_max = 64 };

// A pool of 8 blocks, and what it said was evicted.
struct bench {
    struct kv_pool *pool;
    uint64_t evicted[evicted_max];
    uint32_t blocks[evicted_max];
    uint32_t evicted_count;
};

static void note_evicted(void *owner, uint32_t block, uint64_t key)
{
    struct bench *bench = owner;
    ASSERT(bench->evicted_count < evicted_max);
    bench->blocks[bench->evicted_count] = block;
    bench->evicted[bench->evicted_count++] = key;
}

static void make(struct bench *bench)
{
    *bench = (struct bench){.pool = kv_pool_create(size, note_evicted, bench)};
    ASSERT(bench->pool != NULL);
}

// Takes blocks for a request whose whole blocks are named first_key, first_key + 1, ...
static void put(struct bench *bench, uint64_t first_key, uint32_t named, uint32_t unnamed,
                uint32_t *blocks)
{
    kv_pool_take(bench->pool, named + unnamed, blocks);
    for (uint32_t i = 0; i < named; i++) {
        uint64_t key = first_key + i;
        kv_pool_name(bench->pool, &blocks[i], &key, 1);
    }
}

static uint32_t match_one(const struct bench *bench, uint64_t key)
{
    uint32_t idle;
    return kv_pool_match(bench->pool, &key, 1, &idle);
}

TEST(new_blocks_come_in_the_order_of_their_numbers)
{
    struct bench bench;
    uint32_t blocks[size];
    make(&bench);
    CHECK_EQ(kv_pool_block_count(bench.pool), size);
    CHECK_EQ(kv_pool_free_count(bench.pool), size);
    put(&bench, 0, 0, size, blocks);
    for (uint32_t i = 0; i < size; i++) {
        CHECK_EQ(blocks[i], i);
    }
    CHECK_EQ(kv_pool_free_count(bench.pool), 0);
    CHECK_EQ(bench.evicted_count, 0);
    kv_pool_destroy(&bench.pool);
    CHECK(bench.pool == NULL);
}

TEST(a_match_ends_at_the_first_key_that_is_missing_and_counts_the_idle)
{
    struct bench bench;
    uint32_t first[4];
    uint32_t second[2];
    uint32_t idle;
    make(&bench);
    put(&bench, 100, 4, 0, first);
    const uint64_t keys[] = {100, 101, 999, 103};
    CHECK_EQ(kv_pool_match(bench.pool, keys, 4, &idle), 2);
    CHECK_EQ(idle, 0);
    kv_pool_share(bench.pool, keys, 2, second);
    kv_pool_release(bench.pool, first, 4);
    const uint64_t all[] = {100, 101, 102, 103, 104};
    CHECK_EQ(kv_pool_match(bench.pool, all, 5, &idle), 4);
    CHECK_EQ(idle, 2);
    CHECK_EQ(kv_pool_match(bench.pool, all, 3, &idle), 3);
    CHECK_EQ(idle, 1);
    CHECK_EQ(kv_pool_match(bench.pool, all, 0, &idle), 0);
    CHECK_EQ(idle, 0);
    kv_pool_destroy(&bench.pool);
}

TEST(the_longest_unused_request_is_evicted_first_and_its_tail_before_its_head)
{
    struct bench bench;
    uint32_t old[3];
    uint32_t young[3];
    uint32_t all[size];
    make(&bench);
    put(&bench, 10, 3, 0, old);
    put(&bench, 20, 3, 0, young);
    kv_pool_release(bench.pool, old, 3);
    kv_pool_release(bench.pool, young, 3);
    // The two that never had a name come first; they were at the head already.
    put(&bench, 0, 0, size, all);
    const uint64_t expected[] = {12, 11, 10, 22, 21, 20};
    CHECK_EQ(bench.evicted_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(bench.evicted[i], expected[i]);
    }
    CHECK_EQ(all[0], 6);
    CHECK_EQ(all[1], 7);
    CHECK_EQ(all[2], old[2]);
    CHECK_EQ(all[7], young[0]);
    CHECK_EQ(match_one(&bench, 10), 0);
    CHECK_EQ(match_one(&bench, 20), 0);
    kv_pool_destroy(&bench.pool);
}

TEST(a_block_that_was_shared_again_is_evicted_last)
{
    struct bench bench;
    uint32_t blocks[size];
    uint32_t again[2];
    const uint64_t keys[] = {10, 11};
    make(&bench);
    put(&bench, 10, 8, 0, blocks);
    kv_pool_release(bench.pool, blocks, 8);
    kv_pool_share(bench.pool, keys, 2, again);
    CHECK_EQ(again[0], blocks[0]);
    CHECK_EQ(kv_pool_free_count(bench.pool), 6);
    kv_pool_release(bench.pool, again, 2);
    put(&bench, 0, 0, 7, blocks);
    const uint64_t expected[] = {17, 16, 15, 14, 13, 12, 11};
    for (uint32_t i = 0; i < 7; i++) {
        CHECK_EQ(bench.evicted[i], expected[i]);
    }
    CHECK_EQ(match_one(&bench, 10), 1);
    kv_pool_destroy(&bench.pool);
}

TEST(a_partial_block_is_reused_before_blocks_that_were_never_used)
{
    struct bench bench;
    uint32_t blocks[3];
    uint32_t next[2];
    make(&bench);
    put(&bench, 10, 2, 1, blocks);
    kv_pool_release(bench.pool, blocks, 3);
    put(&bench, 0, 0, 2, next);
    CHECK_EQ(next[0], blocks[2]);
    CHECK_EQ(next[1], 3);
    CHECK_EQ(bench.evicted_count, 0);
    kv_pool_destroy(&bench.pool);
}

TEST(a_block_is_free_when_its_last_user_has_released_it)
{
    struct bench bench;
    uint32_t first[2];
    uint32_t second[2];
    const uint64_t keys[] = {10, 11};
    make(&bench);
    put(&bench, 10, 2, 0, first);
    kv_pool_share(bench.pool, keys, 2, second);
    CHECK_EQ(second[0], first[0]);
    CHECK_EQ(second[1], first[1]);
    CHECK_EQ(kv_pool_free_count(bench.pool), 6);
    kv_pool_release(bench.pool, first, 2);
    CHECK_EQ(kv_pool_free_count(bench.pool), 6);
    kv_pool_release(bench.pool, second, 2);
    CHECK_EQ(kv_pool_free_count(bench.pool), 8);
    kv_pool_destroy(&bench.pool);
}

TEST(the_oldest_of_equal_blocks_is_found_and_then_the_next_younger_one)
{
    struct bench bench;
    uint32_t twins[4];
    uint32_t shared;
    uint32_t all[size];
    const uint64_t key = 10;
    make(&bench);
    for (uint32_t i = 0; i < 4; i++) {
        put(&bench, key, 1, 0, &twins[i]);
    }
    kv_pool_share(bench.pool, &key, 1, &shared);
    CHECK_EQ(shared, twins[0]);
    kv_pool_release(bench.pool, &shared, 1);
    // The second oldest goes first, then the oldest, then the youngest.
    kv_pool_release(bench.pool, &twins[1], 1);
    kv_pool_release(bench.pool, &twins[0], 1);
    kv_pool_release(bench.pool, &twins[3], 1);
    put(&bench, 0, 0, 4, all); // the blocks without a name
    put(&bench, 0, 0, 1, all);
    CHECK_EQ(all[0], twins[1]);
    kv_pool_share(bench.pool, &key, 1, &shared);
    CHECK_EQ(shared, twins[0]);
    kv_pool_release(bench.pool, &shared, 1); // and is used last now
    put(&bench, 0, 0, 1, all);
    CHECK_EQ(all[0], twins[3]);
    put(&bench, 0, 0, 1, all);
    CHECK_EQ(all[0], twins[0]);
    kv_pool_share(bench.pool, &key, 1, &shared);
    CHECK_EQ(shared, twins[2]);
    CHECK_EQ(bench.evicted_count, 3); // each copy is told by itself
    kv_pool_destroy(&bench.pool);
}

TEST(the_last_twin_takes_the_name_with_it)
{
    struct bench bench;
    uint32_t twins[2];
    uint32_t rest[size];
    make(&bench);
    put(&bench, 10, 1, 0, &twins[0]);
    put(&bench, 10, 1, 0, &twins[1]);
    kv_pool_release(bench.pool, twins, 2); // the second one is freed first
    put(&bench, 0, 0, 7, rest);
    CHECK_EQ(rest[6], twins[1]);
    CHECK_EQ(match_one(&bench, 10), 1);
    put(&bench, 0, 0, 1, rest);
    CHECK_EQ(rest[0], twins[0]);
    CHECK_EQ(match_one(&bench, 10), 0);
    CHECK_EQ(bench.evicted_count, 2);
    kv_pool_destroy(&bench.pool);
}

TEST(after_a_clear_nothing_is_found_nothing_is_evicted_and_names_can_be_given_again)
{
    struct bench bench;
    uint32_t used[3];
    uint32_t twin;
    uint32_t all[size];
    make(&bench);
    put(&bench, 10, 3, 0, used);
    put(&bench, 10, 1, 0, &twin);
    kv_pool_release(bench.pool, &twin, 1);
    kv_pool_clear(bench.pool);
    CHECK_EQ(kv_pool_free_count(bench.pool), 5);
    for (uint64_t key = 10; key < 13; key++) {
        CHECK_EQ(match_one(&bench, key), 0);
    }
    kv_pool_name(bench.pool, &used[1], &(uint64_t){11}, 1);
    CHECK_EQ(match_one(&bench, 11), 1);
    kv_pool_release(bench.pool, used, 3);
    put(&bench, 0, 0, 8, all);
    CHECK_EQ(bench.evicted_count, 1);
    CHECK_EQ(bench.evicted[0], 11);
    CHECK_EQ(all[7], used[1]);
    kv_pool_destroy(&bench.pool);
}

TEST(free_blocks_can_be_evicted_at_once_and_used_ones_keep_their_names)
{
    struct bench bench;
    uint32_t first[3];
    uint32_t second[2];
    uint32_t used[1];
    uint32_t all[7];
    make(&bench);
    put(&bench, 10, 3, 0, first);
    put(&bench, 20, 2, 0, second);
    put(&bench, 30, 1, 0, used);
    kv_pool_release(bench.pool, second, 2);
    kv_pool_release(bench.pool, first, 3);
    kv_pool_evict_free(bench.pool);
    static const uint64_t expected[] = {21, 20, 12, 11, 10};
    CHECK_EQ(bench.evicted_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_EQ(bench.evicted[i], expected[i]);
        CHECK_EQ(match_one(&bench, expected[i]), 0);
        CHECK_EQ(bench.blocks[i], i < 2 ? second[1 - i] : first[4 - i]);
    }
    CHECK_EQ(match_one(&bench, 30), 1);
    put(&bench, 40, 7, 0, all); // and there are as many as before
    CHECK_EQ(bench.evicted_count, 5);
    kv_pool_evict_free(bench.pool);
    CHECK_EQ(bench.evicted_count, 5);
    kv_pool_destroy(&bench.pool);
}

TEST(the_eviction_callback_may_be_absent)
{
    struct kv_pool *pool = kv_pool_create(1, NULL, NULL);
    uint32_t block;
    uint32_t idle;
    for (uint64_t key = 0; key < 100; key++) {
        kv_pool_take(pool, 1, &block);
        kv_pool_name(pool, &block, &key, 1);
        kv_pool_release(pool, &block, 1);
        CHECK_EQ(kv_pool_match(pool, &key, 1, &idle), 1);
        CHECK_EQ(idle, 1);
    }
    kv_pool_destroy(&pool);
}

TEST(sharing_one_request_again_and_again_leaves_the_order_of_the_others)
{
    struct bench bench;
    uint32_t old[3];
    uint32_t hot[2];
    uint32_t young[2];
    uint32_t all[size];
    const uint64_t keys[] = {20, 21};
    make(&bench);
    put(&bench, 10, 3, 0, old);
    put(&bench, 20, 2, 0, hot);
    put(&bench, 30, 2, 0, young);
    kv_pool_release(bench.pool, old, 3);
    kv_pool_release(bench.pool, hot, 2);
    kv_pool_release(bench.pool, young, 2);
    for (uint32_t i = 0; i < 1000; i++) {
        kv_pool_share(bench.pool, keys, 2, hot);
        CHECK_EQ(kv_pool_free_count(bench.pool), 6);
        kv_pool_release(bench.pool, hot, 2);
    }
    put(&bench, 0, 0, size, all);
    const uint64_t expected[] = {12, 11, 10, 31, 30, 21, 20};
    CHECK_EQ(bench.evicted_count, 7);
    for (uint32_t i = 0; i < 7; i++) {
        CHECK_EQ(bench.evicted[i], expected[i]);
    }
    kv_pool_destroy(&bench.pool);
}

// So many that some places of the table overflow, back and forth.
enum { big_size = 4088, big_keys = 3 * big_size };

static bool is_held[big_keys];

static void note_not_held(void *owner, [[maybe_unused]] uint32_t block, uint64_t key)
{
    uint64_t *wrong = owner;
    *wrong += !is_held[key];
    is_held[key] = false;
}

TEST(each_name_is_found_until_its_block_is_taken_however_full_the_table_is)
{
    uint64_t wrong = 0;
    struct kv_pool *pool = kv_pool_create(big_size, note_not_held, &wrong);
    struct rng rng = {.state = 1};
    uint32_t idle;

    for (uint32_t round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < big_size / 4; i++) {
            uint64_t key = rng_below(&rng, big_keys);
            uint32_t block;
            if (is_held[key]) {
                kv_pool_share(pool, &key, 1, &block); // and is the youngest afterwards
            } else {
                kv_pool_take(pool, 1, &block);
                kv_pool_name(pool, &block, &key, 1);
                is_held[key] = true;
            }
            kv_pool_release(pool, &block, 1);
        }
        uint32_t held = 0;
        for (uint64_t key = 0; key < big_keys; key++) {
            held += is_held[key];
            wrong += kv_pool_match(pool, &key, 1, &idle) != is_held[key];
        }
        CHECK(round < 10 || held == big_size);
        CHECK_EQ(wrong, 0);
    }
    kv_pool_destroy(&pool);
}

TEST(names_are_told_apart_by_the_whole_key)
{
    struct bench bench;
    uint32_t blocks[4];
    // Of 2^16 keys in a row times this number, the inverse of the factor of the pool's hash, the
    // hashes agree in their upper halves.
    const uint64_t inverse = 0xf1de83e19937733d;
    make(&bench);
    for (uint64_t i = 0; i < 4; i++) {
        put(&bench, (0x1234567800000000 + i) * inverse, 1, 0, &blocks[i]);
    }
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t key = (0x1234567800000000 + i) * inverse;
        uint32_t block;
        kv_pool_share(bench.pool, &key, 1, &block);
        CHECK_EQ(block, blocks[i]);
        CHECK_EQ(match_one(&bench, (0x1234567800000004 + i) * inverse), 0);
    }
    kv_pool_destroy(&bench.pool);
}
