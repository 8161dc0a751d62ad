// SPDX-License-Identifier: Apache-2.0
//
// engine_metrics_page.h -- the metrics of a simulated engine, under vLLM's names.
//
// Times are those that a client sees, so they shrink when the simulation runs faster than life.
//
// Pure.  Threads: one owner.
#pragma once

#include "sim/engine/engine.h"

struct text;

enum engine_time { ENGINE_TIME_FIRST, ENGINE_TIME_BETWEEN, ENGINE_TIME_WHOLE, engine_time_count };

enum engine_end { ENGINE_END_STOP, ENGINE_END_LENGTH, ENGINE_END_ABORT, engine_end_count };

enum { engine_bucket_max = 23 }; // the last one has no upper edge

struct engine_histogram {
    uint64_t counts[engine_bucket_max];
    double sum_s;
};

struct engine_counts {
    struct engine_histogram times[engine_time_count];
    uint64_t ends[engine_end_count];
    uint64_t steps;
    double late_s; // of all steps: how long after its time the end of one was seen
};

void engine_counts_note(struct engine_counts *counts, enum engine_time time, double seconds);

// One of the engines behind an address.
struct engine_metrics_rank {
    struct engine_status status;
    const struct engine_counts *counts;
};

struct engine_metrics_page {
    const char *model; // the name of a profile
    const struct profile *profile;
    const struct engine_metrics_rank *ranks; // in series with engine="0", "1" and so on
    uint32_t rank_count;
};

enum { engine_metrics_rank_room = 16384 };

// Needs engine_metrics_rank_room bytes for each rank.
void engine_metrics_page_write(const struct engine_metrics_page *page, struct text *out);
