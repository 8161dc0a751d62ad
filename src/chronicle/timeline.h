// SPDX-License-Identifier: Apache-2.0
//
// timeline.h -- figures of every five seconds of the last hour, and of the last minute.
//
//     hour    [point][point][point] … [point]                 720, closed, with their percentiles
//     minute                  [stretch x 11] + [open]         with histograms, which can be added up
//
// A receipt counts when it comes, not when its request began.  Percentiles of round-robin are those that were
// measured, moved by the difference between the same percentiles of the two models (shadow.h), and not below
// 0.  Single requests are moved by more or less than that, and percentiles of those would be higher than
// anything that anybody waits: errors that even out on average do not in the tail.
//
// Time is the wall clock's, as told by _tick.  Where it goes back a little, the open point stays open; where it
// goes back more, points that are now in the future are dropped.  Where it leaps ahead there are no points for
// what nobody saw.
//
// Threads: one at a time.  Memory: taken by _create.
#pragma once

#include "chronicle/chronicle.h"

struct receipt_share;
struct timeline;

// Stretches of the last minute, the open one among them.
enum { timeline_minute_steps = 12 };

// NULL when memory is short.
struct timeline *timeline_create(void);
void timeline_destroy(struct timeline **timeline);

// Returns the number of the step that is open: those of the last minute are above it less timeline_minute_steps.
uint64_t timeline_tick(struct timeline *timeline, uint64_t wall_ms);

void timeline_note(struct timeline *timeline, const struct receipt_share *account);

// See chronicle.h.
uint32_t timeline_points(const struct timeline *timeline, uint64_t since_ms,
                         struct chronicle_point *out, uint32_t out_max);
void timeline_recent(const struct timeline *timeline, struct chronicle_figures *out);

// How much of the last so many steps has been seen, the open one as far as it is over.
double timeline_span_s(const struct timeline *timeline, uint32_t step_count);
