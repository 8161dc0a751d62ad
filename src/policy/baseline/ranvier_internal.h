// SPDX-License-Identifier: Apache-2.0
//
// ranvier_internal.h -- shared by ranvier and ranvier_median: the owners of prefixes, and loads.
//
//     Lk    = blocks within the first 128 tokens, at least one, at most all
//     h     = key of block Lk
//     hit   = owner of the longest stored route among the blocks 1 .. Lk, if it is a target
//     live  = targets in the order of their slots
//     route = stored for block Lk if there was no hit
//
// The original hashes the tokens; a block key is such a hash, chained over all blocks before it.
// The original learns a route from a response with status 200; a policy does not see responses, so
// this learns from the choice.  The owner is the target chosen before a diversion: where requests
// of an overloaded owner go is not remembered.
#pragma once

#include "base/base.h"
#include "policy/owner_table_internal.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ranvier_prefix_tokens = 128,
    // As many as limits.backends allows; jump hashing ignores targets beyond it.
    ranvier_live_max = 4096,
};

struct ranvier {
    struct owner_table routes;
    uint32_t live_count;
    uint32_t live[ranvier_live_max]; // indices of targets, by their slots
};

// Moves live[i] down by steps of `gap` to its place among live[i - gap], live[i - 2 * gap], ...
static inline void ranvier_sift(struct ranvier *self, const struct policy_input *in, uint32_t i,
                                uint32_t gap)
{
    uint32_t moved = self->live[i];
    while (i >= gap && in->targets[self->live[i - gap]].backend > in->targets[moved].backend) {
        self->live[i] = self->live[i - gap];
        i -= gap;
    }
    self->live[i] = moved;
}

// Brings `live` up to date: a Shell sort of the last order, which mostly holds.
static inline void ranvier_sort(struct ranvier *self, const struct policy_input *in)
{
    static const uint32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1}; // Ciura, 2001
    uint32_t count = in->target_count < ranvier_live_max ? in->target_count : ranvier_live_max;

    for (uint32_t i = 0; self->live_count != count && i < count; i++) {
        self->live[i] = i;
    }
    self->live_count = count;
    for (uint32_t g = 0; g < ARRAY_COUNT(gaps); g++) {
        for (uint32_t i = gaps[g]; i < count; i++) {
            ranvier_sift(self, in, i, gaps[g]);
        }
    }
}

// The target of a hash: jump consistent hash (Lamping and Veach, 2014).  Each jump goes to the size
// of the fleet at which the key would move again; the last one within the fleet is the bucket.
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

// Lk; the prompt must have keys.
static inline uint32_t ranvier_route_blocks(const struct policy_input *in)
{
    ASSERT(in->key_count > 0 && in->block_tokens > 0);

    uint32_t blocks = ranvier_prefix_tokens / in->block_tokens;
    blocks = blocks > 0 ? blocks : 1;
    return blocks < in->key_count ? blocks : in->key_count;
}

// The index of the target that owns the longest stored route; target_count: no route, or its owner
// is not among the targets.
static inline uint32_t ranvier_owner(struct ranvier *self, const struct policy_input *in)
{
    uint64_t owner = 0;
    for (uint32_t i = ranvier_route_blocks(in); i > 0 && owner == 0; i--) {
        owner = owner_table_find(&self->routes, in->keys[i - 1]);
    }
    return owner != 0 ? owner_target(in, owner) : in->target_count;
}

static inline void ranvier_learn(struct ranvier *self, const struct policy_input *in,
                                 uint32_t target)
{
    uint64_t key = in->keys[ranvier_route_blocks(in) - 1];
    owner_table_store(&self->routes, key, in->targets[target].identity);
}

// Requests in flight, plus up to ten for the queue and the cache that the engine reports:
//
//     load = running + floor(10 * (0.7 * min((run + waiting) / (run + 1) / 3, 1) + 0.3 * kv_usage))
//
// run + waiting are the requests at the engine, those of other routers included.
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
