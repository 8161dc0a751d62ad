// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

static uint32_t pick(struct rank *rank)
{
    return rank_pick(rank, &policy_prefix_cost, NULL);
}

TEST(prefers_the_longest_held_prefix_when_queues_are_empty)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 0, 2);
    rank_hold(&rank, 1, 7);
    CHECK_EQ(pick(&rank), 1);
}

TEST(spills_at_the_token_where_the_queue_costs_more_than_the_cache_saves)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank_hold(&rank, 0, 10);
    rank.targets[0].queued_tokens = rank_tokens(10) - 1;
    CHECK_EQ(pick(&rank), 0);
    rank.targets[0].queued_tokens += 1;
    CHECK(rank_is_spread(&rank, &policy_prefix_cost, NULL, 3));
    rank.targets[0].queued_tokens += 1;
    CHECK_EQ(pick(&rank), 1);
}

TEST(running_requests_and_contexts_do_not_count)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank_hold(&rank, 0, 1);
    rank.targets[0].running_requests = 1000;
    rank.targets[0].context_tokens = 1000000;
    CHECK_EQ(pick(&rank), 0);
}

TEST(spreads_cold_prompts_and_unreadable_ones)
{
    struct rank rank;
    rank_init(&rank, 4, 8);
    CHECK(rank_is_spread(&rank, &policy_prefix_cost, NULL, 15));
    rank_ask(&rank, 0);
    CHECK(rank_is_spread(&rank, &policy_prefix_cost, NULL, 15));
}

TEST(leaves_tokens_as_costs_and_no_other_target_is_cheaper)
{
    struct rank rank;
    struct rng rng = {.state = 7};
    for (int round = 0; round < 5000; round++) {
        uint32_t count = 1 + rng_below(&rng, 8);
        rank_init(&rank, count, 20);
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t blocks = rng_below(&rng, 21);
            uint32_t queued = rng_below(&rng, 500);
            rank_hold(&rank, i, blocks);
            rank.targets[i].queued_tokens = queued;
            uint64_t work = (uint64_t)queued + rank_tokens(20 - blocks);
            least = work < least ? work : least;
        }
        uint32_t chosen = pick(&rank);
        CHECK_EQ(rank.costs[chosen], least);
    }
}
