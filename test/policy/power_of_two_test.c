// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

static uint32_t pick(const struct policy_target *targets, uint32_t count, struct rng *rng)
{
    struct policy_input in = {.targets = targets, .target_count = count};
    return policy_pick(&policy_power_of_two, NULL, &in, rng);
}

TEST(of_two_targets_takes_the_less_loaded_always)
{
    struct rng rng = {.state = 1};
    struct policy_target targets[2];
    fleet_fill(targets, 2);
    for (int i = 0; i < 1000; i++) {
        targets[i % 2].running_requests = 9;
        targets[1 - i % 2].running_requests = 8;
        CHECK_EQ(pick(targets, 2, &rng), 1 - i % 2);
    }
}

// Drawn against itself, the fullest would win now and then.
TEST(never_takes_the_fullest_because_the_two_are_distinct)
{
    struct rng rng = {.state = 2};
    struct policy_target targets[5];
    fleet_fill(targets, 5);
    targets[2].running_requests = 1;
    for (int i = 0; i < 5000; i++) {
        CHECK(pick(targets, 5, &rng) != 2);
    }
}

// The rank r of n wins the n - 1 - r pairs with a fuller one: (n - 1 - r) / (n (n - 1) / 2).
TEST(takes_each_rank_as_often_as_it_wins_a_random_pair)
{
    enum { target_count = 6, turns = 30000 };
    struct rng rng = {.state = 3};
    struct policy_target targets[target_count];
    fleet_fill(targets, target_count);
    uint32_t hits[target_count] = {0};
    for (uint32_t i = 0; i < target_count; i++) {
        targets[i].running_requests = 10 * i;
    }

    for (int i = 0; i < turns; i++) {
        hits[pick(targets, target_count, &rng)]++;
    }
    for (uint32_t rank = 0; rank < target_count; rank++) {
        CHECK(fleet_is_near(hits[rank], turns * (5.0 - rank) / 15, 6));
    }
}

TEST(breaks_ties_evenly)
{
    struct rng rng = {.state = 4};
    struct policy_target targets[3];
    fleet_fill(targets, 3);
    uint32_t hits[3] = {0};
    for (int i = 0; i < 12000; i++) {
        hits[pick(targets, 3, &rng)]++;
    }
    for (int i = 0; i < 3; i++) {
        CHECK(fleet_is_near(hits[i], 4000, 5));
    }
}
