// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

static uint32_t pick(struct rank *rank)
{
    return rank_pick(rank, &policy_lmetric, NULL);
}

TEST(the_cost_is_queued_and_uncached_tokens_times_the_batch_with_this_request)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 0, 4);
    rank.targets[0].queued_tokens = 100;
    rank.targets[0].running_requests = 2;
    rank.targets[1].running_requests = 1;
    CHECK_EQ(pick(&rank), 2);
    CHECK_EQ(rank.costs[0], (100 + 6 * rank_block_tokens) * 3);
    CHECK_EQ(rank.costs[1], 10 * rank_block_tokens * 2);
    CHECK_EQ(rank.costs[2], 10 * rank_block_tokens);
}

TEST(the_cache_counts_among_idle_targets)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank_hold(&rank, 1, 3);
    rank_hold(&rank, 2, 4);
    CHECK_EQ(pick(&rank), 2);
}

TEST(the_batch_counts_among_those_that_hold_everything)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 0, 10);
    rank_hold(&rank, 1, 10);
    rank.targets[0].running_requests = 2;
    rank.targets[1].running_requests = 1;
    CHECK_EQ(pick(&rank), 1);
    CHECK_EQ(rank.costs[0], rank_block_tokens * 3);
}

TEST(less_than_a_block_left_is_as_good_as_nothing_left)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank.in.prompt_tokens += 5;
    rank_hold(&rank, 0, 10);
    rank_hold(&rank, 1, 10);
    rank.targets[1].matched_tokens += 5;
    CHECK(rank_is_spread(&rank, &policy_lmetric, NULL, 3));
    rank_hold(&rank, 0, 9);
    CHECK_EQ(pick(&rank), 1);
    CHECK_EQ(rank.costs[0], rank_block_tokens + 5);
}

TEST(a_holder_loses_once_its_batch_outweighs_its_cache)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank_hold(&rank, 0, 8); // costs 2 blocks times the batch
    rank.targets[0].running_requests = 3;
    CHECK_EQ(pick(&rank), 0);
    rank.targets[0].running_requests = 4;
    CHECK(rank_is_spread(&rank, &policy_lmetric, NULL, 3));
    rank.targets[0].running_requests = 5;
    CHECK_EQ(pick(&rank), 1);
}

TEST(ties_are_drawn_evenly_and_only_among_the_cheapest)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank.targets[0].running_requests = 1;
    rank.targets[3].queued_tokens = 1;
    CHECK(rank_is_spread(&rank, &policy_lmetric, NULL, 1 << 1 | 1 << 2 | 1 << 4));
}

TEST(an_unreadable_prompt_goes_by_queue_and_batch)
{
    struct rank rank;
    rank_init(&rank, 3, 0);
    rank.targets[0].running_requests = 1;
    rank.targets[1].queued_tokens = 10;
    CHECK_EQ(pick(&rank), 2);
}
