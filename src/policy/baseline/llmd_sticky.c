// SPDX-License-Identifier: Apache-2.0
//
// llmd_sticky -- targets that hold most of the prompt, until their queues are far longer than the
// others': the affinity filter of llm-d's optimised baseline.
//
//     sticky     = {t : matched blocks(t) >= 0.80 * blocks of the prompt}
//     wait(t)    = queued tokens(t) / 15928 * 1000                                          ms
//     candidates = all       if there are others and min wait(sticky) - min wait(others) > 18000
//                  sticky    otherwise, if there are any
//                  all       if there are none
//     score(t)   = 1 - min(1, (queued tokens(t) + uncached tokens(t)) / 4194304)
//     cost       = -score, plus 2 if t is not a candidate;  the lowest, ties at random
//
// Both numbers of the wait are the original's: the prefill rate of one model on one kind of
// machine, and the penalty that its authors accept.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

#include <math.h>
#include <stdbool.h>

static const double sticky_share = 0.80;
static const double prefill_tokens_per_s = 15928;
static const double wait_gap_max_ms = 18000;
static const double full_queue_tokens = 4194304;

static bool is_sticky(const struct policy_input *in, const struct policy_target *target)
{
    return in->key_count > 0 &&
           (double)target->matched_blocks / (double)in->key_count >= sticky_share;
}

// Whether sticky targets alone are candidates.
static bool is_affinity_kept(const struct policy_input *in)
{
    double sticky_ms = INFINITY;
    double others_ms = INFINITY;
    for (uint32_t i = 0; i < in->target_count; i++) {
        double wait_ms = (double)in->targets[i].queued_tokens / prefill_tokens_per_s * 1000;
        double *least_ms = is_sticky(in, &in->targets[i]) ? &sticky_ms : &others_ms;
        *least_ms = wait_ms < *least_ms ? wait_ms : *least_ms;
    }
    // The gap is infinite without sticky targets, and minus infinity without others.
    return sticky_ms - others_ms <= wait_gap_max_ms;
}

static double llmd_cost(const struct policy_input *in, const struct policy_target *target)
{
    ASSERT(target->matched_tokens <= in->prompt_tokens);
    uint32_t uncached = in->prompt_tokens - target->matched_tokens;
    double fill = ((double)target->queued_tokens + uncached) / full_queue_tokens;
    return (fill < 1 ? fill : 1) - 1;
}

static uint32_t llmd_sticky_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);

    bool affinity_kept = is_affinity_kept(in);
    for (uint32_t i = 0; i < in->target_count; i++) {
        bool is_candidate = !affinity_kept || is_sticky(in, &in->targets[i]);
        in->costs[i] = llmd_cost(in, &in->targets[i]) + (is_candidate ? 0 : 2);
    }
    return cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_llmd_sticky = {
    .name = "llmd_sticky",
    .summary = "targets that hold 80% of the prompt, up to 18 s of extra wait (llm-d)",
    .reads_prompt = true,
    .pick = llmd_sticky_pick,
};
