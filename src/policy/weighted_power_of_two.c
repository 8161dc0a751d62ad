// SPDX-License-Identifier: Apache-2.0
//
// weighted_power_of_two -- of two targets drawn by weight, the one less loaded for its weight.
//
//     P(target is drawn) ~ weight        load(target) = running requests / weight
//
// While loads are equal, the draw alone gives each target its share.  So the new request is not
// counted, unlike in weighted_least_requests: that would favour high weights twice, and a target of
// weight 1 beside one of weight 99 would starve on a quiet fleet.

#include "policy/sample_internal.h"

static uint32_t weighted_power_of_two_pick(void *state, const struct policy_input *in,
                                           struct rng *rng)
{
    (void)state;

    uint64_t weight_sum = sample_weight_sum(in);
    if (in->target_count == 1) {
        return 0;
    }

    uint64_t point = sample_below(rng, weight_sum);
    uint32_t first = sample_target_at(in, point);

    // The second is drawn from the line without the first target: a point beyond the beginning of
    // the first is moved past its end.
    const struct policy_target *a = &in->targets[first];
    uint64_t first_begin = 0;
    for (uint32_t i = 0; i < first; i++) {
        first_begin += in->targets[i].weight;
    }
    point = sample_below(rng, weight_sum - a->weight);
    point += point >= first_begin ? a->weight : 0;
    uint32_t second = sample_target_at(in, point);
    const struct policy_target *b = &in->targets[second];

    // A tie goes to the first, whose chance is exactly its share of the weights.
    return (uint64_t)b->running_requests * a->weight < (uint64_t)a->running_requests * b->weight
               ? second
               : first;
}

const struct policy policy_weighted_power_of_two = {
    .name = "weighted_power_of_two",
    .summary = "of two targets drawn by weight, the one less loaded for its weight",
    .pick = weighted_power_of_two_pick,
};
