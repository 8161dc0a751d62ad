// SPDX-License-Identifier: Apache-2.0

#include "sys/log_limit.h"

#include "test.h"

#include <pthread.h>

static struct log_limit limit;

static void clear(void)
{
    memset(&limit, 0, sizeof(limit));
}

TEST(the_first_passes_and_then_one_in_a_pause_with_the_count_of_the_others)
{
    uint32_t held = 9;
    clear();
    CHECK(log_limit_pass(&limit, 5, 1000, 100, &held));
    CHECK_EQ(held, 0);
    for (uint64_t ms = 1000; ms < 1100; ms += 10) {
        CHECK(!log_limit_pass(&limit, 5, ms, 100, &held));
    }
    CHECK(log_limit_pass(&limit, 6, 1050, 100, &held));
    CHECK_EQ(held, 0);
    CHECK(log_limit_pass(&limit, 5, 1100, 100, &held));
    CHECK_EQ(held, 10);
    CHECK(log_limit_pass(&limit, 5, 1200, 100, &held));
    CHECK_EQ(held, 0);
}

TEST(keys_without_a_slot_are_limited_together)
{
    uint32_t held;
    uint32_t passed = 0;
    clear();
    for (uint64_t key = 1; key <= 100000; key++) {
        passed += log_limit_pass(&limit, key, 1000, 100, &held);
    }
    CHECK_EQ(passed, log_limit_slots + 1);                    // and one of all others
    CHECK(log_limit_pass(&limit, 7000000, 2000, 100, &held)); // there is room again
}

enum { thread_count = 4, round_count = 100000 };

static void *hammer(void *argument)
{
    uint64_t *written = argument;
    for (uint64_t i = 0; i < round_count; i++) {
        uint32_t held;
        if (log_limit_pass(&limit, 3, 1000 + i / 1000, 10, &held)) {
            *written += 1 + held;
        }
    }
    return NULL;
}

TEST(threads_that_meet_lose_no_count)
{
    pthread_t threads[thread_count];
    uint64_t written[thread_count] = {0};
    uint32_t held = 0;
    clear();
    for (int i = 0; i < thread_count; i++) {
        ASSERT(pthread_create(&threads[i], NULL, hammer, &written[i]) == 0);
    }
    uint64_t sum = 0;
    for (int i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
        sum += written[i];
    }
    CHECK(log_limit_pass(&limit, 3, 100000, 10, &held));
    CHECK_EQ(sum + held, (uint64_t)thread_count * round_count);
}
