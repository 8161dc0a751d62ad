// SPDX-License-Identifier: Apache-2.0

#include "policy/rank_fixture.h"

#include <stdlib.h>

static void *state_create(void)
{
    void *state = calloc(1, policy_preble.state_size);
    ASSERT(state != NULL);
    return state;
}

static uint32_t pick(struct rank *rank, void *state)
{
    return rank_pick(rank, &policy_preble, state);
}

static void fleet_init(struct rank *rank, uint32_t target_count, uint32_t prompt_blocks)
{
    rank_init(rank, target_count, prompt_blocks);
    rank->in.now_ms = 1000000;
    for (uint32_t i = 0; i < target_count; i++) {
        rank->targets[i].prefill_ms = 0.5F;
        rank->targets[i].step_ms = 10;
    }
}

// A cold request, which goes to the target of the lowest cost.
static uint32_t explore(struct rank *rank, void *state, uint64_t name, uint32_t blocks)
{
    rank_name_blocks(rank, 0, name);
    rank_ask(rank, blocks);
    for (uint32_t i = 0; i < rank->in.target_count; i++) {
        rank_hold(rank, i, 0);
    }
    return pick(rank, state);
}

TEST(the_state_fits_a_megabyte)
{
    CHECK(policy_preble.state_size <= 1U << 20);
}

TEST(exploits_when_more_than_half_is_shared)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 4, 10);
    rank.targets[2].running_requests = 100;
    rank_hold(&rank, 2, 6);
    rank_hold(&rank, 1, 5);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pick(&rank, state), 2);
    }
    CHECK(rank.costs[2] < rank.costs[0] && rank.costs[2] < rank.costs[1]);
    free(state);
}

TEST(explores_when_half_or_less_is_shared)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 3, 10);
    rank.targets[1].running_requests = 1;
    rank.targets[2].running_requests = 2;
    rank_hold(&rank, 2, 5);
    CHECK_EQ(pick(&rank, state), 0);
    rank.in.prompt_tokens -= 1;
    CHECK_EQ(pick(&rank, state), 2);
    free(state);
}

// The original would name target 0 or 1, the position among the two candidates.
TEST(of_several_holders_takes_the_cheapest_by_its_place_in_the_fleet)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 6, 10);
    rank_hold(&rank, 3, 9);
    rank_hold(&rank, 5, 9);
    rank_hold(&rank, 0, 8);
    rank.targets[3].running_requests = 2;
    rank.targets[5].running_requests = 1;
    CHECK_EQ(pick(&rank, state), 5);
    rank.targets[5].running_requests = 3;
    CHECK_EQ(pick(&rank, state), 3);
    free(state);
}

TEST(the_cost_of_decoding_takes_the_mean_output_or_45_tokens)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    rank.targets[0].running_requests = 3;
    rank.targets[1].running_requests = 1;
    rank.targets[1].step_ms = 40;
    CHECK_EQ(pick(&rank, state), 0);
    CHECK_EQ(rank.costs[0], 3 * 45 * 10);
    CHECK_EQ(rank.costs[1], 45 * 40);

    rank.traffic.output_tokens = 200;
    CHECK_EQ(pick(&rank, state), 0);
    CHECK_EQ(rank.costs[0], 3 * 200 * 10);
    free(state);
}

TEST(prefill_work_counts_for_three_minutes)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 10);
    uint32_t first = explore(&rank, state, 1, 10);
    uint32_t second = explore(&rank, state, 2, 20);
    CHECK_EQ(second, 1 - first);
    CHECK_EQ(rank.costs[first], 160 * 0.5);
    CHECK_EQ(rank.costs[second], 0);
    // 160 tokens there, 320 here.
    CHECK_EQ(explore(&rank, state, 3, 5), first);

    rank.in.now_ms += 180000;
    CHECK_EQ(explore(&rank, state, 4, 1), first);
    CHECK_EQ(rank.costs[first], 240 * 0.5);
    CHECK_EQ(rank.costs[second], 320 * 0.5);
    rank.in.now_ms += 1;
    explore(&rank, state, 5, 1);
    CHECK_EQ(rank.costs[first], 16 * 0.5);
    CHECK_EQ(rank.costs[second], 0);
    free(state);
}

