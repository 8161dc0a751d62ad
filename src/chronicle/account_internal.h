// SPDX-License-Identifier: Apache-2.0
//
// account_internal.h -- what one receipt adds to figures, wherever they are kept.
#pragma once

#include "chronicle/chronicle.h"

#include <math.h>

struct receipt_share {
    struct chronicle_figures sums; // without percentiles and span
    double ttft_ms;                // NAN: unknown
    // Until the first token by the model of queues (shadow.h): as it was done, and under round-robin.
    // Negative: not known.
    double model_ms;
    double shadow_model_ms;
};

static const double account_percentiles[chronicle_percentile_count] = {0.50, 0.95, 0.99};

static inline void figures_add(struct chronicle_figures *to, const struct chronicle_figures *more)
{
    to->requests += more->requests;
    to->failures += more->failures;
    to->prompt_tokens += more->prompt_tokens;
    to->output_tokens += more->output_tokens;
    to->told_prompt_tokens += more->told_prompt_tokens;
    to->cached_tokens += more->cached_tokens;
    to->shadow_cached_tokens += more->shadow_cached_tokens;
    to->saved_s += more->saved_s;
    to->shadow_saved_s += more->shadow_saved_s;
}

static inline void figures_no_percentiles(struct chronicle_figures *figures)
{
    for (uint32_t i = 0; i < chronicle_percentile_count; i++) {
        figures->ttft_ms[i] = (double)NAN;
        figures->shadow_ttft_ms[i] = (double)NAN;
    }
}
