// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

static uint32_t pick(const struct policy_target *targets, uint32_t count, struct rng *rng)
{
    struct policy_input in = {.targets = targets, .target_count = count};
    return policy_pick(&policy_weighted_power_of_two, NULL, &in, rng);
}

TEST(gives_each_target_its_share_by_weight_while_all_are_idle)
{
    struct rng rng = {.state = 1};
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    uint32_t hits[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        targets[i].weight = 1 + i;
    }
    for (int i = 0; i < 40000; i++) {
        hits[pick(targets, 4, &rng)]++;
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(fleet_is_near(hits[i], 4000.0 * (1 + i), 4));
    }
}

TEST(a_light_target_is_not_starved_on_a_quiet_fleet)
{
    struct rng rng = {.state = 2};
    struct policy_target targets[2] = {fleet_target(40, 99), fleet_target(6, 1)};
    uint32_t hits[2] = {0};
    for (int i = 0; i < 40000; i++) {
        hits[pick(targets, 2, &rng)]++;
    }
    CHECK(fleet_is_near(hits[1], 400, 20));
}

TEST(of_two_takes_the_less_loaded_for_its_weight)
{
    struct rng rng = {.state = 3};
    struct policy_target targets[2] = {fleet_target(5, 2), fleet_target(1, 5)};
    for (int i = 0; i < 500; i++) {
        targets[0].running_requests = 4; // 2.0
        targets[1].running_requests = 9; // 1.8
        CHECK_EQ(pick(targets, 2, &rng), 1);
        targets[1].running_requests = 11; // 2.2
        CHECK_EQ(pick(targets, 2, &rng), 0);
    }
}

// Drawn against itself, the fullest would win; and by weight it is drawn nearly always.
static void check_never_taken(uint32_t fullest)
{
    struct rng rng = {.state = 4};
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    targets[fullest].weight = 1000;
    targets[fullest].running_requests = 1;
    uint32_t hits[4] = {0};
    for (int i = 0; i < 3000; i++) {
        hits[pick(targets, 4, &rng)]++;
    }
    CHECK_EQ(hits[fullest], 0);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(i == fullest || fleet_is_near(hits[i], 1000, 10));
    }
}

TEST(never_takes_the_fullest_because_the_two_are_distinct)
{
    for (uint32_t fullest = 0; fullest < 4; fullest++) {
        check_never_taken(fullest);
    }
}

TEST(long_requests_spread_in_proportion_to_the_weights)
{
    struct rng rng = {.state = 5};
    struct policy_target targets[3] = {fleet_target(9, 3), fleet_target(4, 1), fleet_target(30, 2)};
    for (int i = 0; i < 6000; i++) {
        targets[pick(targets, 3, &rng)].running_requests++;
    }
    CHECK(fleet_is_near(targets[0].running_requests, 3000, 1));
    CHECK(fleet_is_near(targets[1].running_requests, 1000, 1));
    CHECK(fleet_is_near(targets[2].running_requests, 2000, 1));
}
