// SPDX-License-Identifier: Apache-2.0

#include "fleet/capacity.h"

#include "base/rng.h"
#include "test.h"

static enum capacity_verdict verdict;

static uint32_t learn(uint32_t belief, uint32_t age, bool was_there)
{
    struct capacity_sample sample = {.age = age, .was_there = was_there};
    return capacity_learn(belief, &sample, &verdict);
}

TEST(without_evictions_the_capacity_is_unlimited)
{
    CHECK_EQ(learn(0, 1000, true), 0);
    CHECK_EQ(learn(0, 100000000, true), 0);
    CHECK_EQ(verdict, CAPACITY_HELD);
}

TEST(the_first_eviction_is_taken_on_the_large_side)
{
    CHECK_EQ(learn(0, 100000, false), 200000);
    CHECK_EQ(verdict, CAPACITY_EVICTED);
}

TEST(a_cache_that_was_emptied_is_not_a_small_cache)
{
    CHECK_EQ(learn(0, 50, false), 0);
    CHECK_EQ(verdict, CAPACITY_EMPTIED);
    CHECK_EQ(learn(800000, 50, false), 750000);
    CHECK_EQ(verdict, CAPACITY_EMPTIED);
}

TEST(a_cached_prefix_older_than_the_belief_raises_it_at_once)
{
    CHECK(learn(100000, 300000, true) >= 300000);
    CHECK_EQ(learn(100000, 50000, true), 100000);
}

TEST(an_eviction_beyond_the_belief_teaches_nothing)
{
    CHECK_EQ(learn(100000, 150000, false), 100000);
    CHECK_EQ(verdict, CAPACITY_EVICTED);
}

// An LRU cache of a certain size, asked at random ages: the belief must come to lie at or a little
// above its size, from either side.
static void converges(uint32_t belief, uint32_t size)
{
    struct rng rng = {.state = size};
    for (int i = 0; i < 2000; i++) {
        uint32_t age = rng_below(&rng, 2 * size);
        belief = learn(belief, age, age < size);
    }
    CHECK(belief >= size * 0.95);
    CHECK(belief <= size * 1.3);
}

TEST(the_belief_finds_the_size_from_either_side)
{
    converges(0, 120000);
    converges(4096, 120000);
    converges(1 << 30, 120000);
    converges(0, 2000000);
}

TEST(a_size_that_the_engine_tells_is_believed_and_a_little_more)
{
    CHECK_EQ(capacity_told(0), 0);
    CHECK_EQ(capacity_told(800000), 900000);
    CHECK(capacity_told(UINT64_MAX / 2) <= 1 << 30);
}
