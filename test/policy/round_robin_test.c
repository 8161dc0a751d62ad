// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "policy/policy.h"
#include "test.h"

TEST(takes_each_target_in_turn_and_survives_a_shrinking_fleet)
{
    struct policy_target targets[3] = {0};
    struct policy_input in = {.targets = targets, .target_count = 3};
    struct rng rng = {.state = 1};
    uint64_t state[4] = {0};

    CHECK(policy_round_robin.state_size <= sizeof(state));
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(policy_pick(&policy_round_robin, state, &in, &rng), i % 3);
    }
    in.target_count = 1;
    CHECK_EQ(policy_pick(&policy_round_robin, state, &in, &rng), 0);
}
