// SPDX-License-Identifier: Apache-2.0

#include "sys/mutex.h"

#include "sys/thread.h"
#include "test.h"

#include <sched.h>

enum { thread_count = 4, round_count = 20000 };

static struct mutex mutex;
static uint64_t sum;

static void add(void *owner)
{
    (void)owner;
    for (int i = 0; i < round_count; i++) {
        mutex_lock(&mutex);
        uint64_t before = sum;
        if (i % 1000 == 0) {
            sched_yield(); // another thread could come in between here
        }
        sum = before + 1;
        mutex_unlock(&mutex);
    }
}

TEST(one_thread_holds_it_at_a_time)
{
    struct thread *threads[thread_count];
    mutex_init(&mutex);
    for (int i = 0; i < thread_count; i++) {
        CHECK_EQ(thread_start("mutex_test", add, NULL, &threads[i]), STATUS_OK);
    }
    for (int i = 0; i < thread_count; i++) {
        thread_join(&threads[i]);
    }
    mutex_fini(&mutex);
    CHECK_EQ(sum, (uint64_t)thread_count * round_count);
}
