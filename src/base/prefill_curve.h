// SPDX-License-Identifier: Apache-2.0
//
// prefill_curve.h -- the time that an engine takes to prefill a prompt.
//
// One curve for every model, scaled by two speeds.  Each token costs the same, plus a share that
// grows with the context it attends to; a step of the engine has a floor that few tokens do not
// fill:
//
//     work(h, u) = u * (1 + (h + u/2) / 24000)          tokens, h cached ones before u new ones
//     time       = sqrt(step_ms^2 + (token_ms * work)^2)
//
// The two speeds go together: a step takes as long as about 200 tokens on every model measured, so
// one of them gives the other.
//
// Measured on one H200 (models of 8B, 13B and 32B, up to 32k cached and 16k new tokens) it is
// within a fifth.  The shipped speeds are those of the 8B model; learned speeds replace them.
#pragma once

#include <math.h>

#define PREFILL_SHIPPED_TOKEN_MS 0.0239F
#define PREFILL_SHIPPED_STEP_MS 5.3F
#define PREFILL_STEP_TOKENS (PREFILL_SHIPPED_STEP_MS / PREFILL_SHIPPED_TOKEN_MS)

// In tokens without context to attend to.
static inline float prefill_curve_work(float cached, float uncached)
{
    return uncached * (1.0F + (cached + uncached * 0.5F) * (1.0F / 24000.0F));
}

// Zero tokens take no time: the floor of a step counts from the first token on.
static inline float prefill_curve_ms(float token_ms, float step_ms, float cached, float uncached)
{
    if (!(uncached > 0)) {
        return 0;
    }
    float work_ms = token_ms * prefill_curve_work(cached, uncached);
    return sqrtf(step_ms * step_ms + work_ms * work_ms);
}
