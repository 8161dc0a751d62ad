// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "sweep/report.h"
#include "sweep/score.h"

// Points listed at which the judged policy is furthest behind.
enum { weak_max = 12, label_size = 96 };

static bool is_workload(const struct sweep_point *point, const void *wanted)
{
    return point->workload == wanted;
}

static bool is_profile(const struct sweep_point *point, const void *wanted)
{
    return point->profile == wanted;
}

static bool has_backends(const struct sweep_point *point, const void *wanted)
{
    return point->backend_count == *(const uint32_t *)wanted;
}

static bool has_level(const struct sweep_point *point, const void *wanted)
{
    return point->level == *(const double *)wanted;
}

static void write_metric_headings(FILE *out, const char *first)
{
    fprintf(out, "| %-28s | points |", first);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fprintf(out, " %-13s |", score_metrics[m]);
    }
    fputs(" all four |\n|---|---:|", out);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fputs("---|", out);
    }
    fputs("---:|\n", out);
}

static void write_score_line(FILE *out, const struct sweep *sweep,
                             const struct score_question *question, const char *label)
{
    struct score score;
    score_sum(sweep, question, &score);
    fprintf(out, "| %-28s | %6u |", label, score.point_count);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fprintf(out, " %5.3f (%.3f) |", score.metrics[m].mean, score.metrics[m].worst);
    }
    fprintf(out, " %8.3f |\n", score.all);
}

static void write_level_lines(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    static const char *const formats[] = {"as recorded", "load", "requests/s", "users"};
    const struct sweep_options *options = &sweep->options;
    char label[label_size];
    for (uint32_t i = 0; i < options->level_count && options->level_count > 1; i++) {
        snprintf(label, sizeof(label), "%s %g", formats[options->axis], options->levels[i]);
        write_score_line(
            out, sweep,
            &(struct score_question){judge, score_best_peer, has_level, &options->levels[i]},
            label);
    }
    for (uint32_t i = 0; i < options->backends_count && options->backends_count > 1; i++) {
        snprintf(label, sizeof(label), "%u backends", options->backends[i]);
        write_score_line(
            out, sweep,
            &(struct score_question){judge, score_best_peer, has_backends, &options->backends[i]},
            label);
    }
}

static void write_groups(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    const struct sweep_options *options = &sweep->options;
    struct score_question question = {.judge = judge, .peer = score_best_peer};

    write_metric_headings(out, "");
    write_score_line(out, sweep, &question, "all");
    question.counts = is_workload;
    for (uint32_t i = 0; i < options->workload_count && options->workload_count > 1; i++) {
        question.wanted = &options->workloads[i];
        write_score_line(out, sweep, &question, options->workloads[i].name);
    }
    question.counts = is_profile;
    for (uint32_t i = 0; i < options->profile_count && options->profile_count > 1; i++) {
        question.wanted = &options->profiles[i];
        write_score_line(out, sweep, &question, options->profiles[i].name);
    }
    write_level_lines(out, sweep, judge);
}

static void write_peers(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    write_metric_headings(out, "peer");
    for (uint32_t p = 0; p < sweep->options.policy_count; p++) {
        if (p != judge) {
            write_score_line(out, sweep, &(struct score_question){.judge = judge, .peer = p},
                             sweep->options.policies[p].name);
        }
    }
}

// A point and a metric at which another policy is ahead.
struct weakness {
    double ratio;
    const struct sweep_point *point;
    uint32_t metric;
};

static void keep_worst(struct weakness *worst, uint32_t *count, struct weakness one)
{
    uint32_t place = *count;
    while (place > 0 && one.ratio < worst[place - 1].ratio) {
        place--;
    }
    if (place == weak_max) {
        return;
    }
    *count += *count < weak_max;
    for (uint32_t i = *count - 1; i > place; i--) {
        worst[i] = worst[i - 1];
    }
    worst[place] = one;
}

