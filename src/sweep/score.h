// SPDX-License-Identifier: Apache-2.0
//
// score.h -- how one policy fares against the others over a grid.
//
// At each point and for each metric the best of the others, chosen anew, is divided by the judged
// policy: 1 means as good as the best of them, more is better.  Over many points the geometric mean
// counts, and the worst point.  No single peer reaches 1 unless it is the best everywhere.
#pragma once

#include "sweep/sweep.h"

enum { score_metric_count = 4, score_best_peer = UINT32_MAX >> 1 };

// "TTFT", "TTFT p99", "E2E", "E2E p99".
extern const char *const score_metrics[score_metric_count];

struct score {
    uint32_t point_count;
    double all; // geometric mean of the four
    struct {
        double mean; // geometric; 0: there was nothing to compare
        double worst;
        const struct sweep_point *worst_at;
    } metrics[score_metric_count];
};

// Which points count; NULL: all.
typedef bool (*score_filter_fn)(const struct sweep_point *point, const void *wanted);

// A peer's number, or that of the best peer, over the judged policy's; 0: one is unknown.
double score_ratio(const struct sweep *sweep, const struct sweep_point *point, uint32_t judge,
                   uint32_t peer, uint32_t metric);

// The policy other than the judged one that has the lowest number; the judged one when it is alone.
uint32_t score_best_of(const struct sweep *sweep, const struct sweep_point *point, uint32_t judge,
                       uint32_t metric);

struct score_question {
    uint32_t judge;
    uint32_t peer; // or score_best_peer
    score_filter_fn counts;
    const void *wanted;
};

void score_sum(const struct sweep *sweep, const struct score_question *question, struct score *out);