TEST(a_slow_target_pays_more_for_the_same_work)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    uint32_t first = explore(&rank, state, 1, 10);
    explore(&rank, state, 2, 10);
    rank.targets[first].prefill_ms = 0.25F;
    CHECK_EQ(explore(&rank, state, 3, 1), first);
    CHECK_EQ(rank.costs[first], 160 * 0.25);
    CHECK_EQ(rank.costs[1 - first], 160 * 0.5);
    free(state);
}

TEST(a_hit_adds_no_work_and_a_miss_does)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 1, 0);
    explore(&rank, state, 1, 10);
    rank_hold(&rank, 0, 10);
    pick(&rank, state);
    pick(&rank, state);
    CHECK_EQ(rank.costs[0], 160 * 0.5);

    // The prefix was evicted meanwhile.
    rank_hold(&rank, 0, 0);
    pick(&rank, state);
    pick(&rank, state);
    CHECK_EQ(rank.costs[0], 2 * 160 * 0.5);
    free(state);
}

TEST(a_longer_prompt_counts_under_the_prefix_it_mostly_consists_of)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    uint32_t first = explore(&rank, state, 1, 10);

    // 14 blocks, 10 of them known: the 4 are not important.
    rank_ask(&rank, 14);
    rank_hold(&rank, first, 10);
    CHECK_EQ(pick(&rank, state), first);
    // 25 blocks, 10 of them known: the 15 are, and go where it is cheap.
    rank_name_blocks(&rank, 10, 2);
    rank_ask(&rank, 25);
    CHECK_EQ(pick(&rank, state), 1 - first);
    CHECK_EQ(rank.costs[first], 160 * 0.5);

    explore(&rank, state, 3, 0);
    CHECK_EQ(rank.costs[first], 160 * 0.5);
    CHECK_EQ(rank.costs[1 - first], 15 * 16 * 0.5);
    free(state);
}

TEST(half_shared_counts_under_the_deepest_prefix_that_was_important_before)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    uint32_t first = explore(&rank, state, 1, 6);
    rank_ask(&rank, 16);
    rank_hold(&rank, first, 8);
    CHECK_EQ(pick(&rank, state), 1 - first);

    // Missed twice, and placed on two.
    explore(&rank, state, 3, 0);
    CHECK_EQ(rank.costs[first], 6 * 16 * 0.5);
    CHECK_EQ(rank.costs[1 - first], 6 * 16 * 0.5);
    free(state);
}

TEST(a_shared_part_that_was_never_seen_is_counted_where_it_is_missed)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 16);
    // Half of it is shared, too little to exploit.
    rank_hold(&rank, 0, 8);
    rank.targets[0].running_requests = 1;
    CHECK_EQ(pick(&rank, state), 1);

    rank.targets[0].running_requests = 0;
    explore(&rank, state, 3, 0);
    CHECK_EQ(rank.costs[0], 0);
    CHECK_EQ(rank.costs[1], 8 * 16 * 0.5);
    free(state);
}

TEST(ties_are_drawn_evenly_among_all_and_among_holders)
{
    struct rank rank;
    void *state = state_create();
    rank_init(&rank, 5, 10); // speeds of 0: costs of 0
    CHECK(rank_is_spread(&rank, &policy_preble, state, 31));
    rank_hold(&rank, 1, 8);
    rank_hold(&rank, 4, 8);
    CHECK(rank_is_spread(&rank, &policy_preble, state, 1 << 1 | 1 << 4));
    rank_ask(&rank, 0);
    rank_hold(&rank, 1, 0);
    rank_hold(&rank, 4, 0);
    CHECK(rank_is_spread(&rank, &policy_preble, state, 31));
    free(state);
}

// Target 0 alone has computed `names` prefixes of 10 blocks each, twice each.
static void overload_first(struct rank *rank, void *state, uint64_t names)
{
    rank->in.target_count = 1;
    for (uint64_t i = 0; i < 2 * names; i++) {
        explore(rank, state, 1 + i % names, 10);
    }
    rank->in.target_count = 2;
}

