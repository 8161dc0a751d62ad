// SPDX-License-Identifier: Apache-2.0
//
// ranvier_internal.h -- what ranvier and ranvier_median share: a prefix has one owner.
//
//     Lk    = blocks within the first 128 tokens, at least one, at most all
//     h     = key of block Lk
//     hit   = owner of the longest stored route among the blocks 1 .. Lk, if it is a target
//     live  = targets in the order of their slots
//     route = stored for block Lk when there was no hit
//
// The peer hashes the tokens; a block key is such a hash, chained over all blocks before it.  It
// learns a route from a response with status 200, this from the choice: a policy hears of no
// responses.  The owner that is learned is the one chosen before a diversion, so a prefix whose owner
// is overloaded leaves no trace of where it went.
#pragma once

#include "base/base.h"
#include "policy/owner_table_internal.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ranvier_prefix_tokens = 128,
    // As many as limits.backends allows; of more targets only the first so many are hashed to.
    ranvier_live_max = 4096,
};

struct ranvier {
    struct owner_table routes;
    uint32_t live_count;
    uint32_t live[ranvier_live_max]; // indices of targets, by their slots
};

static inline uint32_t ranvier_slot(const struct ranvier *self, const struct policy_input *in,
                                    uint32_t place)
{
    return in->targets[self->live[place]].backend;
}

static inline bool ranvier_is_sorted(const struct ranvier *self, const struct policy_input *in)
{
    for (uint32_t i = 1; i < self->live_count; i++) {
        if (ranvier_slot(self, in, i - 1) > ranvier_slot(self, in, i)) {
            return false;
        }
    }
    return true;
}

static inline void ranvier_swap(struct ranvier *self, uint32_t a, uint32_t b)
{
    uint32_t swap = self->live[a];
    self->live[a] = self->live[b];
    self->live[b] = swap;
}

// Lets the place sink below the higher slots of the heap made of the first `count` places.
static inline void ranvier_sink(struct ranvier *self, const struct policy_input *in, uint32_t place,
                                uint32_t count)
{
    while (2 * place + 1 < count) {
        uint32_t child = 2 * place + 1;
        if (child + 1 < count &&
            ranvier_slot(self, in, child) < ranvier_slot(self, in, child + 1)) {
            child++;
        }
        if (ranvier_slot(self, in, place) >= ranvier_slot(self, in, child)) {
            return;
        }
        ranvier_swap(self, place, child);
        place = child;
    }
}

// Brings `live` up to date.  Lists mostly come as they came the last time, and then this is one
// walk; otherwise it is a heapsort, which needs no room.
static inline void ranvier_sort(struct ranvier *self, const struct policy_input *in)
{
    uint32_t count = in->target_count < ranvier_live_max ? in->target_count : ranvier_live_max;
    if (self->live_count == count && ranvier_is_sorted(self, in)) {
        return;
    }

    self->live_count = count;
    for (uint32_t i = 0; i < count; i++) {
        self->live[i] = i;
    }
    if (ranvier_is_sorted(self, in)) {
        return;
    }
    for (uint32_t i = count / 2; i > 0; i--) {
        ranvier_sink(self, in, i - 1, count);
    }
    for (uint32_t i = count; i > 1; i--) {
        ranvier_swap(self, 0, i - 1);
        ranvier_sink(self, in, 0, i - 1);
    }
}

// The target that `hash` belongs to.  Jump consistent hash (Lamping and Veach, 2014): the last of
// the buckets that the key jumps to, each jump as far as the fleet would have to grow before the key
// moves again.
static inline uint32_t ranvier_jump(const struct ranvier *self, uint64_t hash)
{
    int64_t bucket = 0;
    int64_t next = 0;
    while (next < self->live_count) {
        bucket = next;
        hash = hash * 2862933555777941757 + 1;
        double share = (double)((hash >> 33) + 1) * 0x1p-31; // uniform in (0, 1]
        next = (int64_t)((double)(bucket + 1) / share);
    }
    return self->live[bucket];
}

// Of the prompt, which must have one.
static inline uint32_t ranvier_route_blocks(const struct policy_input *in)
{
    ASSERT(in->key_count > 0 && in->block_tokens > 0);

    uint32_t blocks = ranvier_prefix_tokens / in->block_tokens;
    blocks = blocks > 0 ? blocks : 1;
    return blocks < in->key_count ? blocks : in->key_count;
}

// The index of the target that owns the longest stored route; target_count when there is no route,
// or when its owner is not a target.
static inline uint32_t ranvier_owner(struct ranvier *self, const struct policy_input *in)
{
    uint64_t owner = 0;
    for (uint32_t i = ranvier_route_blocks(in); i > 0 && owner == 0; i--) {
        owner = owner_table_find(&self->routes, in->keys[i - 1]);
    }
    uint32_t target = owner != 0 ? 0 : in->target_count;
    while (target < in->target_count && in->targets[target].identity != owner) {
        target++;
    }
    return target;
}

static inline void ranvier_learn(struct ranvier *self, const struct policy_input *in,
                                 uint32_t target)
{
    uint64_t key = in->keys[ranvier_route_blocks(in) - 1];
    owner_table_store(&self->routes, key, in->targets[target].identity);
}

// Requests in flight and, where the engine reports, up to ten for what it says about itself:
//
//     load = running + floor(10 * (0.7 * min((run + waiting) / (run + 1) / 3, 1) + 0.3 * kv_usage))
//
// where run + waiting are the requests that the engine has, ours and others'.
static inline uint64_t ranvier_load(const struct policy_target *target)
{
    uint64_t load = target->running_requests;
    if (target->waiting < 0 || target->kv_usage < 0) {
        return load;
    }
    double all = (double)target->running_requests + (double)target->foreign_requests;
    double run = all > (double)target->waiting ? all - (double)target->waiting : 0;
    double queue = (run + (double)target->waiting) / (run + 1) / 3;
    double engine = 0.7 * (queue < 1 ? queue : 1) + 0.3 * (double)target->kv_usage;
    return load + (uint64_t)(10 * engine);
}
