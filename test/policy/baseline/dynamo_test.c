// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

#include <math.h>

static uint32_t pick(struct rank *rank)
{
    return rank_pick(rank, &policy_dynamo, NULL);
}

TEST(the_cost_adds_blocks_to_prefill_and_blocks_being_decoded)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 0, 4);
    rank.targets[0].queued_tokens = rank_tokens(5);
    rank.targets[0].context_tokens = rank_tokens(7);
    rank.targets[1].context_tokens = rank_tokens(2);
    rank.targets[2].queued_tokens = rank_tokens(3);
    CHECK_EQ(pick(&rank), 1);
    CHECK_EQ(rank.costs[0], (5 + 6) + (7 + 10));
    CHECK_EQ(rank.costs[1], 10 + (2 + 10));
    CHECK_EQ(rank.costs[2], (3 + 10) + 10);
}

TEST(the_scale_weighs_prefill_against_decoding)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank_hold(&rank, 0, 2);
    rank.targets[0].context_tokens = rank_tokens(50);
    CHECK_EQ(pick(&rank), 1);

    rank.knobs.prefill_scale = 32;
    CHECK_EQ(pick(&rank), 0);
    CHECK_EQ(rank.costs[0], 32 * 8 + 60);

    rank.knobs.prefill_scale = 0;
    CHECK_EQ(pick(&rank), 1);
    CHECK_EQ(rank.costs[0], 60);
}

TEST(a_begun_block_of_the_prompt_counts_whole_when_decoded)
{
    struct rank rank;
    rank_init(&rank, 1, 2);
    rank.in.prompt_tokens += rank_block_tokens / 2;
    CHECK_EQ(pick(&rank), 0);
    CHECK_EQ(rank.costs[0] * 2, (2.5 + 3) * 2);
}

TEST(running_requests_do_not_count)
{
    struct rank rank;
    rank_init(&rank, 2, 10);
    rank_hold(&rank, 0, 1);
    rank.targets[0].running_requests = 1000;
    CHECK_EQ(pick(&rank), 0);
}

TEST(ties_are_drawn_evenly_and_only_among_the_cheapest)
{
    struct rank rank;
    rank_init(&rank, 5, 10);
    rank.targets[1].queued_tokens = 1;
    CHECK(rank_is_spread(&rank, &policy_dynamo, NULL, 31 - (1 << 1)));
    rank_ask(&rank, 0);
    CHECK(rank_is_spread(&rank, &policy_dynamo, NULL, 31 - (1 << 1)));
}

TEST(with_temperature_chances_fall_with_the_cost_relative_to_its_range)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank.targets[0].queued_tokens = rank_tokens(40);
    rank.targets[1].queued_tokens = rank_tokens(10);
    rank.knobs.temperature = 0.5F;

    // (cost - min) / (max - min) is 1, 1/4 and 0.
    double chances[3] = {exp(-2.0), exp(-0.5), 1};
    double sum = chances[0] + chances[1] + chances[2];
    uint32_t hits[3] = {0};
    for (int i = 0; i < 40000; i++) {
        hits[pick(&rank)]++;
    }
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(fleet_is_near(hits[i], 40000 * chances[i] / sum, 5));
    }
}

TEST(with_temperature_equal_costs_are_drawn_evenly)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank.knobs.temperature = 0.2F;
    CHECK(rank_is_spread(&rank, &policy_dynamo, NULL, 15));
}

TEST(a_tiny_temperature_takes_the_cheapest_and_a_huge_one_any_target)
{
    struct rank rank;
    rank_init(&rank, 4, 10);
    rank.targets[0].queued_tokens = UINT64_MAX;
    rank.targets[1].queued_tokens = 1;
    rank.knobs.temperature = 1e-30F;
    CHECK(rank_is_spread(&rank, &policy_dynamo, NULL, 1 << 2 | 1 << 3));
    rank.knobs.temperature = 1e30F;
    CHECK(rank_is_spread(&rank, &policy_dynamo, NULL, 15));
}
