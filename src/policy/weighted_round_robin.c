// SPDX-License-Identifier: Apache-2.0
//
// weighted_round_robin -- targets in turn, each as often as its weight says, evenly spread.
//
// Every target has a timetable.  One round of the clock has 2^32 ticks; a target of weight w
// departs w times a round, evenly spaced, from an offset that follows from its fleet slot:
//
//     departure(j) = ceil((j * 2^32 + offset) / w),    j = 0 .. w - 1
//     offset       = slot * 2^32 / golden ratio  (mod 2^32)
//
// A pick moves the clock to the next departure of any target.  Any sum-of-weights consecutive picks
// therefore contain each target exactly w times, at equal distances.  Multiples of the golden ratio
// spread neighbouring slots, so that targets of low weight do not bunch up.
// With equal weights this is plain round robin.
//
// The state is the time on the clock and does not depend on targets.  When a target leaves, the
// others keep their order; when it returns, it has its old place.  The usual smooth scheme, a
// running credit for each target, carries credits of the old fleet into the new one: if all but two
// of a hundred targets fail, one of the two may be picked dozens of times in a row until credits
// are even.

#include "base/base.h"
#include "base/rng.h"
#include "policy/policy.h"

#include <stdbool.h>

struct weighted_round_robin {
    uint32_t now;
    bool started;
    uint64_t slot_next; // at tick `now`, slots below this one have departed
};

static const uint32_t golden_ticks = 0x9e3779b9; // 2^32 / golden ratio, to the nearest odd number

// Ticks until the next departure, 0 when it is due at this very tick, up to a full round.
static uint64_t ticks_to_departure(const struct weighted_round_robin *self,
                                   const struct policy_target *target)
{
    // In units of 1/w of a tick the departures lie 2^32 apart, so unsigned arithmetic that wraps
    // gives the distance to the last and to the next one without a division.
    uint32_t since = self->now * target->weight - target->backend * golden_ticks;

    // Rounding up puts a departure on this tick when it lies less than one tick back.
    if (since < target->weight && target->backend >= self->slot_next) {
        return 0;
    }
    uint64_t until = ((uint64_t)1 << 32) - since;
    return (until + target->weight - 1) / target->weight;
}

static uint32_t weighted_round_robin_pick(void *state, const struct policy_input *in,
                                          struct rng *rng)
{
    struct weighted_round_robin *self = state;

    // Several routers have the same timetable: from the same start all would pick the same targets.
    if (!self->started) {
        self->now = (uint32_t)(rng_next(rng) >> 32);
        self->started = true;
    }

    uint64_t best_ticks = UINT64_MAX;
    uint32_t best = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->weight > 0);

        uint64_t ticks = ticks_to_departure(self, target);
        if (ticks < best_ticks ||
            (ticks == best_ticks && target->backend < in->targets[best].backend)) {
            best_ticks = ticks;
            best = i;
        }
    }
    self->now += (uint32_t)best_ticks;
    self->slot_next = (uint64_t)in->targets[best].backend + 1;
    return best;
}

const struct policy policy_weighted_round_robin = {
    .name = "weighted_round_robin",
    .summary = "targets in turn, each as often as its weight says, evenly spread",
    .state_size = sizeof(struct weighted_round_robin),
    .pick = weighted_round_robin_pick,
};
