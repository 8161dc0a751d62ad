// SPDX-License-Identifier: Apache-2.0
//
// metric_table.h -- every metric that the router shows: name, type, labels, decimals, meaning.
//
// The rows are metrics.def.
#pragma once

#include <stdint.h>

enum metric {
#define GROUP(title, text)
#define METRIC(id, type, name, labels, decimals, help) METRIC_##id,
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
    uint32_t name_size; // a page repeats the name thousands of times
    enum metric_type type;
    const char *labels; // "backend, model"; "" without labels
    uint32_t decimals;  // digits of a stored value behind the point; of the sum, where there is one
    const char *help;
};

const struct metric_row *metric_row(enum metric metric);

// As the page names it.
const char *metric_type_name(enum metric_type type);
