// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

TEST(draws_evenly_among_the_deepest_matches_regardless_of_load)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank_hold(&rank, 0, 6);
    rank_hold(&rank, 1, 7);
    rank_hold(&rank, 2, 7);
    rank_hold(&rank, 4, 7);
    rank.targets[4].running_requests = 100;
    rank.targets[4].queued_tokens = 100000;
    CHECK(rank_is_spread(&rank, &policy_prodstack_prefix, NULL, 1 << 1 | 1 << 2 | 1 << 4));
    CHECK_EQ(rank.costs[0], -6);
    CHECK_EQ(rank.costs[3], 0);
}

TEST(one_holder_of_one_block_gets_everything)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank_hold(&rank, 3, 1);
    rank.targets[3].running_requests = UINT32_MAX;
    CHECK(rank_is_spread(&rank, &policy_prodstack_prefix, NULL, 1 << 3));
}

TEST(draws_among_all_for_a_cold_prompt)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank.targets[2].running_requests = 100;
    CHECK(rank_is_spread(&rank, &policy_prodstack_prefix, NULL, 31));
    rank_ask(&rank, 0);
    CHECK(rank_is_spread(&rank, &policy_prodstack_prefix, NULL, 31));
}
