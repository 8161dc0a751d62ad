// SPDX-License-Identifier: Apache-2.0
//
// sample_internal.h -- draws targets with a probability in proportion to their weight.
//
// Weights are summed for each request: two walks over an array that is in the CPU's cache cost less
// than a table that must follow every change of the fleet.
#pragma once

#include "base/base.h"
#include "base/rng.h"
#include "policy/policy.h"

#include <stdint.h>

// Cannot wrap: 2^32 targets of weight 2^32 - 1 still fit.
static inline uint64_t sample_weight_sum(const struct policy_input *in)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        ASSERT(in->targets[i].weight > 0);
        sum += in->targets[i].weight;
    }
    return sum;
}

// The weights laid end to end make a line; returns the target that covers `point` of it.
static inline uint32_t sample_target_at(const struct policy_input *in, uint64_t point)
{
    uint32_t i = 0;
    while (point >= in->targets[i].weight) {
        point -= in->targets[i].weight;
        i++;
        ASSERT(i < in->target_count);
    }
    return i;
}

// Uniform in [0, bound) but for a bias below bound / 2^64.  `bound` must not be zero.
static inline uint64_t sample_below(struct rng *rng, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)rng_next(rng) * bound) >> 64);
}
