// SPDX-License-Identifier: Apache-2.0
//
// calibration.h -- from measured step times to the constants of step_model.h.
//
// A calibration file is JSON; docs/calibration.md is its manual:
//
//     {"gpu": "NVIDIA H200",
//      "gpu_memory_bytes": 141000000000,
//      "models": {"llama-3.1-8b": {
//          "prefill": [[0, 16, 5.291], ...],       cached tokens, new tokens, ms of one step
//          "decode": [[1, 512, 5.025], ...],       sequences, tokens of context each, ms of a step
//          "step": {"floor_ms": 5.3, ...},         fitted constants; rows are not needed then
//          "kv_tokens": 845642,                    or weight_bytes and kv_bytes_per_token
//          "kv_bytes_per_token": 131072,
//          "step_tokens": 8192, "sequences_max": 256, "block_tokens": 16, "context_max": 131072}}}
//
// Other members are passed over.  The fit minimises the squared error of the logarithm, so that a
// step of 5 ms counts as much as one of 2 s.
//
// Pure.  Memory: rows are taken while reading and given back by _destroy.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "sim/engine/profile.h"

enum { calibration_error_size = 256, calibration_model_max = 64, calibration_row_max = 1024 };

struct calibration_row {
    double first;  // cached tokens, or sequences
    double second; // new tokens, or tokens of context of each sequence
    double ms;
};

struct calibration_model {
    // Name and limits from the file, or the defaults.
    struct profile profile;
    bool has_step; // the file has the constants, too, and they are in the profile
    struct calibration_row *prefill;
    struct calibration_row *decode;
    uint32_t prefill_count;
    uint32_t decode_count;
};

struct calibration {
    struct calibration_model models[calibration_model_max];
    uint32_t model_count;
};

// MALFORMED: `error` says what and where.  EXHAUSTED: memory is short.  `*out` needs no _destroy
// then.
enum status calibration_read(struct slice text, struct calibration *out,
                             char error[calibration_error_size]);
void calibration_destroy(struct calibration *calibration);

struct text;

// Writes a file that calibration_read reads: the step of those that have one, rows, limits.
void calibration_write(const struct calibration *calibration, struct text *out);

// The name of one constant of the step model and where it is.
struct calibration_constant {
    const char *name;
    size_t offset;
};

enum { calibration_constant_count = 9 };
extern const struct calibration_constant calibration_constants[calibration_constant_count];

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

// How far `step` is off the rows, of which there is at least one.
void calibration_judge(const struct calibration_model *model, const struct step_model *step,
                       struct calibration_fit *out);

// The model's time for a row.
double calibration_predict(const struct step_model *step, const struct calibration_row *row,
                           bool is_decode);

// The engine of that name, its step fitted unless the file has it.  `name` NULL: the only one.
// MALFORMED: the model is unknown or has too few rows; `error` says so.
enum status calibration_profile(const struct calibration *calibration, const char *name,
                                struct profile *out, char error[calibration_error_size]);
