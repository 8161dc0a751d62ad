// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

static uint32_t pick(const struct policy_target *targets, uint32_t count, struct rng *rng)
{
    struct policy_input in = {.targets = targets, .target_count = count};
    return policy_pick(&policy_least_requests, NULL, &in, rng);
}

TEST(takes_the_only_target_with_the_fewest)
{
    struct rng rng = {.state = 1};
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    for (uint32_t least = 0; least < 4; least++) {
        for (uint32_t i = 0; i < 4; i++) {
            targets[i].running_requests = i == least ? 6 : 7;
        }
        CHECK_EQ(pick(targets, 4, &rng), least);
    }
}

TEST(breaks_ties_evenly_and_only_among_the_least)
{
    struct rng rng = {.state = 42};
    struct policy_target targets[6];
    fleet_fill(targets, 6);
    targets[0].running_requests = 1;
    targets[3].running_requests = 1;
    uint32_t hits[6] = {0};

    for (int i = 0; i < 8000; i++) {
        hits[pick(targets, 6, &rng)]++;
    }
    CHECK_EQ(hits[0] + hits[3], 0);
    CHECK(fleet_is_near(hits[1], 2000, 8) && fleet_is_near(hits[2], 2000, 8));
    CHECK(fleet_is_near(hits[4], 2000, 8) && fleet_is_near(hits[5], 2000, 8));
}

static uint32_t fewest(const struct policy_target *targets, uint32_t count)
{
    uint32_t fewest = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t running = targets[i].running_requests;
        fewest = running < fewest ? running : fewest;
    }
    return fewest;
}

TEST(no_other_target_runs_fewer)
{
    struct rng rng = {.state = 7};

    for (int round = 0; round < 5000; round++) {
        struct policy_target targets[9];
        uint32_t count = 1 + rng_below(&rng, 9);
        fleet_fill(targets, count);
        for (uint32_t i = 0; i < count; i++) {
            targets[i].running_requests = rng_below(&rng, 6);
        }
        uint32_t chosen = pick(targets, count, &rng);
        CHECK_EQ(targets[chosen].running_requests, fewest(targets, count));
    }
}
