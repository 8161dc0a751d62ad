// SPDX-License-Identifier: Apache-2.0
//
// ranvier -- a prefix has one owner, which is skipped while its load is above the bound: the
// default rule of Ranvier.
//
//     load(t)    = load of ranvier_internal.h + floor(5 * kv_usage), if known
//     cap        = max(1, ceil(mean load * load_bound_percent / 100))
//     bounded(h) = the first of live[jump(h + k)], k = 0 .. n - 1, with load < cap;
//                  if there is none, the least loaded, of equals the one with the lowest slot
//     pick       = the owner if load(owner) < cap, else bounded(h), which becomes the owner of a
//                  prefix without one
//     no prompt  : live[0]
//
// For comparison, with its defects.  A prompt that could not be read always goes to the lowest
// slot.  Without a floor under the cap, one request on a quiet fleet is an overload.  Jump hashing
// over a list moves half of the keys when a target in its middle leaves.  And 128 tokens are often
// just the system prompt that all requests share.

#include "policy/baseline/ranvier_internal.h"

struct ranvier_bound {
    uint64_t cap;
    uint32_t least; // the index of a target
    uint64_t least_load;
};

// The original's cost routing, which is off by default, would count the cache twice for the largest
// requests.
static uint64_t ranvier_load_with_cache(const struct policy_target *target)
{
    uint64_t load = ranvier_load(target);
    return target->kv_usage < 0 ? load : load + (uint64_t)(5 * (double)target->kv_usage);
}

static struct ranvier_bound ranvier_bound(const struct ranvier *self, const struct policy_input *in)
{
    ASSERT(self->live_count > 0);

    struct ranvier_bound bound = {.least_load = UINT64_MAX};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < self->live_count; i++) {
        uint64_t load = ranvier_load_with_cache(&in->targets[self->live[i]]);
        sum += load;
        if (load < bound.least_load) {
            bound.least_load = load;
            bound.least = self->live[i];
        }
    }
    // Whole numbers: a bound of 110% has no exact double.
    uint64_t parts = (uint64_t)100 * self->live_count;
    unsigned __int128 scaled = (unsigned __int128)sum * in->knobs->load_bound_percent;
    uint64_t cap = (uint64_t)((scaled + parts - 1) / parts);
    bound.cap = cap > 1 ? cap : 1;
    return bound;
}

static uint32_t first_within_bound(const struct ranvier *self, const struct policy_input *in,
                                   const struct ranvier_bound *bound)
{
    uint64_t hash = in->keys[ranvier_route_blocks(in) - 1];

    // If even the least loaded is at the cap, all targets are.
    for (uint32_t k = 0; k < self->live_count && bound->least_load < bound->cap; k++) {
        uint32_t target = ranvier_jump(self, hash + k);
        if (ranvier_load_with_cache(&in->targets[target]) < bound->cap) {
            return target;
        }
    }
    return bound->least;
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

    struct ranvier_bound bound = ranvier_bound(self, in);
    uint32_t owner = ranvier_owner(self, in);
    if (owner == in->target_count) {
        owner = first_within_bound(self, in, &bound);
        ranvier_learn(self, in, owner);
        return owner;
    }
    return ranvier_load_with_cache(&in->targets[owner]) < bound.cap
               ? owner
               : first_within_bound(self, in, &bound);
}

const struct policy policy_ranvier = {
    .name = "ranvier",
    .summary = "the owner of the first 128 tokens, within the load bound (Ranvier)",
    .state_size = sizeof(struct ranvier),
    .reads_prompt = true,
    .pick = ranvier_pick,
};
