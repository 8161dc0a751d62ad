// SPDX-License-Identifier: Apache-2.0
//
// prodstack_prefix -- any target that holds most of the prompt: the rule of vLLM's production
// stack.
//
//     score(target) = leading blocks of the prompt that it holds
//     choice        = uniformly at random among those with the highest score
//
// If all targets are cold, the draw is among all.  The original walks its own trie and keeps, at
// each node, the targets that held all nodes before it; those left at the deepest node hold most.
//
// For comparison only.  Load is ignored.  The original's lower limit of a match, below which it
// counts queries per second, is 0 by default and left out.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static uint32_t prodstack_prefix_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    for (uint32_t i = 0; i < in->target_count; i++) {
        in->costs[i] = -(double)in->targets[i].matched_blocks;
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_prodstack_prefix = {
    .name = "prodstack_prefix",
    .summary = "any target that holds most of the prompt (vLLM production stack)",
    .reads_prompt = true,
    .pick = prodstack_prefix_pick,
};
