// SPDX-License-Identifier: Apache-2.0
//
// shadow_cache.h -- small models of many engine caches, from a sample of the blocks.
//
// Only blocks whose key is a multiple of receipt_sample are followed; each stands for
// receipt_sample blocks of its prompt.  Keys are hashes, so the sample is independent of prompts
// and time (spatial sampling, as in SHARDS).
//
// A cache evicts the least recently used blocks, without a list: a block has the number of the
// generation in which it was last used, and each generation counts the tokens of its blocks.  When
// the cache exceeds its size, the oldest generation is evicted with all its blocks.
//
//     generation   17    18    19    20
//     tokens       310   120   940   88 <- current
//                  ^ evicted next
//
// A block that is used moves to the current generation.  A new generation begins when the current
// one has 1/32 of the size.
//
// How much of a prompt is found: a cache holds prefixes, so the question is the length L of the
// prefix that it holds, of N blocks.  There are two sources:
//
//     sampled   m of n are held: L is about N * m / n.  Right on average for any n >= 1, but coarse
//               for short prompts, and off by the same amount for each copy of a hot prompt.
//     depths    the keys of the first 1, 2, 4 … blocks, which are always followed and weigh 0.
//               If depth a is held and 2a is not, then a <= L < 2a for certain.
//
// The first estimate is clamped to the bounds of the second.  A prompt without a sampled key (a
// third of prompts of 16 blocks, most shorter ones) gets the middle of the bounds.  Beyond the
// first receipt_sampled_max samples only depths are known, and they weigh the blocks behind them.
//
// Threads: one at a time.  Memory: one table for all caches, reserved by _create and touched where
// it is used: 64 bytes for each 400 tokens that caches hold together, at least 1 and at most 34 MB.
// In a table that is too small the relatively oldest block makes room, and caches hold less than
// they should.
#pragma once

#include "metrics/receipt.h"

struct shadow_cache;

// NULL when memory is short.
struct shadow_cache *shadow_cache_create(uint32_t cache_max);
void shadow_cache_destroy(struct shadow_cache **caches);

// Sizes the table for caches that hold so many tokens together: a small table is faster.  It never
// shrinks; when it grows, half of the blocks are lost.
void shadow_cache_expect(struct shadow_cache *caches, uint64_t tokens);

void shadow_cache_set_size(struct shadow_cache *caches, uint32_t cache, uint64_t tokens);

// Empties the cache.
void shadow_cache_clear(struct shadow_cache *caches, uint32_t cache);

struct shadow_prompt {
    const uint64_t *sampled;
    uint32_t sampled_count;
    const uint64_t *depths;
    uint32_t depth_count;
    uint32_t block_count; // N, about: made to agree with depth_count
    uint32_t block_tokens;
    // Tokens that take space and are never found: the response, and the incomplete last block.
    uint32_t other_tokens;
};

// Computes the prompt with that cache, which holds all of it afterwards.  Returns the fraction of
// its blocks that was found, 0 to 1.
double shadow_cache_use(struct shadow_cache *caches, uint32_t cache,
                        const struct shadow_prompt *prompt);

// Adds tokens that take space and are never found.
void shadow_cache_add(struct shadow_cache *caches, uint32_t cache, uint32_t tokens);

// One key in 2^shift, by its bits: the keys that are followed, and those among them that count as
// evidence because they have been followed for long (thinning.h).
struct shadow_sieve {
    uint32_t keep_shift;
    uint32_t judge_shift; // at least keep_shift
};

// The evidence of the kept keys of one prompt: close to nothing alone, right on average in sums.
struct shadow_evidence {
    double seen_tokens; // tokens that the keys stand for
    double found_tokens;
};

// As shadow_cache_use, where few keys are kept.  Depths are not evidence, since they are not spread
// evenly over prompts.  If samples end before the prompt does, they stand for all of it.
struct shadow_evidence shadow_cache_use_sieved(struct shadow_cache *caches, uint32_t cache,
                                               const struct shadow_prompt *prompt,
                                               struct shadow_sieve sieve);

// Tokens of the prompt's blocks.
double shadow_prompt_tokens(const struct shadow_prompt *prompt);
