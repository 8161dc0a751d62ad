// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

// Memory for the policy's state.
struct smetric_state {
    uint64_t words[8];
};

static uint32_t pick(struct rank *rank)
{
    struct smetric_state state = {0};
    ASSERT(policy_smetric.state_size <= sizeof(state));
    return rank_pick(rank, &policy_smetric, &state);
}

// A second turn of a prompt of 100 blocks, 60 of them history; target 1 served the first.
static void second_turn(struct rank *rank, uint32_t target_count)
{
    rank_init(rank, target_count, 100);
    rank->in.turns = 1;
    rank->in.history_tokens = rank_tokens(60);
    rank_hold(rank, 1, 60);
    for (uint32_t i = 0; i < target_count; i++) {
        rank->targets[i].running_requests = 1;
        rank->targets[i].prefill_ms = 0.1F;
    }
}

TEST(a_conversation_stays_although_others_cost_less)
{
    struct rank rank;
    second_turn(&rank, 4);
    rank.targets[1].running_requests = 50;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pick(&rank), 1);
    }
    CHECK_EQ(rank.costs[1], -60 * rank_block_tokens);
}

TEST(the_first_turn_ignores_the_cache)
{
    struct rank rank;
    second_turn(&rank, 4);
    rank.in.turns = 0;
    rank.targets[1].running_requests = 50;
    rank.targets[2].running_requests = 0;
    CHECK_EQ(pick(&rank), 2);
    CHECK_EQ(rank.costs[1], 40 * rank_block_tokens * 50);
    CHECK_EQ(rank.costs[0], 100 * rank_block_tokens);
}

TEST(more_than_half_of_the_history_must_be_held)
{
    struct rank rank;
    second_turn(&rank, 2);
    rank.targets[1].running_requests = 50;
    rank_hold(&rank, 1, 30);
    CHECK_EQ(pick(&rank), 0);
    rank.targets[1].matched_tokens += 1;
    CHECK_EQ(pick(&rank), 1);

    // Without history, some token must be held.
    rank.in.history_tokens = 0;
    rank_hold(&rank, 1, 0);
    CHECK_EQ(pick(&rank), 0);
    rank_hold(&rank, 1, 1);
    CHECK_EQ(pick(&rank), 1);
}

TEST(the_previous_target_is_left_at_the_token_where_it_misses_the_goal)
{
    struct rank rank;
    second_turn(&rank, 2);
    rank.targets[0].prefill_ms = 0.125F;
    rank.targets[1].prefill_ms = 0.125F;
    rank.targets[1].running_requests = 50;
    // 1600 tokens may take 1000 + 100 ms, which is 8800 tokens; 640 are its own.
    rank.targets[1].queued_tokens = 8800 - 640;
    CHECK_EQ(pick(&rank), 1);
    rank.targets[1].queued_tokens += 1;
    CHECK_EQ(pick(&rank), 0);
}

TEST(the_previous_target_keeps_a_conversation_when_all_miss_the_goal)
{
    struct rank rank;
    second_turn(&rank, 3);
    rank.targets[0].queued_tokens = 20000;
    rank.targets[1].queued_tokens = 30000;
    rank.targets[2].queued_tokens = 20000;
    CHECK_EQ(pick(&rank), 1);

    // One target that meets the goal is enough to leave, even if another one is taken.
    rank.targets[2].queued_tokens = 5000;
    rank.targets[2].running_requests = 100;
    CHECK_EQ(pick(&rank), 0);
}

TEST(a_target_of_unknown_speed_meets_the_goal)
{
    struct rank rank;
    second_turn(&rank, 2);
    rank.targets[1].queued_tokens = 1000000;
    CHECK_EQ(pick(&rank), 0);
    rank.targets[1].prefill_ms = 0;
    CHECK_EQ(pick(&rank), 1);
}

TEST(of_equal_holders_the_less_loaded_is_the_previous_target)
{
    struct rank rank;
    second_turn(&rank, 4);
    rank_hold(&rank, 3, 60);
    rank.targets[1].queued_tokens = 1;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pick(&rank), 3);
    }
    rank.targets[3].queued_tokens = 2;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pick(&rank), 1);
    }
}

TEST(a_new_conversation_takes_the_least_product_of_load_and_running_requests)
{
    struct rank rank;
    rank_init(&rank, 3, 10);
    rank_hold(&rank, 0, 5);
    rank.targets[0].running_requests = 3;
    rank.targets[1].running_requests = 2;
    rank.targets[2].running_requests = 1;
    rank.targets[2].queued_tokens = rank_tokens(6);
    CHECK_EQ(pick(&rank), 0);
    CHECK_EQ(rank.costs[0], 15 * rank_block_tokens);
    CHECK_EQ(rank.costs[1], 20 * rank_block_tokens);
    CHECK_EQ(rank.costs[2], 16 * rank_block_tokens);
}

TEST(idle_targets_tie_and_rotate_regardless_of_the_cache)
{
    struct rank rank;
    struct smetric_state state = {0};
    rank_init(&rank, 4, 10);
    rank_hold(&rank, 2, 9);
    uint32_t last = rank_pick(&rank, &policy_smetric, &state);
    for (int i = 0; i < 20; i++) {
        uint32_t next = rank_pick(&rank, &policy_smetric, &state);
        CHECK_EQ(next, (last + 1) % 4);
        last = next;
    }
}

TEST(equal_holders_with_equal_load_rotate)
{
    struct rank rank;
    struct smetric_state state = {0};
    second_turn(&rank, 4);
    rank_hold(&rank, 3, 60);
    CHECK(rank_is_spread(&rank, &policy_smetric, &state, 1 << 1 | 1 << 3));
}

TEST(an_unreadable_prompt_goes_by_running_requests)
{
    struct rank rank;
    rank_init(&rank, 3, 0);
    rank.targets[0].running_requests = 2;
    rank.targets[1].running_requests = 1;
    rank.targets[2].running_requests = 2;
    CHECK_EQ(pick(&rank), 1);
    rank.targets[1].queued_tokens = 1000;
    CHECK_EQ(pick(&rank), 1);
}
