// SPDX-License-Identifier: Apache-2.0
//
// lab_change.h -- changes of a fleet while it runs: backends join, leave, or are slow for a while;
// and the figures of the time after each change.
//
//     fleet of 8         join 2 at 60 s      9 and 10 join with empty caches and unknown speeds
//                        leave 1 at 90 s     1 gets no more requests and ends those it has
//                        slow 3 by 5, 30 to 36 s      its steps take five times as long
//
// Backends are numbered from 1, those that join on from the last one; a number is never used again.
//
// Pure.  Threads: any.  Memory: lab_changes_sum gives back what it takes.
#pragma once

#include "sim/figures.h"

#include <stdbool.h>
#include <stdint.h>

enum lab_change_kind { LAB_JOIN, LAB_LEAVE, LAB_SLOW };

struct lab_change {
    const char *name; // as it was asked for; the caller's
    enum lab_change_kind kind;
    uint32_t number; // LAB_JOIN: how many, perhaps none; others: of the backend
    double factor;   // LAB_SLOW
    double at_s;     // from the start of the run
    double until_s;  // LAB_SLOW
};

// A fleet with its changes.
struct lab_changes {
    const struct lab_change *items;
    uint32_t count;
    uint32_t backend_count; // at the start
};

enum { lab_change_max = 16, lab_change_windows = 3 };

// How long the windows behind a change are, in seconds; the times to the first token are those of
// the last one.
extern const double lab_change_window_s[lab_change_windows];

// Requests that were due within a window after a backend joined or left, or stopped being slow.
struct lab_change_figures {
    // Sent to the backends that joined, or to the one that left or was slow, over an equal share;
    // negative: unknown.
    double share[lab_change_windows];
    double ttft_p50; // ms, of the whole fleet; negative: unknown
    double ttft_p99;
};

// False, and the reason in `error`, if a change names a backend that is not there, or leaves none.
enum { lab_change_error_size = 160 };
bool lab_changes_check(const struct lab_changes *changes, char error[lab_change_error_size]);

// All backends that are ever there.
uint32_t lab_changes_total(const struct lab_changes *changes);

// When the next backend joins or leaves, at `at_s` or later; INFINITY: never.
double lab_changes_next(const struct lab_changes *changes, double at_s);

// By how much the steps of that backend take longer then.
double lab_changes_slowness(const struct lab_changes *changes, uint32_t number, double at_s);

// The figures of one of the changes, of `samples` whose backends count from 0.
void lab_changes_sum(const struct lab_changes *changes, uint32_t index,
                     const struct figure_sample *samples, uint32_t sample_count,
                     struct lab_change_figures *out);
