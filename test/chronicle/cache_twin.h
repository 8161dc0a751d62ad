// SPDX-License-Identifier: Apache-2.0
//
// cache_twin.h -- an engine's cache as it is: all blocks, and a list in the order of use.
#pragma once

#include "base/base.h"
#include "base/rng.h"

#include <stdlib.h>

struct twin_block {
    uint64_t key;
    uint32_t newer;
    uint32_t older;
    uint32_t next; // of the chain
};

// Blocks are numbered from 1; 0 is nobody, and the ends of the list.
struct cache_twin {
    uint32_t block_max;
    uint32_t used;
    uint32_t mask;
    uint32_t *heads;
    struct twin_block *blocks;
};

static inline void twin_init(struct cache_twin *twin, uint64_t tokens, uint32_t block_tokens)
{
    uint32_t head_count = 64;
    *twin = (struct cache_twin){.block_max = (uint32_t)(tokens / block_tokens)};
    while (head_count < twin->block_max) {
        head_count *= 2;
    }
    twin->mask = head_count - 1;
    twin->heads = calloc(head_count, sizeof(*twin->heads));
    twin->blocks = calloc(twin->block_max + 1, sizeof(*twin->blocks));
    ASSERT(twin->heads != NULL && twin->blocks != NULL);
}

static inline void twin_fini(struct cache_twin *twin)
{
    free(twin->heads);
    free(twin->blocks);
}

static inline uint32_t *twin_link(const struct cache_twin *twin, uint64_t key)
{
    uint32_t *link = &twin->heads[rng_mix(key) & twin->mask];
    while (*link != 0 && twin->blocks[*link].key != key) {
        link = &twin->blocks[*link].next;
    }
    return link;
}

static inline void twin_unlist(const struct cache_twin *twin, uint32_t block)
{
    const struct twin_block *own = &twin->blocks[block];
    twin->blocks[own->newer].older = own->older;
    twin->blocks[own->older].newer = own->newer;
}

static inline void twin_use(struct cache_twin *twin, uint64_t key)
{
    uint32_t *link = twin_link(twin, key);
    uint32_t block = *link;

    if (block != 0) {
        twin_unlist(twin, block);
    } else {
        if (twin->used < twin->block_max) {
            block = ++twin->used;
        } else {
            block = twin->blocks[0].newer; // the oldest
            twin_unlist(twin, block);
            *twin_link(twin, twin->blocks[block].key) = twin->blocks[block].next;
            link = twin_link(twin, key);
        }
        twin->blocks[block].key = key;
        twin->blocks[block].next = 0;
        *link = block;
    }
    uint32_t newest = twin->blocks[0].older;
    twin->blocks[block].older = newest;
    twin->blocks[block].newer = 0;
    twin->blocks[newest].newer = block;
    twin->blocks[0].older = block;
}

// Returns how many leading blocks were there.  The end of a prompt is evicted before its beginning.
static inline uint32_t twin_compute(struct cache_twin *twin, const uint64_t *keys, uint32_t count)
{
    uint32_t found = 0;
    while (found < count && *twin_link(twin, keys[found]) != 0) {
        found++;
    }
    for (uint32_t i = count; i > 0; i--) {
        twin_use(twin, keys[i - 1]);
    }
    return found;
}
