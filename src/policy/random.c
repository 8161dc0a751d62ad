// SPDX-License-Identifier: Apache-2.0
//
// random -- any target, all alike.
//
// Without state or loads, many routers in front of one fleet do not disturb each other.  The price
// is imbalance: of n requests on n targets, the fullest target gets about ln n / ln ln n.

#include "base/rng.h"
#include "policy/policy.h"

static uint32_t random_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    return rng_below(rng, in->target_count);
}

const struct policy policy_random = {
    .name = "random",
    .summary = "any target, all alike",
    .pick = random_pick,
};