static void write_weakest(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    struct weakness worst[weak_max];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        for (uint32_t m = 0; m < score_metric_count; m++) {
            double ratio = score_ratio(sweep, &sweep->points[i], judge, score_best_peer, m);
            if (ratio > 0 && ratio < 1) {
                keep_worst(worst, &count, (struct weakness){ratio, &sweep->points[i], m});
            }
        }
    }
    if (count == 0) {
        return;
    }
    fprintf(out, "\nWhere another one is furthest ahead:\n\n| ratio | metric | best peer | point "
                 "|\n|---:|---|---|---|\n");
    for (uint32_t i = 0; i < count; i++) {
        char name[sweep_name_size];
        sweep_point_name(sweep, worst[i].point, name);
        uint32_t best = score_best_of(sweep, worst[i].point, judge, worst[i].metric);
        fprintf(out, "| %.3f | %s | %s | %s |\n", worst[i].ratio, score_metrics[worst[i].metric],
                sweep->options.policies[best].name, name);
    }
}

void report_score_write(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    const char *name = sweep->options.policies[judge].name;
    fprintf(out,
            "Score of `%s`: the best of the %u others, chosen anew for each point and metric, over "
            "`%s`.\nAbove 1 `%s` is ahead. Geometric mean (worst point).\n\n",
            name, sweep->options.policy_count - 1, name, name);
    write_groups(out, sweep, judge);
    fprintf(out, "\nPeer by peer, each over `%s`:\n\n", name);
    write_peers(out, sweep, judge);
    write_weakest(out, sweep, judge);
}

static void write_table(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                        const struct report_options *options)
{
    fputs("| policy |", out);
    for (uint32_t c = 0; c < report_column_count; c++) {
        fprintf(out, " %s |", report_columns[c].heading);
    }
    fputs("\n|---|", out);
    for (uint32_t c = 0; c < report_column_count; c++) {
        fputs("---:|", out);
    }
    fputc('\n', out);
    uint32_t rows[sweep_policy_max];
    report_order(sweep, point, options->sort, rows);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        fprintf(out, "| %s |", sweep->options.policies[rows[i]].name);
        for (uint32_t c = 0; c < report_column_count; c++) {
            char cell[report_cell_size];
            report_format(&report_columns[c], &point->cells[rows[i]].figures, cell);
            const char *mark =
                report_is_best(sweep, point, &report_columns[c], rows[i]) ? "**" : "";
            fprintf(out, " %s%s%s |", mark, cell, mark);
        }
        fputc('\n', out);
    }
}

static void write_change(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                         const struct report_options *options, uint32_t change)
{
    uint32_t rows[sweep_policy_max];
    char cell[report_cell_size];

    fprintf(out, "\n| after %s |", sweep->options.changes[change].name);
    for (uint32_t c = 0; c < report_change_columns; c++) {
        fprintf(out, " %s |", report_change_headings[c]);
    }
    fputs("\n|---|", out);
    for (uint32_t c = 0; c < report_change_columns; c++) {
        fputs("---:|", out);
    }
    fputc('\n', out);
    report_order(sweep, point, options->sort, rows);
    for (uint32_t i = 0; i < sweep->options.policy_count; i++) {
        fprintf(out, "| %s |", sweep->options.policies[rows[i]].name);
        for (uint32_t c = 0; c < report_change_columns; c++) {
            report_format_change(c, &point->cells[rows[i]].changes[change], cell);
            fprintf(out, " %s |", cell);
        }
        fputc('\n', out);
    }
}

void report_markdown_write(FILE *out, const struct sweep *sweep,
                           const struct report_options *options)
{
    if (options->judge != report_no_judge && sweep->options.policy_count > 1) {
        fputs("## Score\n\n", out);
        report_score_write(out, sweep, options->judge);
    }
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        const struct sweep_point *point = &sweep->points[i];
        if (i == 0 || point->workload != sweep->points[i - 1].workload) {
            fprintf(out, "\n## %s\n", point->workload->name);
        }
        char name[sweep_name_size];
        sweep_point_name(sweep, point, name);
        fprintf(out, "\n### %s\n\nAn infinite cache hits %.1f%%.\n\n", name, point->bound * 100);
        write_table(out, sweep, point, options);
        for (uint32_t c = 0; c < sweep->options.change_count; c++) {
            write_change(out, sweep, point, options, c);
        }
    }
}
