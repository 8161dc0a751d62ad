// SPDX-License-Identifier: Apache-2.0
//
// shadow_cache.h -- many caches of engines in small: what they would hold, from a sample of the blocks.
//
// Of all blocks only those whose key is a multiple of receipt_sample are followed, and each stands for as
// many blocks of its prompt's kind.  Keys are hashes, so the sample knows nothing of prompts or time, and
// what is true of it is true of all (spatial sampling, known from SHARDS).
//
// A cache evicts what was used longest ago.  There is no list for it: a block has the number of the
// generation in which it was last used, and each generation counts the tokens of its blocks.  When the
// cache holds more than its size, the oldest generation dies, and with it whatever has its number.
//
//     generation   17    18    19    20
//     tokens       310   120   940   88 <- current       a block that is used moves from its own to the current one
//                  ^ dies next; a new one begins when the current one has a 32nd of the size
//
// How much of a prompt is found.  Caches hold beginnings of prompts, so what is asked is the length L of the
// beginning that is there, of N blocks.  Two witnesses:
//
//     sampled   m of n are there: L is about N * m / n.  Right on average for any n >= 1, but coarse for
//               short prompts, and always wrong in the same way for the same hot document.
//     depths    the keys of the first 1, 2, 4 … blocks, which are followed always and weigh nothing.  If that
//               of a is there and that of 2a is not, then a <= L < 2a for certain.
//
// The first is moved into the bounds of the second, which brings it nearer to the truth or leaves it.  A
// prompt without a sampled key (every third of 16 blocks, most below that) has the middle of the bounds:
// off by a quarter of them on average, where "none is there" or "the share of those that have one" would be
// off by all of it.  Beyond the first receipt_sampled_max samples only depths are known, and they weigh what lies
// behind them.
//
// Threads: one at a time.  Memory: one table for all caches, reserved by _create and touched where it is used: 64 bytes
// for each 400 tokens that caches hold together, at least 1 and at most 34 MB.  Where it is too small the block that
// is oldest by the measure of its own cache makes room; caches then hold less than they should.
#pragma once

#include "metrics/receipt.h"

struct shadow_cache;

// NULL when memory is short.
struct shadow_cache *shadow_cache_create(uint32_t cache_max);
void shadow_cache_destroy(struct shadow_cache **caches);

// All caches together will hold so much: a table that is no larger than needed is faster.  It never gets
// smaller; when it grows, half of what is held is lost.
void shadow_cache_expect(struct shadow_cache *caches, uint64_t tokens);

void shadow_cache_set_size(struct shadow_cache *caches, uint32_t cache, uint64_t tokens);

// It holds nothing any more.
void shadow_cache_clear(struct shadow_cache *caches, uint32_t cache);

struct shadow_prompt {
    const uint64_t *sampled;
    uint32_t sampled_count;
    const uint64_t *depths;
    uint32_t depth_count;
    uint32_t block_count; // N, about: made to agree with depth_count
    uint32_t block_tokens;
    uint32_t
        other_tokens; // that take room and are never found: the answer, a block that is not whole
};

// The prompt is computed there.  Returns which part of its blocks was found, 0 to 1; all are there
// afterwards.
double shadow_cache_use(struct shadow_cache *caches, uint32_t cache,
                        const struct shadow_prompt *prompt);

// So many tokens more take room there, and are never found.
void shadow_cache_add(struct shadow_cache *caches, uint32_t cache, uint32_t tokens);

// One key in 2^shift, by its bits: those that are followed, and those of them that are judged by, which have been
// followed for long.
struct shadow_sieve {
    uint32_t keep_shift;
    uint32_t judge_shift; // not less
};

// What kept keys say of a prompt.  One prompt's worth of it says little or nothing; sums are right on average.
struct shadow_evidence {
    double seen_tokens; // that the keys stand for
    double found_tokens;
};

// Likewise, where few keys are kept.  Depths are not judged by, since they are not spread evenly over prompts; where
// samples end before the prompt does, they stand for all of it.
struct shadow_evidence shadow_cache_use_sieved(struct shadow_cache *caches, uint32_t cache,
                                               const struct shadow_prompt *prompt,
                                               struct shadow_sieve sieve);

// Tokens of the prompt's blocks: what all keys together stand for.
double shadow_prompt_tokens(const struct shadow_prompt *prompt);
