// SPDX-License-Identifier: Apache-2.0

#include "sweep/report_json.h"

#include "base/base.h"
#include "base/text.h"
#include "sweep/score.h"

#include <inttypes.h>
#include <math.h>

static const struct field {
    const char *name;
    size_t offset;
} numbers[] =
    {
#define NUMBER(name)                                                                               \
    {                                                                                              \
#name, offsetof(struct figures, name)                                                      \
    }
        NUMBER(span_s),          NUMBER(hit_rate),    NUMBER(bound_rate), NUMBER(balance),
        NUMBER(request_balance), NUMBER(affinity),    NUMBER(goodput),    NUMBER(requests_per_s),
        NUMBER(output_per_s),    NUMBER(preemptions),
#undef NUMBER
},
  distributions[] = {
      {"ttft_ms", offsetof(struct figures, ttft)},
      {"tpot_ms", offsetof(struct figures, tpot)},
      {"e2e_ms", offsetof(struct figures, e2e)},
};

static void report_json_string(FILE *out, const char *string)
{
    char space[4096];
    struct text text = text_over(space, sizeof(space));
    text_add_json(&text, slice_str(string));
    if (text.overflow) {
        fputs("\"\"", out);
    } else {
        fwrite(space, 1, text.size, out);
    }
}

// Twelve digits: more than any figure deserves, and the same for the same double.
static void report_json_number(FILE *out, double value)
{
    if (isfinite(value)) {
        fprintf(out, "%.12g", value);
    } else {
        fputs("null", out);
    }
}

static void write_field(FILE *out, const char *name, double value)
{
    fprintf(out, ", \"%s\": ", name);
    report_json_number(out, value);
}

static const void *at(const struct figures *figures, const struct field *field)
{
    return (const char *)figures + field->offset;
}

static void write_figures(FILE *out, const struct figures *figures, bool has_curve)
{
    fprintf(out, "{\"requests\": %u, \"failed\": %u", figures->request_count,
            figures->failed_count);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        write_field(out, numbers[i].name, *(const double *)at(figures, &numbers[i]));
    }
    for (size_t i = 0; i < ARRAY_COUNT(distributions); i++) {
        const struct distribution *distribution = at(figures, &distributions[i]);
        fprintf(out, ", \"%s\": {\"mean\": ", distributions[i].name);
        report_json_number(out, distribution->mean);
        write_field(out, "p50", distribution->p50);
        write_field(out, "p90", distribution->p90);
        write_field(out, "p99", distribution->p99);
        write_field(out, "max", distribution->max);
        fputc('}', out);
    }
    for (int i = 0; has_curve && i < figure_curve_points; i++) {
        fputs(i == 0 ? ", \"ttft_curve_ms\": [" : ", ", out);
        report_json_number(out, figures->ttft_curve[i]);
    }
    fputs(has_curve ? "]}" : "}", out);
}

static void write_runs(FILE *out, const struct sweep *sweep, const struct sweep_cell *cell,
                       bool has_wall_time)
{
    for (uint32_t s = 0; s < sweep->options.seed_count; s++) {
        const struct sweep_run *run = &cell->runs[s];
        fprintf(out, "%s\n        {\"seed\": %" PRIu64 ", \"steps\": %" PRIu64, s == 0 ? "" : ",",
                sweep->options.seed + s, run->result.step_count);
        write_field(out, "virtual_s", run->result.virtual_s);
        write_field(out, "completed_per_s", run->result.completed_per_s);
        if (has_wall_time) {
            write_field(out, "wall_s", run->wall_s);
        }
        fputs(", \"figures\": ", out);
        write_figures(out, &run->result.figures, false);
        fputc('}', out);
    }
}

static void report_json_point(FILE *out, const struct sweep *sweep, const struct sweep_point *point,
                              bool has_wall_time)
{
    fputs("\n    {\"workload\": ", out);
    report_json_string(out, point->workload->name);
    fputs(", \"model\": ", out);
    report_json_string(out, point->profile->name);
    fprintf(out, ", \"backends\": %u", point->backend_count);
    write_field(out, "level", point->level);
    write_field(out, "saturation_per_s", point->saturation);
    write_field(out, "rate_per_s", point->rate);
    fputs(", \"policies\": [", out);
    for (uint32_t p = 0; p < sweep->options.policy_count; p++) {
        const struct sweep_cell *cell = &point->cells[p];
        fputs(p == 0 ? "\n      {\"policy\": " : ",\n      {\"policy\": ", out);
        report_json_string(out, sweep->options.policies[p].name);
        fputs(", \"figures\": ", out);
        write_figures(out, &cell->figures, true);
        fputs(", \"runs\": [", out);
        write_runs(out, sweep, cell, has_wall_time);
        fputs("]}", out);
    }
    fputs("]}", out);
}

static const char *axis_name(enum sweep_axis axis)
{
    switch (axis) {
    case SWEEP_LOAD:
        return "load";
    case SWEEP_RATE:
        return "rate";
    case SWEEP_USERS:
        return "users";
    case SWEEP_AS_IS:
        break;
    }
    return "as_is";
}

static void write_options(FILE *out, const struct sweep_options *options)
{
    fprintf(out, "{\"version\": \"%s\", \"level\": \"%s\", \"seed\": %" PRIu64 ", \"seeds\": %u",
            WARMPATH_VERSION, axis_name(options->axis), options->seed, options->seed_count);
    fprintf(out, ", \"requests\": %u, \"scrape_ms\": %u", options->requests, options->scrape_ms);
    write_field(out, "share", options->share);
    write_field(out, "warm_up", options->warm_up);
    write_field(out, "limit_s", options->limit_s);
    fputc('}', out);
}

static void report_json_score(FILE *out, const struct sweep *sweep, uint32_t judge)
{
    struct score score;
    score_sum(sweep, &(struct score_question){.judge = judge, .peer = score_best_peer}, &score);
    fputs(",\n  \"score\": {\"judge\": ", out);
    report_json_string(out, sweep->options.policies[judge].name);
    fprintf(out, ", \"points\": %u", score.point_count);
    write_field(out, "all", score.all);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        fprintf(out, ", \"%s\": {\"mean\": ", score_metrics[m]);
        report_json_number(out, score.metrics[m].mean);
        write_field(out, "worst", score.metrics[m].worst);
        fputs(", \"worst_at\": ", out);
        char name[sweep_name_size] = "";
        if (score.metrics[m].worst_at != NULL) {
            sweep_point_name(sweep, score.metrics[m].worst_at, name);
        }
        report_json_string(out, name);
        fputc('}', out);
    }
    fputc('}', out);
}

void report_json_write(FILE *out, const struct sweep *sweep, const struct report_options *options)
{
    fputs("{\n  \"options\": ", out);
    write_options(out, &sweep->options);
    fputs(",\n  \"points\": [", out);
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        fputs(i == 0 ? "" : ",", out);
        report_json_point(out, sweep, &sweep->points[i], options->has_wall_time);
    }
    fputs("]", out);
    if (options->judge != report_no_judge && sweep->options.policy_count > 1) {
        report_json_score(out, sweep, options->judge);
    }
    fputs("\n}\n", out);
}
