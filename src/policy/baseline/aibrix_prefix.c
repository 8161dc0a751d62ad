// SPDX-License-Identifier: Apache-2.0
//
// aibrix_prefix -- the best holder of the prompt that is not overloaded: the rule of AIBrix's
// gateway.
//
//     run(target)  = running requests;  mean, deviation: of run over all targets
//     candidates   = those with run = min run   if max run - min run > 8
//                    all                        otherwise
//     holders      = candidates that hold a leading block and have run <= mean + 1 * deviation
//     choice       = of the holders, the one with most leading blocks, then the lowest run
//                    without holders, the lowest run of all targets
//
// The original sorts by the fraction of the prompt that a target holds, which is the order by
// blocks.  Ties are broken at random in both cases.
//
// For comparison only.  Both limits are thresholds: at a spread of 9 requests affinity ends.

#include "base/base.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

#include <math.h>

// Beyond this spread of running requests, only the least loaded targets are candidates.
enum { imbalance_max = 8 };

struct aibrix_spread {
    uint32_t least;
    uint32_t most;
    double bound; // mean plus one standard deviation
};

static struct aibrix_spread aibrix_spread(const struct policy_input *in)
{
    struct aibrix_spread spread = {.least = UINT32_MAX};
    double sum = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        uint32_t running = in->targets[i].running_requests;
        spread.least = running < spread.least ? running : spread.least;
        spread.most = running > spread.most ? running : spread.most;
        sum += running;
    }

    // Around the mean, not from the sum of squares: the variance is never negative.
    double mean = sum / in->target_count;
    double square_sum = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        double off = in->targets[i].running_requests - mean;
        square_sum += off * off;
    }
    spread.bound = mean + sqrt(square_sum / in->target_count);
    return spread;
}

static bool is_light_holder(const struct aibrix_spread *spread, const struct policy_target *target)
{
    if (spread->most - spread->least > imbalance_max && target->running_requests != spread->least) {
        return false;
    }
    return target->matched_blocks > 0 && target->running_requests <= spread->bound;
}

// Above 0: `a` is better; 0: they are equal.
static int compare_holders(const struct policy_target *a, const struct policy_target *b)
{
    if (a->matched_blocks != b->matched_blocks) {
        return a->matched_blocks > b->matched_blocks ? 1 : -1;
    }
    if (a->running_requests != b->running_requests) {
        return a->running_requests < b->running_requests ? 1 : -1;
    }
    return 0;
}

static uint32_t aibrix_prefix_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    struct aibrix_spread spread = aibrix_spread(in);
    uint32_t best = 0;
    uint32_t tie_count = 0;

    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        if (!is_light_holder(&spread, target)) {
            continue;
        }
        int order = tie_count == 0 ? 1 : compare_holders(target, &in->targets[best]);
        if (order > 0) {
            best = i;
            tie_count = 1;
        } else if (order == 0 && tie_is_won(&tie_count, rng)) {
            best = i;
        }
    }
    return tie_count > 0 ? best : policy_least_requests.pick(NULL, in, rng);
}

const struct policy policy_aibrix_prefix = {
    .name = "aibrix_prefix",
    .summary = "the best holder of the prompt that is not overloaded (AIBrix)",
    .reads_prompt = true,
    .pick = aibrix_prefix_pick,
};
