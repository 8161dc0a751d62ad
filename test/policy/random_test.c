// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

TEST(gives_all_targets_the_same_chance_regardless_of_load_and_weight)
{
    struct policy_target targets[5];
    fleet_fill(targets, 5);
    targets[1].running_requests = 1000;
    targets[2].weight = 50;
    struct policy_input in = {.targets = targets, .target_count = 5};
    struct rng rng = {.state = 3};
    uint32_t hits[5] = {0};

    for (int i = 0; i < 20000; i++) {
        hits[policy_pick(&policy_random, NULL, &in, &rng)]++;
    }
    for (int i = 0; i < 5; i++) {
        CHECK(fleet_is_near(hits[i], 4000, 5));
    }
}

TEST(does_not_take_turns)
{
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    struct policy_input in = {.targets = targets, .target_count = 4};
    struct rng rng = {.state = 3};
    uint32_t repeats = 0;
    uint32_t last = 4;

    for (int i = 0; i < 4000; i++) {
        uint32_t chosen = policy_pick(&policy_random, NULL, &in, &rng);
        repeats += chosen == last;
        last = chosen;
    }
    CHECK(fleet_is_near(repeats, 1000, 10));
}
