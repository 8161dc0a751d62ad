// SPDX-License-Identifier: Apache-2.0
//
// prefix_cost -- the target with the least prefill between now and the request's first token.
//
//     cost(target) = prompt tokens it does not hold + prompt tokens queued there
//
// Both are tokens to compute, so no weight is needed between the savings of the cache and the cost
// of the queue: a target keeps its prompts until its queue is longer than its cache saves.
// Decoding and the speeds of targets are ignored.
//
// Ties are broken at random: for a cold prompt all idle targets are equal.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static uint32_t prefix_cost_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->matched_tokens <= in->prompt_tokens);

        uint32_t uncached = in->prompt_tokens - target->matched_tokens;
        in->costs[i] = (double)uncached + (double)target->queued_tokens;
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_prefix_cost = {
    .name = "prefix_cost",
    .summary = "the target with the least prefill before the first token",
    .reads_prompt = true,
    .pick = prefix_cost_pick,
};
