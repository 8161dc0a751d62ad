// SPDX-License-Identifier: Apache-2.0
//
// siphash.h -- a hash of one word under a secret of 128 bits: SipHash-2-4.
//
// For numbers that leave the house.  Who does not know the secret learns nothing from them but which are
// equal, even if he knows words that were hashed; the hash of hash.h is faster and promises no such thing.
#pragma once

#include <stdint.h>

struct siphash_secret {
    uint64_t words[2];
};

static inline uint64_t siphash_rotate(uint64_t word, unsigned by)
{
    return word << by | word >> (64 - by);
}

static inline void siphash_rounds(uint64_t v[4], unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = siphash_rotate(v[1], 13) ^ v[0];
        v[3] = siphash_rotate(v[3], 16) ^ v[2];
        v[0] = siphash_rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = siphash_rotate(v[1], 17) ^ v[2];
        v[3] = siphash_rotate(v[3], 21) ^ v[0];
        v[2] = siphash_rotate(v[2], 32);
    }
}

// As of the word's eight bytes, the lowest first.
static inline uint64_t siphash_word(const struct siphash_secret *secret, uint64_t word)
{
    const uint64_t size_block = (uint64_t)sizeof(word) << 56;
    uint64_t v[4] = {
        secret->words[0] ^ 0x736f6d6570736575,
        secret->words[1] ^ 0x646f72616e646f6d,
        secret->words[0] ^ 0x6c7967656e657261,
        secret->words[1] ^ 0x7465646279746573,
    };
    v[3] ^= word;
    siphash_rounds(v, 2);
    v[0] ^= word;
    v[3] ^= size_block;
    siphash_rounds(v, 2);
    v[0] ^= size_block;
    v[2] ^= 0xff;
    siphash_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
