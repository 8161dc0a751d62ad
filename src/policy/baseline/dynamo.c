// SPDX-License-Identifier: Apache-2.0
//
// dynamo -- the fewest blocks to prefill plus blocks being decoded: the rule of NVIDIA Dynamo's
// router.
//
//     prefill(target) = (queued prompt tokens + tokens of this prompt it does not hold) / block
//     decode(target)  = context tokens of requests being decoded / block + blocks of this prompt
//     cost(target)    = prefill_scale * prefill + decode
//
// With temperature 0 the lowest cost wins, ties at random; above it targets are drawn by
//
//     P(target) ~ exp(-(cost - min) / ((max - min) * temperature))
//
// which is uniform when all costs are equal.  Left out are the credits for blocks in host memory
// and on disk, which policies do not see, and two terms whose default weight is 0: the decay of the
// credit and the count of active requests.  Two things differ.  The original counts a context once
// that several running requests share; we count it for each.  It also leaves out blocks of this
// prompt that a running request already uses; we count all of them, which adds the same to every
// cost.

#include "base/base.h"
#include "base/rng.h"
#include "policy/cheapest_internal.h"
#include "policy/policy.h"

#include <math.h>

static double dynamo_cost(const struct policy_input *in, const struct policy_target *target)
{
    ASSERT(target->matched_tokens <= in->prompt_tokens);

    double block = in->block_tokens;
    uint32_t uncached = in->prompt_tokens - target->matched_tokens;
    double prefill = ((double)target->queued_tokens + uncached) / block;
    double decode = (double)target->context_tokens / block + ceil(in->prompt_tokens / block);
    return (double)in->knobs->prefill_scale * prefill + decode;
}

// 1 for the cheapest, less for others.
static double softmax_weight(double cost, double least, double scale)
{
    return exp(-(cost - least) / scale);
}

static uint32_t draw_by_softmax(const struct policy_input *in, struct rng *rng)
{
    double least = in->costs[0];
    double most = in->costs[0];
    for (uint32_t i = 1; i < in->target_count; i++) {
        least = fmin(least, in->costs[i]);
        most = fmax(most, in->costs[i]);
    }
    if (most == least) {
        return cheapest_of(in->costs, in->target_count, rng);
    }

    double scale = (most - least) * in->knobs->temperature;
    double sum = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        sum += softmax_weight(in->costs[i], least, scale);
    }

    // The weights laid end to end make a line.  Rounding may leave the point just beyond its end;
    // then it belongs to the last target with a positive weight.
    double point = (double)(rng_next(rng) >> 11) * 0x1p-53 * sum;
    uint32_t last = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        double weight = softmax_weight(in->costs[i], least, scale);
        if (point < weight) {
            return i;
        }
        point -= weight;
        last = weight > 0 ? i : last;
    }
    return last;
}

static uint32_t dynamo_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;
    ASSERT(in->costs != NULL);
    ASSERT(in->block_tokens > 0);
    ASSERT(in->knobs->prefill_scale >= 0 && in->knobs->temperature >= 0);

    for (uint32_t i = 0; i < in->target_count; i++) {
        in->costs[i] = dynamo_cost(in, &in->targets[i]);
    }
    return in->knobs->temperature > 0 ? draw_by_softmax(in, rng)
                                      : cheapest_of(in->costs, in->target_count, rng);
}

const struct policy policy_dynamo = {
    .name = "dynamo",
    .summary = "the fewest blocks to prefill and being decoded (NVIDIA Dynamo)",
    .reads_prompt = true,
    .pick = dynamo_pick,
};
