// SPDX-License-Identifier: Apache-2.0

#include "policy/fleet_fixture.h"
#include "policy/policy.h"
#include "test.h"

static void count_hits(const struct policy_target *targets, uint32_t count, uint32_t turns,
                       uint32_t *hits)
{
    struct policy_input in = {.targets = targets, .target_count = count};
    struct rng rng = {.state = 9};
    for (uint32_t i = 0; i < turns; i++) {
        hits[policy_pick(&policy_weighted_random, NULL, &in, &rng)]++;
    }
}

TEST(gives_each_target_its_share_by_weight)
{
    struct policy_target targets[4];
    fleet_fill(targets, 4);
    uint32_t hits[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        targets[i].weight = 1 + i;
    }
    count_hits(targets, 4, 40000, hits);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(fleet_is_near(hits[i], 4000.0 * (1 + i), 4));
    }
}

TEST(weights_whose_sum_needs_more_than_32_bits_keep_their_share)
{
    struct policy_target targets[3];
    fleet_fill(targets, 3);
    uint32_t hits[3] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        targets[i].weight = UINT32_MAX;
    }
    count_hits(targets, 3, 12000, hits);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(fleet_is_near(hits[i], 4000, 5));
    }
}
