// SPDX-License-Identifier: Apache-2.0
//
// capacity.h -- how much a backend's KV cache holds, as its answers show.
//
// Every answer that tells its cached tokens is a sample: what we believed to be there had last been
// used `age` new tokens ago, and it was there or it was not.
//
//     there, although older than the belief      the cache holds at least that much
//     not there, although younger                it holds less: the belief moves towards the age
//     not there, and far younger                 no cache is that small of a sudden: it was emptied
//
// Believing half of the truth costs a third of the gain, believing twice as much a few percent.
// Therefore the belief starts from twice the first age that was not there, shrinks slowly and grows at
// once.
//
// Pure functions of the belief, in tokens; 0 is no belief: everything is there until told otherwise.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum capacity_verdict {
    CAPACITY_HELD,
    CAPACITY_EVICTED, // what is as old, or older, is gone too
    CAPACITY_EMPTIED, // everything is gone
};

struct capacity_sample {
    uint32_t age;
    bool was_there;
};

// Returns the new belief, and says in *verdict what the sample means.
uint32_t capacity_learn(uint32_t belief, const struct capacity_sample *sample,
                        enum capacity_verdict *verdict);

// The belief when the engine tells its size: a little more, since blocks of the running requests that
// we counted as new may be shared.
uint32_t capacity_told(uint64_t cache_tokens);
