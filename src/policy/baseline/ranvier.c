// SPDX-License-Identifier: Apache-2.0
//
// ranvier -- a prefix has one owner, which is passed over while its load is above the bound; the
// default rule of Ranvier.
//
//     load(t)    = load of ranvier_internal.h + floor(5 * kv_usage), where that is known
//     cap        = max(1, ceil(mean load * load_bound_percent / 100))
//     bounded(h) = the first of live[jump(h + k)], k = 0 .. n - 1, with load < cap;
//                  the least loaded, of equals the one with the lowest slot, when there is none
//     pick       = the owner if load(owner) < cap, else bounded(h); bounded(h) becomes the owner
//                  when there was none
//     no prompt  : live[0]
//
// It is here to be measured, with its defects: a prompt that was not understood goes to the lowest
// slot, always the same one; a cap without a floor calls one request on a quiet fleet an overload;
// jump hashing over a list moves half of the keys when a target in its middle leaves; and 128 tokens
// are often no more than the system prompt that everybody sends.

#include "policy/baseline/ranvier_internal.h"

struct fleet_load {
    uint64_t cap;
    uint32_t least; // the index of a target
    uint64_t least_load;
};

// Room in the cache counts, and would count double for the largest requests if the peer's cost
// routing, which is off unless asked for, named a cost.
static uint64_t load_of(const struct policy_target *target)
{
    uint64_t load = ranvier_load(target);
    return target->kv_usage < 0 ? load : load + (uint64_t)(5 * (double)target->kv_usage);
}

static struct fleet_load fleet_load(const struct ranvier *self, const struct policy_input *in)
{
    ASSERT(self->live_count > 0);

    struct fleet_load fleet = {.least_load = UINT64_MAX};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < self->live_count; i++) {
        uint64_t load = load_of(&in->targets[self->live[i]]);
        sum += load;
        if (load < fleet.least_load) {
            fleet.least_load = load;
            fleet.least = self->live[i];
        }
    }
    // Whole numbers: a bound of 110% has no exact double.
    uint64_t parts = (uint64_t)100 * self->live_count;
    unsigned __int128 bound = (unsigned __int128)sum * in->knobs->load_bound_percent;
    uint64_t cap = (uint64_t)((bound + parts - 1) / parts);
    fleet.cap = cap > 1 ? cap : 1;
    return fleet;
}

static uint32_t bounded(const struct ranvier *self, const struct policy_input *in,
                        const struct fleet_load *fleet)
{
    uint64_t hash = in->keys[ranvier_route_blocks(in) - 1];

    // When even the least loaded is above the cap, so are all that the walk would try.
    for (uint32_t k = 0; k < self->live_count && fleet->least_load < fleet->cap; k++) {
        uint32_t target = ranvier_jump(self, hash + k);
        if (load_of(&in->targets[target]) < fleet->cap) {
            return target;
        }
    }
    return fleet->least;
}

static uint32_t ranvier_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)rng;
    struct ranvier *self = state;
    ASSERT(in->knobs->load_bound_percent >= 100);

    ranvier_sort(self, in);
    if (in->key_count == 0) {
        return self->live[0];
    }

    struct fleet_load fleet = fleet_load(self, in);
    uint32_t owner = ranvier_owner(self, in);
    if (owner == in->target_count) {
        owner = bounded(self, in, &fleet);
        ranvier_learn(self, in, owner);
        return owner;
    }
    return load_of(&in->targets[owner]) < fleet.cap ? owner : bounded(self, in, &fleet);
}

const struct policy policy_ranvier = {
    .name = "ranvier",
    .summary = "the owner of the first 128 tokens, within the load bound (Ranvier)",
    .state_size = sizeof(struct ranvier),
    .reads_prompt = true,
    .pick = ranvier_pick,
};
