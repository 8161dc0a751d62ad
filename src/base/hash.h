// SPDX-License-Identifier: Apache-2.0
//
// hash.h -- the one 64-bit hash of the program: XXH3.
//
// Fast, and not keyed against an attacker: whoever hashes what clients choose hands in a seed that
// clients do not know, or compares the bytes as well.
#pragma once

#include "base/slice.h"

// The library says: inline everything, or include it as a plain header; in exactly one place.
#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t hash_bytes(struct slice bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes.bytes, bytes.size, seed);
}

// Mixes two words into one; for ring points and the like.
static inline uint64_t hash_pair(uint64_t a, uint64_t b)
{
    uint64_t words[2] = {a, b};
    return XXH3_64bits(words, sizeof(words));
}
