// SPDX-License-Identifier: Apache-2.0
//
// weighted_random -- any target, with a chance in proportion to its weight.
//
//     P(target) = weight / sum of weights

#include "policy/sample_internal.h"

static uint32_t weighted_random_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    return sample_target_at(in, sample_below(rng, sample_weight_sum(in)));
}

const struct policy policy_weighted_random = {
    .name = "weighted_random",
    .summary = "any target, with a chance in proportion to its weight",
    .pick = weighted_random_pick,
};
