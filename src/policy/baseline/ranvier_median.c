// SPDX-License-Identifier: Apache-2.0
//
// ranvier_median -- a prefix has one owner, which is skipped while its load is above twice the
// median: Ranvier's rule for its plain jump hash.
//
//     owner     = hit, or live[jump(h)], which then becomes the owner      (ranvier_internal.h)
//     median    = of an even number of loads, the upper one in the middle
//     pick      = the owner if load(owner) <= 2 * median + 2,
//                 else the least loaded, of equals the one with the lowest slot
//     no prompt : live[0]
//
// The added 2 keeps a quiet fleet, whose median is 0, from diverting.  It has the defects of
// ranvier, except for the cap.

#include "policy/baseline/ranvier_internal.h"

enum { imbalance_factor = 2, imbalance_floor = 2 };

// Without sorting: the median is below a number if more than half of the loads are.
static bool is_above_median_bound(const struct policy_input *in, uint32_t owner)
{
    uint64_t load = ranvier_load(&in->targets[owner]);
    uint32_t far_below = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        far_below += load > imbalance_factor * ranvier_load(&in->targets[i]) + imbalance_floor;
    }
    return far_below > in->target_count / 2;
}

static uint32_t ranvier_least_loaded(const struct ranvier *self, const struct policy_input *in)
{
    uint32_t best = self->live[0];
    for (uint32_t i = 1; i < self->live_count; i++) {
        if (ranvier_load(&in->targets[self->live[i]]) < ranvier_load(&in->targets[best])) {
            best = self->live[i];
        }
    }
    return best;
}

static uint32_t ranvier_median_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)rng;
    struct ranvier *self = state;

    ranvier_sort(self, in);
    if (in->key_count == 0) {
        return self->live[0];
    }

    uint32_t owner = ranvier_owner(self, in);
    if (owner == in->target_count) {
        owner = ranvier_jump(self, in->keys[ranvier_route_blocks(in) - 1]);
        ranvier_learn(self, in, owner);
    }
    return is_above_median_bound(in, owner) ? ranvier_least_loaded(self, in) : owner;
}

const struct policy policy_ranvier_median = {
    .name = "ranvier_median",
    .summary = "the owner of the first 128 tokens, up to twice the median load (Ranvier)",
    .state_size = sizeof(struct ranvier),
    .reads_prompt = true,
    .pick = ranvier_median_pick,
};
