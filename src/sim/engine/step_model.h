// SPDX-License-Identifier: Apache-2.0
//
// step_model.h -- how long one step of an engine takes.
//
// A step computes N tokens in one batch: chunks of prompts, n new tokens behind c that are in the
// cache, and one token for each sequence that is being decoded, which attends to its context.
//
//     ms = (floor^p + (token * N)^p)^(1/p)      the longer of reading the weights and computing
//        + sum over chunks   max(cached, cross * n) * c + square * n^2
//        + sum over decoded  context * tokens of context + sequence
//
// The cached tokens, too, are read or computed with, whichever is longer.  `square` is another one
// behind cached tokens, because engines use another kernel there.  The constants are fitted to
// measurements (calibration.h); profile.h has those of the models we ship.
#pragma once

#include <stdint.h>

struct step_model {
    double floor_ms;
    double token_ms;
    double sharpness; // p
    double cross_ms;
    double square_ms;        // of a prompt's first chunk
    double square_behind_ms; // of one that has cached tokens before it
    double cached_ms;
    double context_ms;
    double sequence_ms;
};

// The work of one step; starts zeroed.
struct step_work {
    double tokens;
    double extra_ms;
};

void step_work_add_chunk(struct step_work *work, const struct step_model *model, uint32_t cached,
                         uint32_t tokens);
void step_work_add_decode(struct step_work *work, const struct step_model *model,
                          uint32_t sequences, uint64_t context_tokens);

double step_ms(const struct step_work *work, const struct step_model *model);

// A prompt alone on an idle engine that computes at most `step_tokens` in one step.
double step_prefill_ms(const struct step_model *model, uint32_t cached, uint32_t tokens,
                       uint32_t step_tokens);
