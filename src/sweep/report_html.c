// SPDX-License-Identifier: Apache-2.0

#include "sweep/report.h"
#include "sweep/score.h"

#include <inttypes.h>

// The judged policy has the colour of the one that matters, the others the next ones in their
// order.
static uint32_t color_of(uint32_t policy, uint32_t judge)
{
    if (policy == judge) {
        return 0;
    }
    return judge != report_no_judge && policy > judge ? policy : policy + 1;
}

static void write_percentiles(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                              const uint32_t *rows, uint32_t judge)
{
    double percents[figure_curve_points];
    struct chart_series series[sweep_policy_max];
    for (int i = 0; i < figure_curve_points; i++) {
        percents[i] = i / 100.0;
    }
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        uint32_t policy = rows[i];
        series[i] = (struct chart_series){.name = sweep->options.policies[policy].name,
                                          .x = percents,
                                          .y = point->cells[policy].figures.ttft_curve,
                                          .point_count = figure_curve_points,
                                          .color = color_of(policy, judge)};
    }
    chart_write_lines(out, &(struct chart_lines){
                               .title = "Time to first token, by percentile",
                               .x = {"share of the requests", CHART_PERCENT, false},
                               .y = {"TTFT", CHART_MS, true},
                               .series = series,
                               .series_count = sweep->options.policy_count,
                           });
}

static void write_bars(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                       const uint32_t *rows, uint32_t judge)
{
    struct chart_bar hits[sweep_policy_max];
    struct chart_bar balances[sweep_policy_max];
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        const struct figures *figures = &point->cells[rows[i]].figures;
        const char *name = sweep->options.policies[rows[i]].name;
        uint32_t color = color_of(rows[i], judge);
        hits[i] = (struct chart_bar){name, figures->hit_rate, color};
        balances[i] = (struct chart_bar){name, figures->balance, color};
    }
    chart_write_bars(out, &(struct chart_bars){
                              .title = "Tokens of prompts that were cached",
                              .unit = CHART_PERCENT,
                              .bars = hits,
                              .bar_count = sweep->options.policy_count,
                              .mark_name = "an infinite cache",
                              .mark = point->bound,
                          });
    chart_write_bars(out, &(struct chart_bars){
                              .title = "Work of the busiest backend over the mean",
                              .unit = CHART_NUMBER,
                              .bars = balances,
                              .bar_count = sweep->options.policy_count,
                              .mark_name = "even",
                              .mark = 1,
                          });
}

static void write_table_row(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                            uint32_t policy, bool is_judge)
{
    fprintf(out, "<tr%s><td>", is_judge ? " class=\"judge\"" : "");
    chart_write_text(out, sweep->options.policies[policy].name);
    fputs("</td>", out);
    for (uint32_t c = 0; c < report_column_count; c++) {
        char cell[report_cell_size];
        report_format(&report_columns[c], &point->cells[policy].figures, cell);
        bool is_best = report_is_best(sweep, point, &report_columns[c], policy);
        fprintf(out, "<td%s>%s</td>", is_best ? " class=\"best\"" : "", cell);
    }
    fputs("</tr>\n", out);
}

static void report_write_details(FILE *out, const struct sweep *sweep,
                                 const struct sweep_point *point,
                                 const struct report_options *options)
{
    char name[sweep_name_size];
    uint32_t rows[sweep_policy_max];
    sweep_point_name(sweep, point, name);
    report_order(sweep, point, options->sort, rows);
    fprintf(out, "<details%s><summary>", sweep->point_count <= 4 ? " open" : "");
    chart_write_text(out, name);
    fputs("</summary>\n<div class=\"row\">\n", out);
    write_percentiles(out, sweep, point, rows, options->judge);
    write_bars(out, sweep, point, rows, options->judge);
    fputs("</div>\n<div class=\"scroll\"><table><tr><th>policy</th>", out);
    for (uint32_t c = 0; c < report_column_count; c++) {
        fprintf(out, "<th>%s</th>", report_columns[c].heading);
    }
    fputs("</tr>\n", out);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        write_table_row(out, sweep, point, rows[i], rows[i] == options->judge);
    }
    fputs("</table></div></details>\n", out);
}

