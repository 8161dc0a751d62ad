// SPDX-License-Identifier: Apache-2.0

#include "sweep/report.h"

#include "base/base.h"

#include <string.h>

const struct report_column report_columns[report_column_count] = {
    {"ttft", "TTFT ms", "Mean TTFT", offsetof(struct figures, ttft.mean), CHART_MS, false},
    {"ttft_p99", "p99", "p99 of TTFT", offsetof(struct figures, ttft.p99), CHART_MS, false},
    {"tpot", "TPOT ms", "Mean TPOT", offsetof(struct figures, tpot.mean), CHART_MS, false},
    {"e2e", "E2E ms", "Mean end-to-end time", offsetof(struct figures, e2e.mean), CHART_MS, false},
    {"e2e_p99", "p99", "p99 of end-to-end time", offsetof(struct figures, e2e.p99), CHART_MS,
     false},
    {"hits", "hits", "Hit rate", offsetof(struct figures, hit_rate), CHART_PERCENT, true},
    {"balance", "balance", "Balance", offsetof(struct figures, balance), CHART_NUMBER, false},
    {"goodput", "goodput", "Goodput", offsetof(struct figures, goodput), CHART_PERCENT, true},
    {"rate", "req/s", "Requests/s", offsetof(struct figures, requests_per_s), CHART_NUMBER, true},
};

const struct report_column *report_column_find(const char *key)
{
    for (size_t i = 0; i < report_column_count; i++) {
        if (strcmp(report_columns[i].key, key) == 0) {
            return &report_columns[i];
        }
    }
    return NULL;
}

double report_value(const struct report_column *column, const struct figures *figures)
{
    double value = 0;
    memcpy(&value, (const char *)figures + column->offset, sizeof(value));
    return value;
}

static void report_format_number(double value, char out[report_cell_size])
{
    snprintf(out, report_cell_size, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
}

void report_format(const struct report_column *column, const struct figures *figures,
                   char out[report_cell_size])
{
    double value = report_value(column, figures);
    if (column->unit == CHART_PERCENT) {
        snprintf(out, report_cell_size, "%.1f%%", value * 100);
    } else {
        report_format_number(value, out);
    }
}

const char *const report_change_headings[report_change_columns] = {"share 10s", "30s", "60s",
                                                                   "TTFT p50", "p99"};

void report_format_change(uint32_t column, const struct lab_change_figures *figures,
                          char out[report_cell_size])
{
    ASSERT(column < report_change_columns);
    double value = column < lab_change_windows    ? figures->share[column]
                   : column == lab_change_windows ? figures->ttft_p50
                                                  : figures->ttft_p99;
    if (value < 0) {
        snprintf(out, report_cell_size, "-");
    } else {
        report_format_number(value, out);
    }
}

static bool report_is_better(const struct report_column *column, double a, double b)
{
    return column->is_more_better ? a > b : a < b;
}

bool report_is_best(const struct sweep *sweep, const struct sweep_point *point,
                    const struct report_column *column, uint32_t policy)
{
    uint32_t best = 0;
    bool has_other = false;
    char own[report_cell_size];
    char other[report_cell_size];

    report_format(column, &point->cells[policy].figures, own);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        if (report_is_better(column, report_value(column, &point->cells[i].figures),
                             report_value(column, &point->cells[best].figures))) {
            best = i;
        }
        report_format(column, &point->cells[i].figures, other);
        has_other = has_other || strcmp(own, other) != 0;
    }
    report_format(column, &point->cells[best].figures, other);
    return has_other && strcmp(own, other) == 0;
}

void report_order(const struct sweep *sweep, const struct sweep_point *point,
                  const struct report_column *sort, uint32_t rows[sweep_policy_max])
{
    // By insertion: the rows are few, and equal ones stay in their order.
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        uint32_t at = i;
        while (sort != NULL && at > 0 &&
               report_is_better(sort, report_value(sort, &point->cells[i].figures),
                                report_value(sort, &point->cells[rows[at - 1]].figures))) {
            rows[at] = rows[at - 1];
            at--;
        }
        rows[at] = i;
    }
}
