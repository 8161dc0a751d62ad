// SPDX-License-Identifier: Apache-2.0
//
// weighted_least_requests -- the target with the fewest running requests for its weight.
//
//     load(target) = (running requests + 1) / weight
//
// The new request is counted, since otherwise idle targets of weight 1 and 8 would tie.  A target
// of low weight is thus used only when the others are as full for their weight as one request would
// make it.  weighted_random and weighted_round_robin give fixed shares instead.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static uint32_t weighted_least_requests_pick(void *state, const struct policy_input *in,
                                             struct rng *rng)
{
    (void)state;

    uint32_t best = 0;
    uint32_t tie_count = 0;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        const struct policy_target *least = &in->targets[best];
        ASSERT(target->weight > 0);

        // a/b < c/d as a*d < c*b: no rounding, and 2^32 * (2^32 - 1) fits.
        uint64_t load = ((uint64_t)target->running_requests + 1) * least->weight;
        uint64_t least_load = ((uint64_t)least->running_requests + 1) * target->weight;

        if (load < least_load) {
            best = i;
            tie_count = 1;
        } else if (load == least_load && tie_is_won(&tie_count, rng)) {
            best = i;
        }
    }
    return best;
}

const struct policy policy_weighted_least_requests = {
    .name = "weighted_least_requests",
    .summary = "the target with the fewest running requests for its weight",
    .pick = weighted_least_requests_pick,
};
