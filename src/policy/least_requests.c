// SPDX-License-Identifier: Apache-2.0
//
// least_requests -- the target with the fewest running requests.
//
//     load(target) = running requests
//
// Ties are common on a quiet fleet and are broken at random: the first of the list would get the
// requests of all workers.

#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static uint32_t least_requests_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    uint32_t best = 0;
    uint32_t tie_count = 1;

    for (uint32_t i = 1; i < in->target_count; i++) {
        uint32_t running = in->targets[i].running_requests;
        uint32_t least = in->targets[best].running_requests;

        if (running < least) {
            best = i;
            tie_count = 1;
        } else if (running == least && tie_is_won(&tie_count, rng)) {
            best = i;
        }
    }
    return best;
}

const struct policy policy_least_requests = {
    .name = "least_requests",
    .summary = "the target with the fewest running requests",
    .pick = least_requests_pick,
};
