// SPDX-License-Identifier: Apache-2.0
//
// power_of_two -- of two targets drawn at random, the one with fewer running requests.
//
// The second draw lowers the load of the fullest of n targets from about ln n / ln ln n requests to
// ln ln n / ln 2, nearly that of least_requests.  Unlike least_requests it does not herd when
// several routers see the same stale counts, since each compares another pair.

#include "base/rng.h"
#include "policy/policy.h"

static uint32_t power_of_two_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    if (in->target_count == 1) {
        return 0;
    }
    // The second is drawn from the others, so the two are distinct.
    uint32_t first = rng_below(rng, in->target_count);
    uint32_t second = rng_below(rng, in->target_count - 1);
    second += second >= first;

    // A tie goes to the first, which is random too.
    return in->targets[second].running_requests < in->targets[first].running_requests ? second
                                                                                      : first;
}

const struct policy policy_power_of_two = {
    .name = "power_of_two",
    .summary = "of two random targets, the one with fewer running requests",
    .pick = power_of_two_pick,
};
