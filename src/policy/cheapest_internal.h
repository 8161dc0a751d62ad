// SPDX-License-Identifier: Apache-2.0
//
// cheapest_internal.h -- picks the lowest cost, for policies that rank all targets.
#pragma once

#include "base/base.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

// Reservoir sampling: whether one more of several equals replaces the one that was taken.  Each of
// k equals wins with probability 1/k in one pass.
static inline bool tie_is_won(uint32_t *tie_count, struct rng *rng)
{
    return rng_below(rng, ++*tie_count) == 0;
}

// The index of the lowest cost; k equal ones win with probability 1/k each.
static inline uint32_t cheapest_of(const double *costs, uint32_t count, struct rng *rng)
{
    ASSERT(count > 0);

    uint32_t best = 0;
    uint32_t tie_count = 1;

    for (uint32_t i = 1; i < count; i++) {
        if (costs[i] < costs[best]) {
            best = i;
            tie_count = 1;
        } else if (costs[i] == costs[best] && tie_is_won(&tie_count, rng)) {
            best = i;
        }
    }
    return best;
}
