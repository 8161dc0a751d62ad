// SPDX-License-Identifier: Apache-2.0
//
// Threads that remember in so little memory that what one reads another overwrites.  The memo is compiled
// for this test alone so that every load and store of what they share may give way to another thread.

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

TEST(what_is_overwritten_while_it_is_read_is_not_believed)
{
    CHECK(crowd_run(thread_max, 6 << 10, 150));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 0);
    CHECK(crowd_run(thread_max, 24 << 10, 150));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 10000);
}
