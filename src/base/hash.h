// SPDX-License-Identifier: Apache-2.0
//
// hash.h -- the one 64-bit hash of the program: XXH3.
//
// Fast, and not safe against an attacker: to hash bytes that clients choose, pass a seed that
// clients do not know, or compare the bytes as well.
#pragma once

#include "base/slice.h"

// The library wants one of two modes in the whole program: inline everything, or link against it.
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
