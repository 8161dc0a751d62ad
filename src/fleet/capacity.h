// SPDX-License-Identifier: Apache-2.0
//
// capacity.h -- the size of a backend's KV cache, learned from its responses.
//
// Every response that reports its cached tokens is a sample: the predicted prefix was last used
// `age` new tokens ago, and it was cached or it was not.
//
//     cached, older than the belief              the cache holds at least that much
//     not cached, younger than the belief        it holds less: the belief moves towards the age
//     not cached, far younger                    a cache does not shrink that much: it was emptied
//
// Believing half of the truth costs a third of the gain, believing twice as much a few percent.
// Therefore the belief starts from twice the first age that was not cached, shrinks slowly and
// grows at once.
//
// Pure functions of the belief, in tokens; 0 means unlimited.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum capacity_verdict {
    CAPACITY_HELD,
    CAPACITY_EVICTED, // blocks of this age and older are evicted too
    CAPACITY_EMPTIED, // all blocks are gone
};

struct capacity_sample {
    uint32_t age;
    bool was_there;
};

// Returns the new belief; *verdict is what the sample means.
uint32_t capacity_learn(uint32_t belief, const struct capacity_sample *sample,
                        enum capacity_verdict *verdict);

// The belief when the engine reports its size: a little more, because running requests may share
// blocks that we counted as new.
uint32_t capacity_told(uint64_t cache_tokens);
