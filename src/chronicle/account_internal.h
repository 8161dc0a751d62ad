// SPDX-License-Identifier: Apache-2.0
//
// account_internal.h -- the share of one receipt in figures.
#pragma once

#include "chronicle/chronicle.h"

#include <math.h>

struct receipt_share {
    struct chronicle_figures sums; // without percentiles and span
    double ttft_ms;                // NAN: unknown
    // Time to the first token by the queue model (shadow.h): of the real decision, and of
    // round-robin.  NAN: unknown.
    double model_ms;
    double shadow_model_ms;
};

static const double account_percentiles[chronicle_percentile_count] = {0.50, 0.95, 0.99};

static inline void figures_add(struct chronicle_figures *to, const struct chronicle_figures *more)
{
#define X(type, compact, name) to->name += more->name;
    CHRONICLE_SUM_MAP(X)
#undef X
}

static inline void figures_no_percentiles(struct chronicle_figures *figures)
{
    for (uint32_t i = 0; i < chronicle_percentile_count; i++) {
        figures->ttft_ms[i] = (double)NAN;
        figures->shadow_ttft_ms[i] = (double)NAN;
    }
}
