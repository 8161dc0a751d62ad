// SPDX-License-Identifier: Apache-2.0

#include "base/timer_wheel.h"

#include "base/base.h"

enum { level_bits = 6, slot_mask = timer_wheel_slots - 1 };

static uint64_t level_span(unsigned level)
{
    return (uint64_t)1 << (level_bits * (level + 1));
}

static unsigned wheel_slot_of(uint64_t time_ms, unsigned level)
{
    return (unsigned)(time_ms >> (level_bits * level)) & slot_mask;
}

static void wheel_place(struct timer_wheel *wheel, struct timer *timer)
{
    uint64_t distance = timer->due_ms - wheel->now_ms;
    uint64_t place_ms = timer->due_ms;
    unsigned level = 0;

    while (level < timer_wheel_levels - 1 && distance >= level_span(level)) {
        level++;
    }
    if (distance >= level_span(level)) {
        place_ms = wheel->now_ms + level_span(level) - 1; // looked at again when that time comes
    }
    unsigned slot = wheel_slot_of(place_ms, level);
    list_push(&wheel->slots[level][slot], &timer->node);
    wheel->occupied[level] |= (uint64_t)1 << slot;
}

void timer_wheel_init(struct timer_wheel *wheel, uint64_t now_ms)
{
    *wheel = (struct timer_wheel){.now_ms = now_ms};
}

void timer_wheel_arm(struct timer_wheel *wheel, struct timer *timer, uint64_t due_ms)
{
    ASSERT(timer->fire != NULL);

    timer_wheel_disarm(wheel, timer);
    timer->due_ms = due_ms > wheel->now_ms ? due_ms : wheel->now_ms + 1;
    wheel_place(wheel, timer);
}

void timer_wheel_disarm(struct timer_wheel *wheel, struct timer *timer)
{
    // The slot's bit may stay behind: it costs one look at an empty slot.
    (void)wheel;
    list_remove(&timer->node);
}

// Empties a slot: what is due joins the due list, the rest moves to a finer wheel.
static void spill(struct timer_wheel *wheel, unsigned level, unsigned slot)
{
    struct list_node *spilled = NULL;

    list_move(&wheel->slots[level][slot], &spilled);
    wheel->occupied[level] &= ~((uint64_t)1 << slot);
    while (spilled != NULL) {
        struct timer *timer = CONTAINER_OF(spilled, struct timer, node);
        list_remove(&timer->node);
        if (timer->due_ms <= wheel->now_ms) {
            list_push(&wheel->due, &timer->node);
        } else {
            wheel_place(wheel, timer);
        }
    }
}

// The next time at which some slot must be looked at, or UINT64_MAX.  Per level: the first occupied
// slot after the present one, in the order in which their times come.
static uint64_t next_stop(const struct timer_wheel *wheel)
{
    uint64_t stop = UINT64_MAX;

    for (unsigned level = 0; level < timer_wheel_levels; level++) {
        uint64_t bits = wheel->occupied[level];
        if (bits == 0) {
            continue;
        }
        unsigned shift = level_bits * level;
        uint64_t tick = (wheel->now_ms >> shift) + 1; // the slots from here on are in the future
        unsigned first = (unsigned)tick & slot_mask;
        uint64_t turned =
            first == 0 ? bits : (bits >> first) | (bits << (timer_wheel_slots - first));
        uint64_t at = (tick + (unsigned)__builtin_ctzll(turned)) << shift;
        stop = at < stop ? at : stop;
    }
    return stop;
}

static void fire_due(struct timer_wheel *wheel)
{
    while (wheel->due != NULL) {
        struct timer *timer = CONTAINER_OF(wheel->due, struct timer, node);
        list_remove(&timer->node);
        timer->fire(timer);
    }
}

void timer_wheel_advance(struct timer_wheel *wheel, uint64_t now_ms)
{
    ASSERT(now_ms >= wheel->now_ms);

    for (;;) {
        uint64_t stop = next_stop(wheel);
        if (stop > now_ms) {
            break;
        }
        wheel->now_ms = stop;
        for (unsigned level = timer_wheel_levels; level-- > 0;) {
            uint64_t below = ((uint64_t)1 << (level_bits * level)) - 1;
            unsigned slot = wheel_slot_of(stop, level);
            if ((stop & below) == 0 && (wheel->occupied[level] >> slot & 1) != 0) {
                spill(wheel, level, slot);
            }
        }
    }
    wheel->now_ms = now_ms;
    fire_due(wheel);
}

uint64_t timer_wheel_wait_ms(const struct timer_wheel *wheel, uint64_t limit_ms)
{
    uint64_t stop = next_stop(wheel);
    uint64_t wait = stop == UINT64_MAX ? limit_ms : stop - wheel->now_ms;
    return wait < limit_ms ? wait : limit_ms;
}
