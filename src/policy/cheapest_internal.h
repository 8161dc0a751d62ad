// SPDX-License-Identifier: Apache-2.0
//
// cheapest_internal.h -- picks the lowest cost, for policies that rank all targets.
#pragma once

#include "base/base.h"
#include "base/rng.h"

#include <stdint.h>

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
        } else if (costs[i] == costs[best]) {
            // Reservoir sampling: one pass, however many tie.
            tie_count++;
            if (rng_below(rng, tie_count) == 0) {
                best = i;
            }
        }
    }
    return best;
}
