// SPDX-License-Identifier: Apache-2.0
//
// loop.h -- one thread's event loop: descriptors, timers, wake-ups.
//
// A source is registered once, for reading and writing together and edge-triggered: it is told when
// something changed and then reads or writes until STATUS_AGAIN.  No system call is spent on
// changing the awaited events.
//
// One `now` per turn: loop_now_ms is read from the monotonic clock when the kernel returns and
// stays fixed until the next turn, so causes never seem to follow effects.
//
// Threads: everything belongs to the thread that runs the loop, except loop_wake and loop_stop.
#pragma once

#include "base/status.h"
#include "base/timer_wheel.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

enum {
    LOOP_READABLE = 1, // data, an end of stream or an error waits to be read
    LOOP_WRITABLE = 2,
    LOOP_HANGUP = 4, // the peer closed its sending side, or the connection is dead
    LOOP_BROKEN = 8, // the connection is dead
};

// Embedded in the owner of the descriptor.  loop_remove may be called at any time, from inside
// `ready` too; afterwards `ready` is not called again, even for events of the same turn, provided
// that the memory of the source is not reused before the turn ends (see loop_defer).
struct loop_source {
    uint32_t magic; // set by loop_add, cleared by loop_remove
    int fd;
    void (*ready)(struct loop_source *source, uint32_t events);
};

// Work put off to the end of the turn: the only safe moment to recycle the memory of a source.
struct loop_deferred {
    struct loop_deferred *next;
    void (*run)(struct loop_deferred *deferred);
};

enum status loop_create(struct loop **out);

// Clears the caller's pointer.  `*loop` may be NULL.
void loop_destroy(struct loop **loop);

// `fd` must be non-blocking and `ready` set.  Keeps `source` until loop_remove.
enum status loop_add(struct loop *loop, struct loop_source *source);

// Does nothing to a source that is not registered.  Does not close the descriptor.
void loop_remove(struct loop *loop, struct loop_source *source);

void loop_defer(struct loop *loop, struct loop_deferred *deferred);

uint64_t loop_now_ms(const struct loop *loop);

// The same moment, finer.
uint64_t loop_now_us(const struct loop *loop);

// Convenience for owners of a timer.
void loop_arm(struct loop *loop, struct timer *timer, uint64_t delay_ms);
void loop_disarm(struct loop *loop, struct timer *timer);

// Runs until loop_stop; not at all when that came before.  `turn`, if not NULL, is called once per
// turn after all events and timers.
void loop_run(struct loop *loop, void (*turn)(void *owner), void *owner);

// `begin` is called once per turn when the kernel has returned, before any event is told: the
// moment to look at what other threads published while we slept.
void loop_on_begin(struct loop *loop, void (*begin)(void *owner), void *owner);

// One turn that waits at most `wait_ms`; for tests and for shutting down.
void loop_turn(struct loop *loop, uint64_t wait_ms);

// Any thread.  Ends the current wait, so that `turn` runs soon.
void loop_wake(struct loop *loop);

// Any thread.  loop_run returns after the current turn.
void loop_stop(struct loop *loop);
