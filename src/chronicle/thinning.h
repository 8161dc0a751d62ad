// SPDX-License-Identifier: Apache-2.0
//
// thinning.h -- how many prompt keys the shadow follows, so that it stays cheap at high rates.
//
// Up to 2,000 receipts a second all keys are followed; up to 8,000 one in 4, above one in 16.  More
// receipts carry more evidence, so accuracy stays.  Fewer keys than that would save little, and
// leave a cache of ten thousand blocks with a dozen that stand for all of them.
//
//     rate         ----/^^^^^^^^^^^\_______________________________________
//     keep    1 1 1 1 16 16 16 16 16 16 … a minute below half … 1 1 1 1 1 1     keys followed
//     judge   1 1 1 1 16 16 16 16 16 16 16 16 16 16 16 16 … five minutes … 1    keys as evidence
//
// Up at once: the kept keys were followed before.  Down late, and later still as evidence: a key
// that was not followed until now looks new until caches have turned over.
//
// Time is the wall clock's and may jump: a tick counts when it comes half a second or more after
// the one before.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    thinning_rate = 2000, // receipts per second above which keys are left out
    thinning_step = 2,    // bits: 1, 4, 16
    thinning_most = 4,
    thinning_calm_s = 60,
    thinning_settle_s = 300,
};

// {0} follows everything.
struct thinning {
    uint32_t keep_shift; // one in 2^shift
    uint32_t judge_shift;
    uint64_t begin_ms; // of the open second; 0: none
    uint64_t count;    // of receipts in it
    uint64_t rate;     // receipts per second, in the last complete one
    uint32_t calm_s;
    uint32_t calm_shift; // enough for all of those seconds
    uint32_t settled_s;
};

static inline void thinning_count(struct thinning *thinning)
{
    thinning->count++;
}

void thinning_tick(struct thinning *thinning, uint64_t wall_ms);
