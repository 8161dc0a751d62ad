// SPDX-License-Identifier: Apache-2.0
//
// prefix_chain.h -- hashes every prefix of a prompt.
//
// A prompt is a string of bytes, cut into blocks.  The key of a block is a hash that is chained
// over all blocks before it, so one 64-bit key stands for the prefix up to and including its block:
//
//     bytes  [ b0 ][ b1 ][ b2 ][ tail: waits for more ]
//     keys     k0 = h(seed, b0)   k1 = h(k0, b1)   k2 = h(k1, b2)
//
// The seed is made of the model, the adapter and the tenant's salt.  Two tenants with different
// salts share no key.
//
// Bytes come in pieces of any size; keys do not depend on the pieces.  Token ids are bytes
// too, four little-endian ones each, with a block of the engine's size times four.
//
// Memory: the keys go to the caller's array; the chain itself holds only the block it is in.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum { prefix_block_size_max = 1024 };

struct prefix_chain {
    uint64_t *keys; // the caller's
    uint8_t *copy;  // NULL, or the caller's room for the bytes of all hashed blocks
    uint32_t key_count;
    uint32_t key_capacity; // further blocks are counted in `size` and not hashed
    uint32_t block_size;   // bytes
    uint32_t pending;      // bytes of a block that is not whole
    uint64_t last;         // the key of the last whole block, or the seed
    uint64_t size;         // bytes taken in all
    uint8_t block[prefix_block_size_max];
};

// The parts of the seed; empty slices where there is none.  `secret` is 0, or a number that tenants
// cannot know, so that they cannot find prompts whose keys collide.
struct prefix_space {
    struct slice model;
    struct slice adapter;
    struct slice salt;
    uint64_t secret;
};

// The seed of token chains.  Chains of text use prefix_text_seed: the same bytes are not the same
// prompt there.
uint64_t prefix_seed(const struct prefix_space *space);
uint64_t prefix_text_seed(const struct prefix_space *space);

// Keeps `keys`.  `block_size` is at most prefix_block_size_max.  To keep the bytes, set `copy`
// then.
void prefix_chain_begin(struct prefix_chain *chain, uint64_t seed, uint32_t block_size,
                        uint64_t *keys, uint32_t key_capacity);

void prefix_chain_add(struct prefix_chain *chain, struct slice bytes);

// Makes `out` a continuation of `from` with its own keys, at least as many; for chains that outlive
// a scratch buffer.  `out` has no `copy`.
void prefix_chain_copy(const struct prefix_chain *from, uint64_t *keys, uint32_t key_capacity,
                       struct prefix_chain *out);
