// SPDX-License-Identifier: Apache-2.0
//
// metric_table.h -- every metric that the router shows: name, type, labels, what it means.
//
// The rows are metrics.def.  The page (GET /metrics) and docs/metrics.md are made of them, in their order.
#pragma once

#include <stdint.h>

enum metric {
#define GROUP(title, text)
#define METRIC(id, type, name, labels, help) METRIC_##id,
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
    METRIC_COUNT
};

enum metric_type {
    METRIC_TYPE_COUNTER,
    METRIC_TYPE_GAUGE,
    METRIC_TYPE_HISTOGRAM,
    METRIC_TYPE_SUMMARY, // without quantiles: sum and count
};

struct metric_row {
    const char *name;
    uint32_t name_size; // a page says it thousands of times
    enum metric_type type;
    const char *labels; // "backend, model"; "": it has none
    const char *help;
};

const struct metric_row *metric_row(enum metric metric);

// As the page names it.
const char *metric_type_name(enum metric_type type);

// A line of the table: the beginning of a section, or a metric.
struct metric_line {
    const char *title; // NULL: it is a metric
    const char *text;
    enum metric metric;
};

// NULL past the last.
const struct metric_line *metric_line(uint32_t position);
