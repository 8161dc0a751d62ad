// SPDX-License-Identifier: Apache-2.0
//
// A run as a page that stands alone.

#include "base/base.h"
#include "drive/drive_result.h"
#include "lab/chart.h"

#include <inttypes.h>

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "background:#fff;color:#1c2024}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "th,td{text-align:right;padding:.25rem .8rem;border-bottom:1px solid #8884}"
    "th:first-child,td:first-child{text-align:left}"
    ".doubt{border:2px solid #c33;padding:.6rem 1rem;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#16181b;color:#e6e6e6}}";

static void html_write_row(FILE *out, const char *name, const struct distribution *row)
{
    const double values[] = {row->mean, row->p50, row->p90, row->p99, row->max};
    fprintf(out, "<tr><td>%s</td>", name);
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        char value[chart_value_size];
        chart_format(CHART_MS, values[i], value);
        fprintf(out, "<td>%s</td>", value);
    }
    fputs("</tr>\n", out);
}

static void html_write_times(const struct drive_result *result, FILE *out)
{
    struct distribution gaps = drive_result_spread(&result->tally->gaps);
    struct distribution late = drive_result_spread(&result->tally->late);

    fputs(
        "<table><tr><th></th><th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>max</th></tr>\n",
        out);
    if (result->stream) {
        html_write_row(out, "first token", &result->figures.ttft);
        html_write_row(out, "between tokens", &gaps);
        html_write_row(out, "per token", &result->figures.tpot);
    }
    html_write_row(out, "whole response", &result->figures.e2e);
    html_write_row(out, "sent late", &late);
    fputs("</table>\n", out);
}

static void html_write_fact(FILE *out, const char *name, const char *format, double value)
{
    char text[64];
    // One number, with what the callers below put around it.
    snprintf(text, sizeof(text), "%.4g", value);
    fprintf(out, "<tr><td>%s</td><td>%s%s</td></tr>\n", name, text, format);
}

static void html_write_facts(const struct drive_result *result, FILE *out)
{
    const struct figures *figures = &result->figures;
    const struct drive_tally *tally = result->tally;

    fputs("<table>\n", out);
    html_write_fact(out, "requests that count", "", figures->request_count);
    html_write_fact(out, "failed", "", (double)tally->error_count);
    html_write_fact(out, "time", " s", figures->span_s);
    html_write_fact(out, "rate", " requests/s", figures->requests_per_s);
    html_write_fact(out, "output", " tokens/s", figures->output_per_s);
    if (tally->knows_cached) {
        html_write_fact(out, "cached tokens of prompts", "%", figures->hit_rate * 100);
    }
    if (result->stream) {
        html_write_fact(out, "goodput", "%", figures->goodput * 100);
    }
    if (tally->backend_count > 0) {
        html_write_fact(out, "busiest backend over the mean", "", figures->balance);
    }
    html_write_fact(out, "in flight at most", "", result->counts.in_flight_max);
    for (enum drive_error error = DRIVE_FINE + 1; error < drive_error_count; error++) {
        if (tally->errors[error] > 0) {
            html_write_fact(out, drive_error_meaning(error), "", (double)tally->errors[error]);
        }
    }
    for (uint32_t i = 0; i < drive_status_max; i++) {
        if (tally->statuses[i] > 0) {
            char name[32];
            snprintf(name, sizeof(name), "status %u", i);
            html_write_fact(out, name, "", (double)tally->statuses[i]);
        }
    }
    fputs("</table>\n", out);
}

static void html_write_curve(const struct drive_result *result, FILE *out)
{
    double percents[figure_curve_points];
    for (int i = 0; i < figure_curve_points; i++) {
        percents[i] = i / 100.0;
    }
    const struct chart_series series = {
        .name = result->label != NULL ? result->label : "first token",
        .x = percents,
        .y = result->figures.ttft_curve,
        .point_count = figure_curve_points,
    };
    chart_write_lines(out, &(struct chart_lines){
                               .title = "Time to the first token",
                               .x = {.label = "share of the requests", .unit = CHART_PERCENT},
                               .y = {.label = "at most", .unit = CHART_MS, .is_log = true},
                               .series = &series,
                               .series_count = 1,
                           });
}

static void html_write_backends(const struct drive_tally *tally, FILE *out)
{
    // More bars are unreadable.
    enum { bar_count_max = 64 };
    struct chart_bar bars[bar_count_max];
    uint32_t count = tally->backend_count < bar_count_max ? tally->backend_count : bar_count_max;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct drive_backend *backend = &tally->backends[i];
        bars[i] = (struct chart_bar){.name = backend->name, .value = (double)backend->requests};
        sum += (double)backend->requests;
    }
    chart_write_bars(out, &(struct chart_bars){
                              .title = "Requests by backend",
                              .unit = CHART_NUMBER,
                              .bars = bars,
                              .bar_count = count,
                              .mark_name = "mean",
                              .mark = sum / count,
                          });
}

void drive_result_write_html(const struct drive_result *result, FILE *out)
{
    const char *doubt = drive_result_doubt(result);
    const char *title = result->label != NULL ? result->label : result->workload;

    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>",
          out);
    chart_write_text(out, title);
    fprintf(out, "</title><style>%s\n", style);
    chart_write_style(out);
    fputs("</style></head><body>\n<h1>", out);
    chart_write_text(out, title);
    fputs("</h1>\n<p>", out);
    chart_write_text(out, result->workload);
    fputs(" at ", out);
    chart_write_text(out, result->url);
    fputs(", model ", out);
    chart_write_text(out, result->model);
    fputs("</p>\n", out);
    if (doubt != NULL) {
        fprintf(out, "<p class=\"doubt\">Do not trust these times: %s.</p>\n", doubt);
    }
    html_write_times(result, out);
    html_write_facts(result, out);
    if (result->stream && result->figures.request_count > 0) {
        html_write_curve(result, out);
    }
    if (result->tally->backend_count > 0) {
        html_write_backends(result->tally, out);
    }
    fputs("</body></html>\n", out);
}
