// SPDX-License-Identifier: Apache-2.0

#include "sys/clock.h"

#include "test.h"

TEST(monotonic_time_does_not_go_backwards)
{
    uint64_t last = clock_monotonic_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = clock_monotonic_ns();
        CHECK(now >= last);
        last = now;
    }
}

TEST(wall_time_is_after_this_was_written)
{
    CHECK(clock_wall_ms() > UINT64_C(1700000000000));
}

TEST(entropy_does_not_repeat)
{
    CHECK(clock_entropy() != clock_entropy());
}

TEST(work_is_counted_and_only_that)
{
    uint64_t wall = clock_monotonic_ns();
    uint64_t begin = clock_cpu_ns();
    while (clock_cpu_ns() == begin) {
    }
    uint64_t worked = clock_cpu_ns() - begin;
    CHECK(worked <= clock_monotonic_ns() - wall);
}
