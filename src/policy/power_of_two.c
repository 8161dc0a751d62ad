// SPDX-License-Identifier: Apache-2.0
//
// power_of_two -- of two targets drawn at random, the one with fewer running requests.
//
// The second look takes the fullest of n targets from about ln n / ln ln n requests down to
// ln ln n / ln 2, nearly what least_requests reaches, and unlike it does not herd when several
// balancers see the same old counts: each looks at a pair of its own.

#include "base/rng.h"
#include "policy/policy.h"

static uint32_t power_of_two_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    if (in->target_count == 1) {
        return 0;
    }
    // Drawing the second from the others makes the two distinct without drawing again.
    uint32_t first = rng_below(rng, in->target_count);
    uint32_t second = rng_below(rng, in->target_count - 1);
    second += second >= first;

    // A tie goes to the first, which is as random as a toss.
    return in->targets[second].running_requests < in->targets[first].running_requests ? second
                                                                                      : first;
}

const struct policy policy_power_of_two = {
    .name = "power_of_two",
    .summary = "of two random targets, the one with fewer running requests",
    .pick = power_of_two_pick,
};
