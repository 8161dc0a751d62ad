// SPDX-License-Identifier: Apache-2.0
//
// log_state.h -- limits the log lines about a state that changes, and keeps the last line true.
//
// The first changes of a minute are logged at once.  A state that flaps is not logged until the
// minute is over; then it is, if it differs from the last line.  So call it again and again,
// changed or not.
//
// Threads: one owner.  `{0}`: nothing was logged.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { log_state_window_ms = 60000, log_state_told_max = 6 };

struct log_state {
    uint32_t said;  // the state that was logged last; 0: none
    uint32_t now;   // the state at the last call
    uint32_t count; // changes that were not logged
    uint32_t told;  // lines in this window
    uint64_t window_ms;
};

// True: log the state now; *skipped changes before it were not logged.  `state` is not 0.
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
