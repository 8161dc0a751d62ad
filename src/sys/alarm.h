// SPDX-License-Identifier: Apache-2.0
//
// alarm.h -- a timer with microseconds; timers of a loop have milliseconds.
//
// Costs a descriptor, and a system call each time it is set: for few users.
//
// Threads: the one of its loop.
#pragma once

#include "sys/loop.h"

// Embedded.  `fire` may be called although the moment has been moved since: it looks at the clock.
struct alarm {
    struct loop_source source; // first: `ready` finds us from here
    void (*fire)(struct alarm *alarm);
};

// `fire` is set.
enum status alarm_open(struct alarm *alarm, struct loop *loop);
// Does nothing if it is not open.
void alarm_close(struct alarm *alarm, struct loop *loop);

// By the clock of loop_now_us, and once; a moment that has passed is now.
void alarm_set(struct alarm *alarm, uint64_t at_us);
