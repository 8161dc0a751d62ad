// SPDX-License-Identifier: Apache-2.0
//
// prodstack_prefix -- any target that holds most of the prompt, as vLLM's production stack has it.
//
//     score(target) = leading blocks of the prompt that it holds
//     choice        = uniformly at random among those with the highest score
//
// When nobody holds the first block every score is 0 and the draw is among all.  The original walks
// a trie of its own and keeps, at each node, the targets that held all nodes before it: those left
// at the deepest one are those that hold most.
//
// Kept for comparison.  There is no load in it, in any case.  The original's lower limit of a match,
// under which it counts queries per second, is 0 unless set, and is left out.

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
