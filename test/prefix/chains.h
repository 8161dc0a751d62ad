// SPDX-License-Identifier: Apache-2.0
//
// chains.h -- prompts for the tests of the index, and how they ask it.
#pragma once

#include "base/rng.h"
#include "prefix/prefix_index.h"

#include <stdbool.h>

enum { chain_max = 1024, chain_backend_max = 4096 };

struct chain {
    uint32_t count;
    uint64_t keys[chain_max];
};

// The first `shared` keys are those of `other`, which may be NULL; the others are the seed's own.
static inline struct chain chain_make(const struct chain *other, uint32_t shared, uint64_t seed,
                                      uint32_t count)
{
    struct chain chain = {.count = count};
    uint64_t last = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct rng rng = {.state = last ^ seed << 32 ^ i};
        chain.keys[i] = i < shared ? other->keys[i] : rng_next(&rng);
        last = chain.keys[i];
    }
    return chain;
}

// The first `count` blocks.
static inline void chain_store_some(struct prefix_index *index, uint32_t backend,
                                    enum prefix_residency residency, const struct chain *chain,
                                    uint32_t count, uint32_t now_s)
{
    prefix_index_store(index, &(struct prefix_span){.keys = chain->keys,
                                                    .key_count = count,
                                                    .backend = backend,
                                                    .now_s = now_s,
                                                    .residency = residency});
}

static inline void chain_store(struct prefix_index *index, uint32_t backend,
                               const struct chain *chain)
{
    chain_store_some(index, backend, PREFIX_CONFIRMED, chain, chain->count, 0);
}

// The match of one backend; zero blocks when it is not among the hits.
static inline struct prefix_hit chain_hit(const struct prefix_index *index, uint32_t backend,
                                          const struct chain *chain, uint32_t now_s)
{
    static struct prefix_hit hits[chain_backend_max];
    uint32_t count =
        prefix_index_match(index, chain->keys, chain->count, now_s, hits, chain_backend_max);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == backend) {
            return hits[i];
        }
    }
    return (struct prefix_hit){.backend = backend};
}

static inline uint32_t chain_match(const struct prefix_index *index, uint32_t backend,
                                   const struct chain *chain)
{
    return chain_hit(index, backend, chain, 0).blocks;
}
