// SPDX-License-Identifier: Apache-2.0
//
// paper.h -- the grid of grid.h, run, and what a report writes of it.
#pragma once

#include "sweep/grid.h"
#include "sweep/report.h"
#include "test.h"

static char paper[1 << 20];

static inline struct sweep *paper_sweep(const struct sweep_options *options)
{
    char error[sweep_error_size];
    struct sweep *sweep = sweep_create(options);
    ASSERT(sweep != NULL && sweep_run(sweep, &grid_lab, error));
    return sweep;
}

// Writes the sweep over `options` to `paper`.
static inline void paper_write(const struct sweep_options *options,
                               const struct report_options *report,
                               void (*write)(FILE *out, const struct sweep *sweep,
                                             const struct report_options *report))
{
    struct sweep *sweep = paper_sweep(options);
    memset(paper, 0, sizeof(paper));
    FILE *out = fmemopen(paper, sizeof(paper), "w");
    write(out, sweep, report);
    fclose(out);
    sweep_destroy(&sweep);
}

static inline int paper_count(const char *word)
{
    int count = 0;
    for (const char *at = paper; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}
