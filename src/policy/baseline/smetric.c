// SPDX-License-Identifier: Apache-2.0
//
// smetric -- a conversation stays on the target with its history while that target is fast enough:
// SMetric (branches of the vLLM Router).
//
//     hit(target)   = tokens of the prompt that it holds
//     load(target)  = queued prompt tokens + prompt tokens - hit
//     meets(target) = load * prefill_ms <= slack * (1000 ms + 62.5 ms per 1000 prompt tokens)
//     prev          = highest hit, then lowest load
//     choice        = prev     if turns > 0 and hit(prev) > 0.5 * history
//                                 and (prev meets, or none of the targets does)
//                     lowest load * running requests     otherwise
//
// with slack 1.  `history` is the prompt of the previous turn, so sessions need not be remembered:
// the target that holds more than half of it is assumed to have served that turn.  A target of
// unknown speed meets any goal.  A prompt that could not be read goes by running requests alone.
//
// The original counts characters and estimates the speed from times to the first token; here tokens
// and the learned speed stand for both.  Its term for long prompts is off by default.
//
// Ties rotate in both cases: every request starts its search one target further and takes the first
// of the best.  In the second case an idle target costs 0 whatever it holds, so with several idle
// targets a new conversation ignores the cache, as in the original.

#include "base/base.h"
#include "base/rng.h"
#include "policy/policy.h"

#include <stdbool.h>

static const double hit_ratio = 0.5;
static const double slack = 1;
static const double target_ms = 1000;
static const double target_ms_per_token = 62.5 / 1000;

struct smetric {
    uint32_t next;
    bool started;
};

static double smetric_load(const struct policy_input *in, const struct policy_target *target)
{
    ASSERT(target->matched_tokens <= in->prompt_tokens);

    return (double)target->queued_tokens + (in->prompt_tokens - target->matched_tokens);
}

static bool meets_goal(const struct policy_input *in, const struct policy_target *target)
{
    double goal_ms = slack * (target_ms + target_ms_per_token * in->prompt_tokens);
    return smetric_load(in, target) * target->prefill_ms <= goal_ms;
}

static bool any_meets_goal(const struct policy_input *in)
{
    uint32_t i = 0;
    while (i < in->target_count && !meets_goal(in, &in->targets[i])) {
        i++;
    }
    return i < in->target_count;
}

// The first target of the lowest cost from `start` on; with `by_load`, the least loaded of those.
static uint32_t first_cheapest(const struct policy_input *in, uint32_t start, bool by_load)
{
    uint32_t best = start;
    uint32_t i = start;
    for (uint32_t step = 1; step < in->target_count; step++) {
        i = i + 1 < in->target_count ? i + 1 : 0;
        bool is_lighter = by_load && in->costs[i] == in->costs[best] &&
                          smetric_load(in, &in->targets[i]) < smetric_load(in, &in->targets[best]);
        if (in->costs[i] < in->costs[best] || is_lighter) {
            best = i;
        }
    }
    return best;
}

static uint32_t smetric_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    struct smetric *self = state;
    ASSERT(in->costs != NULL);

    // From the same start, several routers would pick the same targets.
    if (!self->started) {
        self->next = (uint32_t)(rng_next(rng) >> 32);
        self->started = true;
    }
    uint32_t start = self->next++ % in->target_count;

    // `costs` ends up with the order that decided.
    if (in->turns > 0) {
        for (uint32_t i = 0; i < in->target_count; i++) {
            in->costs[i] = -(double)in->targets[i].matched_tokens;
        }
        uint32_t previous = first_cheapest(in, start, true);
        const struct policy_target *target = &in->targets[previous];
        bool has_history = target->matched_tokens > hit_ratio * in->history_tokens;
        if (has_history && (meets_goal(in, target) || !any_meets_goal(in))) {
            return previous;
        }
    }

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        double factor = in->prompt_tokens > 0 ? smetric_load(in, target) : 1;
        in->costs[i] = factor * target->running_requests;
    }
    return first_cheapest(in, start, false);
}

const struct policy policy_smetric = {
    .name = "smetric",
    .summary = "a conversation stays where its history is while that is fast enough (SMetric)",
    .state_size = sizeof(struct smetric),
    .reads_prompt = true,
    .pick = smetric_pick,
};
