// SPDX-License-Identifier: Apache-2.0

#include "metrics/metric_table.h"

#include "base/base.h"

static const struct metric_row rows[] = {
#define GROUP(title, text)
#define METRIC(id, type, name, labels, help)                                                       \
    [METRIC_##id] = {name, sizeof(name) - 1, METRIC_TYPE_##type, labels, help},
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
};

static const struct metric_line lines[] = {
#define GROUP(title, text) {title, text, 0},
#define METRIC(id, type, name, labels, help) {NULL, NULL, METRIC_##id},
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
};

const struct metric_row *metric_row(enum metric metric)
{
    ASSERT((size_t)metric < ARRAY_COUNT(rows));
    return &rows[metric];
}

const char *metric_type_name(enum metric_type type)
{
    static const char *const names[] = {
        [METRIC_TYPE_COUNTER] = "counter",
        [METRIC_TYPE_GAUGE] = "gauge",
        [METRIC_TYPE_HISTOGRAM] = "histogram",
        [METRIC_TYPE_SUMMARY] = "summary",
    };
    ASSERT((size_t)type < ARRAY_COUNT(names));
    return names[type];
}

const struct metric_line *metric_line(uint32_t position)
{
    return position < ARRAY_COUNT(lines) ? &lines[position] : NULL;
}
