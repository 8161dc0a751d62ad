// SPDX-License-Identifier: Apache-2.0
//
// siphash.h -- hashes under a secret of 128 bits: SipHash.
//
// For hashes that leave the process, and for keys of bytes that clients choose.  Without the
// secret, an attacker learns only which hashes are equal, and cannot find two messages with the
// same hash.  The hash of hash.h is faster and does not promise this.
//
// A word has a hash of 64 bits, SipHash-2-4.  Longer messages are added word by word, in
// SipHash-1-3 for speed, and have a hash of 128 bits at any point.  If messages have parts, the
// caller adds where each part ends, or two messages could have the same words.
#pragma once

#include "base/slice.h"

struct siphash_secret {
    uint64_t words[2];
};

struct siphash_wide {
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

static inline void siphash_begin(uint64_t v[4], const struct siphash_secret *secret)
{
    v[0] = secret->words[0] ^ 0x736f6d6570736575;
    v[1] = secret->words[1] ^ 0x646f72616e646f6d;
    v[2] = secret->words[0] ^ 0x6c7967656e657261;
    v[3] = secret->words[1] ^ 0x7465646279746573;
}

static inline void siphash_absorb(uint64_t v[4], uint64_t word, unsigned rounds)
{
    v[3] ^= word;
    siphash_rounds(v, rounds);
    v[0] ^= word;
}

static inline uint64_t siphash_end(uint64_t v[4], unsigned rounds)
{
    v[2] ^= 0xff;
    siphash_rounds(v, rounds);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// As of the word's eight bytes, the lowest first.
static inline uint64_t siphash_word(const struct siphash_secret *secret, uint64_t word)
{
    uint64_t v[4];
    siphash_begin(v, secret);
    siphash_absorb(v, word, 2);
    siphash_absorb(v, (uint64_t)sizeof(word) << 56, 2);
    return siphash_end(v, 4);
}

static inline void siphash_wide_begin(uint64_t v[4], const struct siphash_secret *secret)
{
    siphash_begin(v, secret);
    v[1] ^= 0xee;
}

// Zeros fill the last word.
static inline void siphash_absorb_bytes(uint64_t v[4], struct slice bytes, unsigned rounds)
{
    uint64_t own[4] = {v[0], v[1], v[2], v[3]}; // in registers, which the bytes cannot be part of
    size_t at = 0;
    for (; bytes.size - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes.bytes + at, sizeof(word));
        siphash_absorb(own, word, rounds);
    }
    if (at < bytes.size) {
        uint64_t word = 0;
        memcpy(&word, bytes.bytes + at, bytes.size - at);
        siphash_absorb(own, word, rounds);
    }
    memcpy(v, own, sizeof(own));
}

static inline struct siphash_wide siphash_wide_end(const uint64_t v[4], unsigned rounds)
{
    uint64_t own[4] = {v[0], v[1], v[2] ^ 0xee, v[3]};
    struct siphash_wide wide;
    siphash_rounds(own, rounds);
    wide.words[0] = own[0] ^ own[1] ^ own[2] ^ own[3];
    own[1] ^= 0xdd;
    siphash_rounds(own, rounds);
    wide.words[1] = own[0] ^ own[1] ^ own[2] ^ own[3];
    return wide;
}
