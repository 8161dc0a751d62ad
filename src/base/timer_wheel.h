// SPDX-License-Identifier: Apache-2.0
//
// timer_wheel.h -- many timers, each armed, moved and disarmed in constant time.
//
// Four wheels of 64 slots; a slot of the first is one millisecond, of each next one 64 times as
// long.  A timer sits in the finest wheel that reaches its due time and moves inward as that time
// approaches, so it fires in the millisecond it is due and never before.
//
//     wheel 0   64 x 1 ms      wheel 2   64 x 4.1 s
//     wheel 1   64 x 64 ms     wheel 3   64 x 4.4 min     (further away: parked in the last slot)
//
// Timers are intrusive: the owner embeds a struct timer and must disarm it before it dies.  All
// that are due are collected first and fired after, so a callback that re-arms cannot starve the
// loop.  A callback may arm and disarm any timer, those that are due in the same turn included.
//
// Threads: one owner.
#pragma once

#include "base/list.h"

#include <stdint.h>

struct timer {
    struct list_node node; // first; in a slot or among the due while armed
    uint64_t due_ms;
    void (*fire)(struct timer *timer);
};

enum { timer_wheel_levels = 4, timer_wheel_slots = 64 };

struct timer_wheel {
    uint64_t now_ms;
    uint64_t occupied[timer_wheel_levels]; // one bit a slot
    struct list_node *slots[timer_wheel_levels][timer_wheel_slots];
    struct list_node *due;
};

void timer_wheel_init(struct timer_wheel *wheel, uint64_t now_ms);

// Arms, or moves, `timer`, whose `fire` is set.  A time that has passed means the next millisecond.
void timer_wheel_arm(struct timer_wheel *wheel, struct timer *timer, uint64_t due_ms);

// Does nothing to a timer that is not armed.
void timer_wheel_disarm(struct timer_wheel *wheel, struct timer *timer);

static inline bool timer_is_armed(const struct timer *timer)
{
    return list_has(&timer->node);
}

// Fires all timers that are due at `now_ms`, which must not go backwards.
void timer_wheel_advance(struct timer_wheel *wheel, uint64_t now_ms);

// The time until a timer may be due: a lower bound, at most `limit_ms`.
uint64_t timer_wheel_wait_ms(const struct timer_wheel *wheel, uint64_t limit_ms);
