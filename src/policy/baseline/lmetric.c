// SPDX-License-Identifier: Apache-2.0
//
// lmetric -- the least product of prefill work and batch size: LMetric (arXiv 2603.15202).
//
//     cost(target) = (queued prompt tokens + u) * (running requests + 1)
//     u            = the tokens of this prompt that it does not hold, at least one block
//
// A product needs no weights: scaling a factor keeps the order.  The new request is counted in the
// batch, since otherwise every idle target would cost 0, whatever it holds.  An engine computes the
// last block of a prompt even if it holds all of it; without that block all full holders would cost
// 0, however large their batches.
//
// Ties are broken at random.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

static double lmetric_cost(const struct policy_input *in, const struct policy_target *target)
{
    ASSERT(target->matched_tokens <= in->prompt_tokens);

    uint32_t uncached = in->prompt_tokens - target->matched_tokens;
    uncached = uncached > in->block_tokens ? uncached : in->block_tokens;
    return ((double)target->queued_tokens + uncached) * ((double)target->running_requests + 1);
}

static uint32_t lmetric_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    for (uint32_t i = 0; i < in->target_count; i++) {
        in->costs[i] = lmetric_cost(in, &in->targets[i]);
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_lmetric = {
    .name = "lmetric",
    .summary = "the least product of prefill work and batch size (LMetric)",
    .reads_prompt = true,
    .pick = lmetric_pick,
};
