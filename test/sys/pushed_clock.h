// SPDX-License-Identifier: Apache-2.0
//
// pushed_clock.h -- a clock that a test may push forward, so that it need not wait for an interval.
//
// Takes the place of sys/clock.c in the program that includes it: the linker takes from our archive
// only what is missing.  A loop that sleeps does not notice a push: turn it with short waits.
#pragma once

#include "base/base.h"
#include "sys/clock.h"

#include <sys/random.h>
#include <time.h>

static uint64_t clock_pushed_ns;

static inline void clock_push_ms(uint64_t time_ms)
{
    clock_pushed_ns += time_ms * 1000000;
}

static inline uint64_t clock_read_ns(clockid_t id)
{
    struct timespec now;
    ASSERT(clock_gettime(id, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + clock_pushed_ns;
}

uint64_t clock_monotonic_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_cpu_ns(void)
{
    return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_pushed_ns;
}

uint64_t clock_wall_ms(void)
{
    return clock_read_ns(CLOCK_REALTIME) / 1000000;
}

uint64_t clock_wall_us(void)
{
    return clock_read_ns(CLOCK_REALTIME) / 1000;
}

uint64_t clock_entropy(void)
{
    uint64_t bytes;
    ASSERT(getrandom(&bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes));
    return bytes;
}
