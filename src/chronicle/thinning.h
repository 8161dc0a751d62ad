// SPDX-License-Identifier: Apache-2.0
//
// thinning.h -- how much of the traffic is followed key by key, so that the account of it stays cheap.
//
// Up to 2,000 receipts a second all keys are followed; up to 8,000 one in 4, above one in 16.  More receipts are
// more evidence, so what is left is as many keys as before.  More than that would save nothing any more, and
// leave a cache of ten thousand blocks with a dozen that stand for all of them.
//
//     rate         ----/^^^^^^^^^^^\_______________________________________
//     keep    1 1 1 1 16 16 16 16 16 16 … a minute below half … 1 1 1 1 1 1         what is followed
//     judge   1 1 1 1 16 16 16 16 16 16 16 16 16 16 16 16 … five minutes … 1        by what is judged
//
// Up at once: those that are kept were followed before.  Down late, and what is judged by is later still: a
// key that was not followed until now looks as if it were new, until caches have been used all over.
//
// Time is the wall clock's and may jump: a second is a look at it that comes half a second or more after the one before.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    thinning_rate = 2000, // receipts a second, above which keys are left out
    thinning_step = 2,    // bits: 1, 4, 16
    thinning_most = 4,
    thinning_calm_s = 60,
    thinning_settle_s = 300,
};

// {0} follows everything.
struct thinning {
    uint32_t keep_shift; // one in 2^shift
    uint32_t judge_shift;
    uint64_t begin_ms; // of the second that is open; 0: none is
    uint64_t count;    // in it
    uint64_t rate;     // a second, in the last one that is over
    uint32_t calm_s;
    uint32_t calm_shift; // that would have done for all of them
    uint32_t settled_s;
};

static inline void thinning_count(struct thinning *thinning)
{
    thinning->count++;
}

void thinning_tick(struct thinning *thinning, uint64_t wall_ms);
