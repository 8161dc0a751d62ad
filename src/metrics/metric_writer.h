// SPDX-License-Identifier: Apache-2.0
//
// metric_writer.h -- Prometheus text, format 0.0.4: rows of the table with their values.
//
//     metric_begin(out, METRIC_BACKEND_WEIGHT);                     # HELP …, # TYPE …
//     metric_label(&labels, "backend", slice_str(url));             backend="http://10.0.0.1:8000"
//     metric_add(out, METRIC_BACKEND_WEIGHT, text_slice(&labels), 3, 0);
//
// Values are whole numbers of some power of ten, so that a page of fifty thousand lines costs what copying it
// does and a value is shown to its last digit: 1500 with 6 decimals is 0.0015.
#pragma once

#include "base/slice.h"
#include "metrics/metric_table.h"

struct meter_scale;
struct text;

// The lines above a metric's values.
void metric_begin(struct text *out, enum metric metric);

// Adds name="value" to what stands between the braces.
void metric_label(struct text *labels, const char *name, struct slice value);

void metric_add(struct text *out, enum metric metric, struct slice labels, uint64_t value,
                uint32_t decimals);

// A summary without quantiles: its sum in microseconds.
void metric_add_summary(struct text *out, enum metric metric, struct slice labels, uint64_t sum_us,
                        uint64_t count);

// `buckets` has scale->count + 1 counts, not cumulative.
void metric_add_histogram(struct text *out, enum metric metric, struct slice labels,
                          const struct meter_scale *scale, const uint64_t *buckets,
                          uint64_t sum_ns);
