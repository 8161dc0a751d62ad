// SPDX-License-Identifier: Apache-2.0
//
// bench_origin -- the stand-in backend as a program of its own: `bench_origin --port 9001`.

#include "base/base.h"
#include "flags.h"
#include "origin.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void turn(struct origin *origin, int epoll)
{
    uint64_t left_ns = origin_wait_ns(origin, clock_ns());
    left_ns = left_ns < 1000000000u ? left_ns : 1000000000u;
    struct timespec wait = {.tv_sec = (time_t)(left_ns / 1000000000u),
                            .tv_nsec = (long)(left_ns % 1000000000u)};
    struct epoll_event events[256];
    int count = epoll_pwait2(epoll, events, ARRAY_COUNT(events), &wait, NULL);
    uint64_t now_ns = clock_ns();
    for (int i = 0; i < count; i++) {
        origin_wake(origin, events[i].data.ptr, events[i].events, now_ns);
    }
    origin_step(origin, now_ns);
}

int main(int argc, char **argv)
{
    uint64_t ports[origin_ports_max] = {0};
    const struct flag flags[] = {{.name = "port", .number = &ports[0]}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    flags_raise_descriptor_limit();
    prctl(PR_SET_TIMERSLACK, 1); // events are due within microseconds, not 50 of them
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct origin *origin = origin_create(epoll, ports);
    if (!origin) {
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        turn(origin, epoll);
    }
}
