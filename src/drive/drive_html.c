// SPDX-License-Identifier: Apache-2.0
//
// A run as a page that stands alone.

#include "base/base.h"
#include "drive/drive_result.h"
#include "lab/chart.h"

#include <stdlib.h>

// The same text as on a terminal.
static void html_write_table(const struct drive_result *result, FILE *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *table = open_memstream(&text, &size);

    ASSERT(table != NULL);
    drive_result_write_table(result, table);
    fclose(table);
    fputs("<pre>", out);
    chart_write_text(out, text);
    fputs("</pre>\n", out);
    free(text);
}

static void html_write_curve(const struct drive_result *result, FILE *out)
{
    double percents[figure_curve_points];
    for (int i = 0; i < figure_curve_points; i++) {
        percents[i] = i / 100.0;
    }
    const struct chart_series series = {
        .name = result->flags->label != NULL ? result->flags->label : "first token",
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
    chart_begin_page(out, result->flags->label != NULL ? result->flags->label : result->workload);
    html_write_table(result, out);
    if (!result->flags->no_stream && result->figures.request_count > 0) {
        html_write_curve(result, out);
    }
    if (result->tally->backend_count > 0) {
        html_write_backends(result->tally, out);
    }
    chart_end_page(out);
}