// Requests without a prompt, until `count` in all.
static void pass_requests(struct rank *rank, void *state, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        explore(rank, state, 0, 0);
    }
}

TEST(rebalancing_moves_prefixes_after_fifty_requests_per_target)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 10); // 20 requests, 3200 tokens
    pass_requests(&rank, state, 79);
    CHECK_EQ(rank.costs[0], 3200 * 0.5);
    CHECK_EQ(rank.costs[1], 0);

    // Moving two of ten leaves 2560 to 640, three 2240 to 960, four 1920 to 1280: balanced.
    pass_requests(&rank, state, 1);
    CHECK_EQ(rank.costs[0], 1920 * 0.5);
    CHECK_EQ(rank.costs[1], 1280 * 0.5);

    // Moved prefixes go to the other target, though the first holds them and is cheaper.
    rank.targets[1].running_requests = 100;
    uint32_t moved = 0;
    for (uint64_t name = 1; name <= 10; name++) {
        rank_name_blocks(&rank, 0, name);
        rank_ask(&rank, 10);
        rank_hold(&rank, 0, 10);
        rank_hold(&rank, 1, 0);
        moved += pick(&rank, state) == 1;
    }
    CHECK_EQ(moved, 4);
    free(state);
}

TEST(a_moved_prefix_goes_back_to_its_holder_when_the_new_target_is_gone)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 10);
    pass_requests(&rank, state, 80);
    rank.targets[1] = fleet_target(77, 1);
    for (uint64_t name = 1; name <= 10; name++) {
        rank_name_blocks(&rank, 0, name);
        rank_ask(&rank, 10);
        rank_hold(&rank, 0, 10);
        CHECK_EQ(pick(&rank, state), 0);
    }
    free(state);
}

TEST(rebalancing_moves_eight_at_most)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 40); // 80 requests, 12800 tokens
    pass_requests(&rank, state, 20);
    CHECK_EQ(rank.costs[1], 8 * 320 * 0.5);
    free(state);
}

TEST(a_single_prefix_is_copied_once_the_queue_doubles_its_time)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 1);
    rank.targets[0].queued_tokens = 160;
    pass_requests(&rank, state, 98);
    CHECK_EQ(rank.costs[0], 320 * 0.5);
    rank.targets[0].queued_tokens = 161;
    pass_requests(&rank, state, 50);
    CHECK_EQ(rank.costs[0], 160 * 0.5);
    CHECK_EQ(rank.costs[1], 160 * 0.5);

    // Both are candidates now, and the less loaded one is taken.
    rank_name_blocks(&rank, 0, 1);
    rank_ask(&rank, 10);
    rank_hold(&rank, 0, 10);
    rank.targets[0].running_requests = 1;
    CHECK_EQ(pick(&rank, state), 1);
    rank.targets[1].running_requests = 2;
    CHECK_EQ(pick(&rank, state), 0);
    free(state);
}

// Target 0 costs 1600 ms; returns its cost after a rebalancing.
static double cost_beside(double other_ms)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 10);
    rank.targets[1].running_requests = 1;
    rank.targets[1].step_ms = (float)(other_ms / 45);
    pass_requests(&rank, state, 80);
    free(state);
    return rank.costs[0];
}

TEST(a_cost_of_1_5_times_is_not_out_of_balance)
{
    CHECK_EQ(cost_beside(1067), 1600);
    CHECK_EQ(cost_beside(1066), 1600 - 160);
}

TEST(a_move_that_would_only_swap_roles_is_not_made)
{
    struct rank rank;
    void *state = state_create();
    fleet_init(&rank, 2, 0);
    overload_first(&rank, state, 2); // 160 ms each
    rank.targets[1].running_requests = 1;
    rank.targets[1].step_ms = 165.0F / 45;
    pass_requests(&rank, state, 96);
    CHECK_EQ(rank.costs[0], 320);
    free(state);
}
