// SPDX-License-Identifier: Apache-2.0
//
// timeline.h -- figures for every five seconds of the last hour, and for the last minute.
//
//     hour    [point][point][point] … [point]           720, closed, with their percentiles
//     minute                  [stretch x 11] + [open]   with histograms, which can be added up
//
// A receipt counts when it arrives, not when its request began.  Percentiles for round-robin are
// the measured ones, shifted by the difference between the same percentiles of the two models
// (shadow.h), and at least 0.  Percentiles of single estimates would be too high: errors that
// cancel out on average do not in the tail.
//
// Time is the wall clock's, as _tick gets it.  If it goes back a little, the open point stays open;
// if it goes back further, points in the future are dropped.  A leap ahead leaves a gap without
// points.
//
// Threads: one at a time.  Memory: taken by _create.
#pragma once

#include "chronicle/chronicle.h"

struct receipt_share;
struct timeline;

// Stretches of the last minute, the open one included.
enum { timeline_minute_steps = 12 };

// NULL when memory is short.
struct timeline *timeline_create(void);
void timeline_destroy(struct timeline **timeline);

// Returns the number of the open step; the last minute is the last timeline_minute_steps numbers.
uint64_t timeline_tick(struct timeline *timeline, uint64_t wall_ms);

void timeline_note(struct timeline *timeline, const struct receipt_share *account);

// See chronicle.h.
uint32_t timeline_points(const struct timeline *timeline, uint64_t since_ms,
                         struct chronicle_point *out, uint32_t out_max);
void timeline_recent(const struct timeline *timeline, struct chronicle_figures *out);

// Seconds of the last `step_count` steps that have passed since the start.
double timeline_span_s(const struct timeline *timeline, uint32_t step_count);
