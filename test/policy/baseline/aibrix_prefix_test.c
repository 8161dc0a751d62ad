// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

#include <math.h>

static uint32_t pick(struct rank *rank)
{
    return rank_pick(rank, &policy_aibrix_prefix, NULL);
}

TEST(takes_the_holder_of_most)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank_hold(&rank, 0, 3);
    rank_hold(&rank, 1, 5);
    rank_hold(&rank, 3, 4);
    CHECK_EQ(pick(&rank), 1);
}

TEST(of_equal_holders_takes_the_one_with_fewer_running_requests)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    for (uint32_t i = 0; i < 4; i++) {
        rank.targets[i].running_requests = 4;
        rank_hold(&rank, i, i < 3 ? 5 : 4);
    }
    rank.targets[2].running_requests = 3;
    rank.targets[3].running_requests = 0;
    CHECK_EQ(pick(&rank), 2);

    rank.targets[2].running_requests = 4;
    CHECK(rank_is_spread(&rank, &policy_aibrix_prefix, NULL, 7));
}

TEST(at_a_spread_of_eight_all_may_match_and_at_nine_only_the_least_loaded)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    // Mean 5 and deviation 2.83: the holder of most is within the bound.
    uint32_t runs[4] = {1, 5, 5, 9};
    for (uint32_t i = 0; i < 4; i++) {
        rank.targets[i].running_requests = runs[i];
    }
    rank_hold(&rank, 1, 9);
    rank_hold(&rank, 0, 1);
    CHECK_EQ(pick(&rank), 1);

    rank.targets[3].running_requests = 10;
    CHECK_EQ(pick(&rank), 0);

    // The least loaded win although they are cold.
    rank_hold(&rank, 0, 0);
    CHECK_EQ(pick(&rank), 0);

    rank.targets[3].running_requests = 1;
    rank.targets[2].running_requests = 10;
    CHECK(rank_is_spread(&rank, &policy_aibrix_prefix, NULL, 1 << 0 | 1 << 3));
}

TEST(skips_a_holder_beyond_mean_and_deviation_for_the_next_best)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank.targets[0].running_requests = 8; // mean 2, deviation 3.46
    rank_hold(&rank, 0, 9);
    rank_hold(&rank, 2, 2);
    CHECK_EQ(pick(&rank), 2);
}

TEST(a_holder_right_at_the_bound_is_taken)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank.targets[0].running_requests = 6; // mean 4, deviation 2
    rank.targets[1].running_requests = 2;
    rank_hold(&rank, 0, 1);
    CHECK_EQ(pick(&rank), 0);
}

TEST(without_a_holder_within_bounds_takes_the_least_loaded_of_all)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank.targets[0].running_requests = 7;
    rank.targets[4].running_requests = 1;
    rank_hold(&rank, 0, 10);
    CHECK(rank_is_spread(&rank, &policy_aibrix_prefix, NULL, 1 << 1 | 1 << 2 | 1 << 3));
}

TEST(spreads_an_unreadable_prompt)
{
    struct rank rank;
    rank_init(&rank, 4, 0);
    CHECK(rank_is_spread(&rank, &policy_aibrix_prefix, NULL, 15));
}

struct loads {
    uint32_t least;
    uint32_t most;
    double bound;
};

static struct loads loads_of(const struct rank *rank)
{
    uint32_t count = rank->in.target_count;
    struct loads loads = {.least = UINT32_MAX};
    double sum = 0;
    double square_sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t run = rank->targets[i].running_requests;
        loads.least = run < loads.least ? run : loads.least;
        loads.most = run > loads.most ? run : loads.most;
        sum += run;
        square_sum += (double)run * run;
    }
    double mean = sum / count;
    loads.bound = mean + sqrt(fmax(0, square_sum / count - mean * mean)) + 1e-9;
    return loads;
}

// A bit for every candidate that holds so many blocks and runs so many requests.
static uint32_t among(const struct rank *rank, uint32_t blocks, uint32_t run)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < rank->in.target_count; i++) {
        const struct policy_target *target = &rank->targets[i];
        bool is_one = target->matched_blocks == blocks && target->running_requests == run;
        bits |= is_one ? 1U << i : 0;
    }
    return bits;
}

// The rule in the order of its steps: narrow down, sort, take the first within the bound.
static bool is_allowed(const struct rank *rank, uint32_t chosen)
{
    struct loads loads = loads_of(rank);
    uint32_t run_max = loads.most - loads.least > 8 ? loads.least : loads.most;
    for (uint32_t blocks = 10; blocks > 0; blocks--) {
        for (uint32_t run = loads.least; run <= run_max && run <= loads.bound; run++) {
            uint32_t bits = among(rank, blocks, run);
            if (bits != 0) {
                return (bits >> chosen & 1) != 0;
            }
        }
    }
    return rank->targets[chosen].running_requests == loads.least;
}

TEST(agrees_with_the_rule_step_by_step)
{
    struct rank rank;
    struct rng rng = {.state = 3};
    for (int round = 0; round < 5000; round++) {
        uint32_t count = 1 + rng_below(&rng, 8);
        uint32_t run_max = 1 + rng_below(&rng, 14);
        rank_init(&rank, count, 10);
        rank.rng.state = rng_next(&rng);
        for (uint32_t i = 0; i < count; i++) {
            rank_hold(&rank, i, rng_below(&rng, 2) * rng_below(&rng, 11));
            rank.targets[i].running_requests = rng_below(&rng, run_max);
        }
        CHECK(is_allowed(&rank, pick(&rank)));
    }
}
