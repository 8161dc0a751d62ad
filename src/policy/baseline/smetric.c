// SPDX-License-Identifier: Apache-2.0
//
// smetric -- a conversation stays where its history is while that target is fast enough, as SMetric
// (branches of the vLLM Router) has it.
//
//     hit(target)   = tokens of the prompt that it holds
//     load(target)  = queued prompt tokens + prompt tokens - hit
//     meets(target) = load * prefill_ms <= slack * (1000 ms + 62.5 ms per 1000 prompt tokens)
//     prev          = highest hit, then lowest load
//     choice        = prev     if turns > 0 and hit(prev) > 0.5 * history
//                                 and (prev meets or nobody does)
//                     lowest load * running requests     otherwise
//
// with slack 1.  `history` is what the previous turn sent, so no session needs to be remembered: who
// holds more than half of it is taken for the one that served that turn.  A target whose speed is
// not known meets anything.  A prompt that was not understood goes by running requests alone.
//
// The original counts characters and estimates the speed from times to the first token; tokens and
// the learned speed stand for both here.  Its term for long prompts is off unless set.
//
// Ties rotate, in both cases: every request starts its search one target further and the first of
// the best is taken.  An idle target costs 0 in the second case whatever it holds; with several of
// them idle, that is the original's rule, a new conversation ignores the cache.

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

static double load_of(const struct policy_input *in, const struct policy_target *target)
{
    ASSERT(target->matched_tokens <= in->prompt_tokens);

    return (double)target->queued_tokens + (in->prompt_tokens - target->matched_tokens);
}

static bool meets(const struct policy_input *in, const struct policy_target *target)
{
    double goal_ms = slack * (target_ms + target_ms_per_token * in->prompt_tokens);
    return load_of(in, target) * target->prefill_ms <= goal_ms;
}

static bool nobody_meets(const struct policy_input *in)
{
    for (uint32_t i = 0; i < in->target_count; i++) {
        if (meets(in, &in->targets[i])) {
            return false;
        }
    }
    return true;
}

// The first of the lowest costs from `start` on; of several, the one with the least load where
// `by_load` says so.
static uint32_t first_cheapest(const struct policy_input *in, uint32_t start, bool by_load)
{
    uint32_t best = start;
    uint32_t i = start;
    for (uint32_t step = 1; step < in->target_count; step++) {
        i = i + 1 < in->target_count ? i + 1 : 0;
        bool is_lighter = by_load && in->costs[i] == in->costs[best] &&
                          load_of(in, &in->targets[i]) < load_of(in, &in->targets[best]);
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

    // Workers that all began at the head of the list would all call on the same targets.
    if (!self->started) {
        self->next = (uint32_t)(rng_next(rng) >> 32);
        self->started = true;
    }
    uint32_t start = self->next++ % in->target_count;

    // What is left in `costs` is the order that decided.
    if (in->turns > 0) {
        for (uint32_t i = 0; i < in->target_count; i++) {
            in->costs[i] = -(double)in->targets[i].matched_tokens;
        }
        uint32_t previous = first_cheapest(in, start, true);
        const struct policy_target *target = &in->targets[previous];
        bool has_history = target->matched_tokens > hit_ratio * in->history_tokens;
        if (has_history && (meets(in, target) || nobody_meets(in))) {
            return previous;
        }
    }

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        double factor = in->prompt_tokens > 0 ? load_of(in, target) : 1;
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
