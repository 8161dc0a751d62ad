// SPDX-License-Identifier: Apache-2.0
//
// Threads write to a memo so small that one overwrites what another reads.  The memo is compiled
// for this test alone, so that every load and store of shared words may yield to another thread.

#include "tokenizer/bpe/memo_scene.h"

#include <sched.h>

// Called by the memo, see memo.c.
void memo_pause(void);

void memo_pause(void)
{
    static _Thread_local struct rng rng;
    if (rng_below(&rng, 64) == 0) {
        sched_yield();
    }
}

TEST(entries_overwritten_while_they_are_read_are_not_used)
{
    CHECK(crowd_run(thread_max, 6 << 10, 150));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 0);
    CHECK(crowd_run(thread_max, 24 << 10, 150));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 10000);
}
