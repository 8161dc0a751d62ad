// SPDX-License-Identifier: Apache-2.0

#include "metrics/metric_table.h"

#include "base/base.h"

static const struct metric_row metric_rows[] = {
#define GROUP(title, text)
#define METRIC(id, type, name, labels, decimals, help)                                             \
    [METRIC_##id] = {name, sizeof(name) - 1, METRIC_TYPE_##type, labels, decimals, help},
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
};

const struct metric_row *metric_row(enum metric metric)
{
    ASSERT((size_t)metric < ARRAY_COUNT(metric_rows));
    return &metric_rows[metric];
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
