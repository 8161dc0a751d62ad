// SPDX-License-Identifier: Apache-2.0
//
// log_state.h -- when to say that something has changed, so that the last word is true and there are not too many.
//
// The first changes of a minute are told at once.  One that flaps is told no more until the minute is over; then, if it
// is not what was said last, what it is now.  So ask again and again, whether or not something changed.
//
// Threads: one owner.  `{0}` has said nothing.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { log_state_window_ms = 60000, log_state_told_max = 6 };

struct log_state {
    uint32_t said;  // what was told last; 0: nothing was
    uint32_t now;   // what it was when last looked at
    uint32_t count; // changes that were not told
    uint32_t told;  // in this window
    uint64_t window_ms;
};

// True: tell it now; *skipped changes before were not.  `state` is not 0.
static inline bool log_state_tells(struct log_state *log, uint32_t state, uint64_t now_ms,
                                   uint32_t *skipped)
{
    log->count += state != log->now;
    log->now = state;
    if (state == log->said) {
        return false;
    }
    if (log->told > 0 && now_ms - log->window_ms >= log_state_window_ms) {
        log->told = 0;
    }
    if (log->told >= log_state_told_max) {
        return false;
    }
    log->window_ms = log->told == 0 ? now_ms : log->window_ms;
    log->told++;
    log->said = state;
    *skipped = log->count > 0 ? log->count - 1 : 0;
    log->count = 0;
    return true;
}