static const char *level_label(enum sweep_axis axis)
{
    switch (axis) {
    case SWEEP_RATE:
        return "requests/s";
    case SWEEP_USERS:
        return "users";
    case SWEEP_LOAD:
    case SWEEP_AS_IS:
        break;
    }
    return "load, as a share of saturation";
}

// One column of the table against the load; `points` are those of one fleet.
static void report_write_curve(FILE *out, const struct sweep *sweep,
                               const struct sweep_point *points, const struct report_column *column,
                               uint32_t judge)
{
    const struct sweep_options *options = &sweep->options;
    double values[sweep_policy_max][sweep_level_max];
    struct chart_series series[sweep_policy_max];
    bool is_time = column->unit == CHART_MS;
    char title[64];

    for (uint32_t p = 0; p < options->policy_count; p++) {
        for (uint32_t l = 0; l < options->level_count; l++) {
            values[p][l] = report_value(column, &points[l].cells[p].figures);
        }
        series[p] = (struct chart_series){.name = options->policies[p].name,
                                          .x = options->levels,
                                          .y = values[p],
                                          .point_count = options->level_count,
                                          .color = color_of(p, judge)};
    }
    snprintf(title, sizeof(title), "%s against the load", column->title);
    chart_write_lines(out, &(struct chart_lines){
                               .title = title,
                               .x = {level_label(options->axis), CHART_NUMBER, false},
                               .y = {column->title, column->unit, is_time},
                               .series = series,
                               .series_count = options->policy_count,
                           });
}

static void write_fleet(FILE *out, const struct sweep *sweep, uint32_t fleet,
                        const struct report_options *options)
{
    static const char *const curves[] = {"ttft", "ttft_p99", "goodput"};
    uint32_t level_count = sweep->options.level_count;
    const struct sweep_point *points = &sweep->points[(size_t)fleet * level_count];

    fputs("<section><h2>", out);
    chart_write_text(out, points->workload->name);
    fputs(", ", out);
    chart_write_text(out, points->profile->name);
    fprintf(out, ", %u backends</h2>\n", points->backend_count);
    if (points->saturation > 0) {
        fprintf(out, "<p class=\"note\">Saturated at %.4g requests/s.</p>\n", points->saturation);
    }
    fputs("<div class=\"row\">\n", out);
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]) && level_count > 1; i++) {
        report_write_curve(out, sweep, points, report_column_find(curves[i]), options->judge);
    }
    fputs("</div>\n", out);
    for (uint32_t l = 0; l < level_count; l++) {
        report_write_details(out, sweep, &points[l], options);
    }
    fputs("</section>\n", out);
}

static void report_write_score(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    struct score score;
    score_sum(sweep, &(struct score_question){.judge = judge, .peer = score_best_peer}, &score);
    fprintf(out,
            "<p>Best of the other policies, chosen anew for each point, over <b>%s</b>; above 1 it "
            "is ahead. Geometric mean, and the worst point.</p>\n<table><tr><th></th>",
            sweep->options.policies[judge].name);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fprintf(out, "<th>%s</th>", score_metrics[m]);
    }
    fprintf(out, "</tr>\n<tr><td>%u points</td>", score.point_count);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fprintf(out, "<td>%.3f (%.3f)</td>", score.metrics[m].mean, score.metrics[m].worst);
    }
    fputs("</tr></table>\n", out);
}

void report_html_write(FILE *out, const struct sweep *sweep, const struct report_options *options)
{
    chart_begin_page(out, "warmpath sim");
    fprintf(out,
            "<p class=\"note\">warmpath %s, seed %" PRIu64 ", %u for each figure. The first %.0f%% "
            "of the requests of a run warm the caches up and do not count. Goodput: TTFT below 1 s "
            "and TPOT below 50 ms.</p>\n",
            WARMPATH_VERSION, sweep->options.seed, sweep->options.seed_count,
            sweep->options.warm_up * 100);
    if (options->judge != report_no_judge && sweep->options.policy_count > 1) {
        report_write_score(out, sweep, options->judge);
    }
    for (uint32_t i = 0; i < sweep->fleet_count; i++) {
        write_fleet(out, sweep, i, options);
    }
    chart_end_page(out);
}
