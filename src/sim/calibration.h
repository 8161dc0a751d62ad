// SPDX-License-Identifier: Apache-2.0
//
// calibration.h -- from measured step times to the constants of step_model.h.
//
// A calibration file is JSON:
//
//     {"gpu": "NVIDIA H200",
//      "models": {"llama-3.1-8b": {
//          "kv_bytes_per_token": 131072,
//          "kv_tokens": 845642,                       optional, as are step_tokens, sequences_max,
//                                                     block_tokens, context_max
//          "prefill": [[0, 16, 5.291], ...],          cached tokens, new tokens, ms
//          "decode": [[1, 512, 5.025], ...]}}}        sequences, tokens of context each, ms of a step
//
// The fit minimises the squared error of the logarithm, so that a step of 5 ms counts as much as one
// of 2 s.
//
// Pure.  Memory: rows are taken while reading and given back by _destroy.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "sim/profile.h"

enum { calibration_error_size = 160, calibration_model_max = 64 };

struct calibration_row {
    double first;  // cached tokens, or sequences
    double second; // new tokens, or tokens of context of each sequence
    double ms;
};

struct calibration_model {
    struct profile
        profile; // name and limits from the file, or the defaults; the step is not fitted yet
    struct calibration_row *prefill;
    struct calibration_row *decode;
    uint32_t prefill_count;
    uint32_t decode_count;
};

struct calibration {
    struct calibration_model models[calibration_model_max];
    uint32_t model_count;
};

// MALFORMED: `error` says what and where.
enum status calibration_read(struct slice text, struct calibration *out,
                             char error[calibration_error_size]);
void calibration_destroy(struct calibration *calibration);

struct calibration_fit {
    struct step_model step;
    double median_error; // relative, over all rows
    double mean_error;
    double worst_error;
    struct calibration_row worst;
    bool worst_is_decode;
};

// EXHAUSTED: too few rows to tell the constants apart.
enum status calibration_fit(const struct calibration_model *model, struct calibration_fit *out);

// What the model says of a row.
double calibration_predict(const struct step_model *step, const struct calibration_row *row,
                           bool is_decode);
