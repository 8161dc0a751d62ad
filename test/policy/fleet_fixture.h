// SPDX-License-Identifier: Apache-2.0
//
// fleet_fixture.h -- made-up fleets for the tests of the policies.
//
// Fleet slots have holes and do not follow the order of the list, as after backends came and went:
// a policy that takes a slot for a position fails here.
#pragma once

#include "base/hash.h"
#include "base/rng.h"
#include "policy/policy.h"

#include <stdbool.h>

enum { fleet_count_max = 4096 };

static inline struct policy_target fleet_target(uint32_t slot, uint32_t weight)
{
    return (struct policy_target){
        .backend = slot,
        .weight = weight,
        .identity = hash_pair(slot, 0x6e616d65),
    };
}

// Slots 3, 10, 17, ... in the reverse order of the list, all of weight 1 and idle.
static inline void fleet_fill(struct policy_target *targets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        targets[i] = fleet_target(3 + 7 * (count - 1 - i), 1);
    }
}

static inline void fleet_shuffle(struct policy_target *targets, uint32_t count, struct rng *rng)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = rng_below(rng, i);
        struct policy_target swap = targets[i - 1];
        targets[i - 1] = targets[j];
        targets[j] = swap;
    }
}

static inline void fleet_remove(struct policy_target *targets, uint32_t *count, uint32_t index)
{
    memmove(&targets[index], &targets[index + 1], (*count - index - 1) * sizeof(*targets));
    (*count)--;
}

// Within `percent` of what was expected.
static inline bool fleet_is_near(double actual, double expected, double percent)
{
    double error = actual > expected ? actual - expected : expected - actual;
    return error <= expected * percent / 100;
}
