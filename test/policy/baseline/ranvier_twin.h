// SPDX-License-Identifier: Apache-2.0
//
// ranvier_twin.h -- the parts of Ranvier's rules, written once more in the plainest way.
#pragma once

#include "base/base.h"
#include "policy/policy.h"

#include <math.h>
#include <stdlib.h>

struct ranvier_twin_route {
    uint64_t key;
    uint64_t owner;
};

struct ranvier_twin {
    struct ranvier_twin_route routes[4096];
    uint32_t route_count;
};

static inline uint32_t ranvier_twin_jump(uint64_t key, uint32_t count)
{
    int64_t b = -1;
    int64_t j = 0;
    while (j < (int64_t)count) {
        b = j;
        key = key * 2862933555777941757ULL + 1;
        j = (int64_t)((double)(b + 1) * ((double)(1LL << 31) / (double)((key >> 33) + 1)));
    }
    return (uint32_t)b;
}

// The index of the target whose slot is the n-th lowest.
static inline uint32_t ranvier_twin_live(const struct policy_input *in, uint32_t n)
{
    for (uint32_t i = 0; i < in->target_count; i++) {
        uint32_t lower = 0;
        for (uint32_t j = 0; j < in->target_count; j++) {
            lower += in->targets[j].backend < in->targets[i].backend;
        }
        if (lower == n) {
            return i;
        }
    }
    ASSERT(false);
    return 0;
}

static inline uint32_t ranvier_twin_blocks(const struct policy_input *in)
{
    uint32_t blocks = 1;
    while ((blocks + 1) * in->block_tokens <= 128 && blocks < in->key_count) {
        blocks++;
    }
    return blocks;
}

static inline uint64_t ranvier_twin_hash(const struct policy_input *in)
{
    return in->keys[ranvier_twin_blocks(in) - 1];
}

static inline struct ranvier_twin_route *ranvier_twin_find(struct ranvier_twin *twin, uint64_t key)
{
    for (uint32_t i = 0; i < twin->route_count; i++) {
        if (twin->routes[i].key == key) {
            return &twin->routes[i];
        }
    }
    return NULL;
}

static inline uint32_t ranvier_twin_owner(struct ranvier_twin *twin, const struct policy_input *in)
{
    struct ranvier_twin_route *longest = NULL;
    for (uint32_t i = 0; i < ranvier_twin_blocks(in); i++) {
        struct ranvier_twin_route *route = ranvier_twin_find(twin, in->keys[i]);
        longest = route != NULL ? route : longest;
    }
    for (uint32_t i = 0; i < in->target_count && longest != NULL; i++) {
        if (in->targets[i].identity == longest->owner) {
            return i;
        }
    }
    return in->target_count;
}

static inline void ranvier_twin_learn(struct ranvier_twin *twin, const struct policy_input *in,
                                      uint32_t target)
{
    struct ranvier_twin_route *route = ranvier_twin_find(twin, ranvier_twin_hash(in));
    if (route == NULL) {
        ASSERT(twin->route_count < ARRAY_COUNT(twin->routes));
        route = &twin->routes[twin->route_count++];
    }
    *route = (struct ranvier_twin_route){ranvier_twin_hash(in), in->targets[target].identity};
}

// Without reports of the engine.
static inline uint32_t ranvier_twin_least(const struct policy_input *in)
{
    uint32_t best = ranvier_twin_live(in, 0);
    for (uint32_t n = 1; n < in->target_count; n++) {
        uint32_t i = ranvier_twin_live(in, n);
        if (in->targets[i].running_requests < in->targets[best].running_requests) {
            best = i;
        }
    }
    return best;
}
