// SPDX-License-Identifier: Apache-2.0
//
// metrics_samples.h -- the numbers of a page of metrics, each read once.
//
//                  values, by enum metric
//     router       [ 3 | 17 | - | … ]
//     backend 0    [ - | 1 | 0 | … ]    labels: backend="http://10.0.0.1:8000"
//     backend 1    [ … ]
//     tokenizer 0  [ … ]                labels: tokenizer="/models/llama"
//
// A metric is in the rows whose labels are its own (metric_row): those without labels are the
// router's.
//
// Memory: taken by _take.
#pragma once

#include "admin/document/metrics_page.h"
#include "base/text.h"
#include "metrics/metric_table.h"

struct backend;
struct meters_sum;

// Unknown: no line is written.
#define METRICS_NO_VALUE UINT64_MAX

struct metrics_row {
    const struct backend *backend; // NULL: not of a backend
    struct slice labels;
    uint64_t ttft_us; // of the summary
    uint64_t ttft_count;
    uint64_t values[METRIC_COUNT]; // with the decimals of its row
};

struct metrics_samples {
    struct metrics_row *rows; // the router's, those of backends, those of tokenizers
    uint32_t backend_count;
    uint32_t tokenizer_count;
    uint8_t *label_space;
};

// False when memory is short.
bool metrics_samples_take(const struct metrics_page_input *input, const struct meters_sum *sum,
                          struct metrics_samples *out);
void metrics_samples_free(struct metrics_samples *samples);
