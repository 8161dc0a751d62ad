// SPDX-License-Identifier: Apache-2.0

#include "sys/alarm.h"

#include "base/base.h"

#include <sys/timerfd.h>
#include <unistd.h>

// The descriptor is never read: each expiry is an edge of its own, and setting it anew takes the
// last one back.
static void alarm_ready(struct loop_source *source, uint32_t events)
{
    struct alarm *alarm = (struct alarm *)source;
    (void)events;
    alarm->fire(alarm);
}

enum status alarm_open(struct alarm *alarm, struct loop *loop)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd == -1) {
        return STATUS_IO;
    }
    alarm->source = (struct loop_source){.fd = fd, .ready = alarm_ready};
    if (loop_add(loop, &alarm->source) != STATUS_OK) {
        close(fd);
        return STATUS_IO;
    }
    return STATUS_OK;
}

void alarm_close(struct alarm *alarm, struct loop *loop)
{
    if (alarm->source.magic != 0) {
        loop_remove(loop, &alarm->source);
        close(alarm->source.fd);
    }
}

void alarm_set(struct alarm *alarm, uint64_t at_us)
{
    // Zero would mean never.
    at_us = at_us > 0 ? at_us : 1;
    struct itimerspec moment = {.it_value = {.tv_sec = (time_t)(at_us / 1000000),
                                             .tv_nsec = (long)(at_us % 1000000 * 1000)}};
    ASSERT(timerfd_settime(alarm->source.fd, TFD_TIMER_ABSTIME, &moment, NULL) == 0);
}
