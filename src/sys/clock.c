// SPDX-License-Identifier: Apache-2.0

#include "sys/clock.h"

#include "base/base.h"

#include <sys/random.h>
#include <time.h>

static uint64_t read_ns(clockid_t which)
{
    struct timespec at;
    ASSERT(clock_gettime(which, &at) == 0);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_cpu_ns(void)
{
    return read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_wall_ms(void)
{
    return read_ns(CLOCK_REALTIME) / 1000000;
}

uint64_t clock_wall_us(void)
{
    return read_ns(CLOCK_REALTIME) / 1000;
}

uint64_t clock_entropy(void)
{
    uint64_t word = 0;
    // Without the kernel's generator, early at boot, the clock must do: what mostly hangs on it is
    // fairness.  A recording that begins so early could be guessed at.
    if (getrandom(&word, sizeof(word), GRND_NONBLOCK) != (ssize_t)sizeof(word)) {
        word = clock_monotonic_ns() ^ read_ns(CLOCK_REALTIME);
    }
    return word;
}
