// SPDX-License-Identifier: Apache-2.0
//
// kv_aware -- the target that holds most of the prompt: the rule of a branch of the vLLM Router.
//
//     score(target) = leading blocks of the prompt that it holds
//     choice        = highest score, or fewest running requests when all scores are 0
//
// For comparison only.  Load counts only if all targets are cold, so all requests with a popular
// prefix go to the target that got it first, however long its queue.
//
// Ties are broken at random in both cases.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static uint32_t kv_aware_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    bool is_held = false;
    for (uint32_t i = 0; i < in->target_count; i++) {
        is_held |= in->targets[i].matched_blocks > 0;
    }
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        in->costs[i] = is_held ? -(double)target->matched_blocks : (double)target->running_requests;
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_kv_aware = {
    .name = "kv_aware",
    .summary = "the target that holds most of the prompt, else the least loaded (vLLM Router)",
    .reads_prompt = true,
    .pick = kv_aware_pick,
};
