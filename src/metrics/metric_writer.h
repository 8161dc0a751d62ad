// SPDX-License-Identifier: Apache-2.0
//
// metric_writer.h -- Prometheus text, format 0.0.4: rows of the table with their values.
//
//     metric_begin(out, METRIC_BACKEND_WEIGHT);                     # HELP …, # TYPE …
//     metric_label(&labels, "backend", slice_str(url));             backend="http://10.0.0.1:8000"
//     metric_add(out, METRIC_BACKEND_WEIGHT, text_slice(&labels), 3);
//
// Values are whole numbers, with the row's decimals: 1500 with 6 decimals is 0.0015.  So a page of
// fifty thousand lines costs little more than a copy, and every digit of a value is shown.
#pragma once

#include "base/slice.h"
#include "metrics/metric_table.h"

struct meter_scale;
struct text;

// The lines above a metric's values.
void metric_begin(struct text *out, enum metric metric);

// Adds name="value" to the labels.
void metric_label(struct text *labels, const char *name, struct slice value);

void metric_add(struct text *out, enum metric metric, struct slice labels, uint64_t value);

// A summary without quantiles.
void metric_add_summary(struct text *out, enum metric metric, struct slice labels, uint64_t sum,
                        uint64_t count);

// `buckets` has scale->count + 1 counts, not cumulative.
void metric_add_histogram(struct text *out, enum metric metric, struct slice labels,
                          const struct meter_scale *scale, const uint64_t *buckets,
                          uint64_t sum_ns);
