// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

static uint32_t pick(struct rank *rank)
{
    return rank_pick(rank, &policy_kv_aware, NULL);
}

TEST(takes_the_target_with_most_leading_blocks)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    for (uint32_t best = 0; best < 4; best++) {
        for (uint32_t i = 0; i < 4; i++) {
            rank_hold(&rank, i, i == best ? 4 : 3);
        }
        CHECK_EQ(pick(&rank), best);
    }
}

TEST(one_block_outweighs_any_load)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 2, 1);
    rank.targets[2].running_requests = UINT32_MAX;
    rank.targets[2].queued_tokens = 1000000;
    CHECK_EQ(pick(&rank), 2);
}

TEST(equal_holders_share_evenly_regardless_of_load)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank_hold(&rank, 0, 4);
    rank_hold(&rank, 1, 5);
    rank_hold(&rank, 3, 5);
    rank.targets[3].running_requests = 50;
    CHECK(rank_is_spread(&rank, &policy_kv_aware, NULL, 1 << 1 | 1 << 3));
    CHECK_EQ(rank.costs[3], -5);
}

TEST(without_a_holder_the_fewest_running_requests_win)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank.targets[0].running_requests = 3;
    rank.targets[1].running_requests = 2;
    rank.targets[2].running_requests = 1;
    rank.targets[3].running_requests = 2;
    CHECK_EQ(pick(&rank), 2);
    CHECK_EQ(rank.costs[0], 3);

    rank.targets[2].running_requests = 2;
    CHECK(rank_is_spread(&rank, &policy_kv_aware, NULL, 1 << 1 | 1 << 2 | 1 << 3));
}

TEST(an_unreadable_prompt_goes_by_load)
{
    struct rank rank;
    rank_init(&rank, 2, 0);
    rank.targets[0].running_requests = 1;
    CHECK_EQ(pick(&rank), 1);
}
