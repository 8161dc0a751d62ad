// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "lab/json_file.h"
#include "sweep/report.h"
#include "sweep/score.h"

#include <math.h>

// More digits than any figure deserves, and the same for the same double.
enum { digits = 12 };

struct report_field {
    const char *name;
    size_t offset; // in struct figures
};

static const struct report_field numbers[] = {
    {"span_s", offsetof(struct figures, span_s)},
    {"hit_rate", offsetof(struct figures, hit_rate)},
    {"bound_rate", offsetof(struct figures, bound_rate)},
    {"balance", offsetof(struct figures, balance)},
    {"request_balance", offsetof(struct figures, request_balance)},
    {"affinity", offsetof(struct figures, affinity)},
    {"goodput", offsetof(struct figures, goodput)},
    {"requests_per_s", offsetof(struct figures, requests_per_s)},
    {"output_per_s", offsetof(struct figures, output_per_s)},
    {"preemptions", offsetof(struct figures, preemptions)},
};

static const struct report_field distributions[] = {
    {"ttft_ms", offsetof(struct figures, ttft)},
    {"tpot_ms", offsetof(struct figures, tpot)},
    {"e2e_ms", offsetof(struct figures, e2e)},
};

static const void *report_field_at(const struct figures *figures, const struct report_field *field)
{
    return (const char *)figures + field->offset;
}

static void report_json_figures(struct json_writer *json, const struct figures *figures,
                                bool has_curve)
{
    json_begin_object(json, "figures");
    json_put_u64(json, "requests", figures->request_count);
    json_put_u64(json, "failed", figures->failed_count);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        const double *number = report_field_at(figures, &numbers[i]);
        json_put_number(json, numbers[i].name, *number, digits);
    }
    for (size_t i = 0; i < ARRAY_COUNT(distributions); i++) {
        const struct distribution *distribution = report_field_at(figures, &distributions[i]);
        json_begin_object(json, distributions[i].name);
        json_put_number(json, "mean", distribution->mean, digits);
        json_put_number(json, "p50", distribution->p50, digits);
        json_put_number(json, "p90", distribution->p90, digits);
        json_put_number(json, "p99", distribution->p99, digits);
        json_put_number(json, "max", distribution->max, digits);
        json_end(json);
    }
    if (has_curve) {
        json_begin_array(json, "ttft_curve_ms");
        for (int i = 0; i < figure_curve_points; i++) {
            json_put_number(json, NULL, figures->ttft_curve[i], digits);
        }
        json_end(json);
    }
    json_end(json);
}

static void report_json_changes(struct json_writer *json, const struct sweep_options *options,
                                const struct lab_change_figures *changes)
{
    if (options->change_count == 0) {
        return;
    }
    json_begin_array(json, "changes");
    for (uint32_t i = 0; i < options->change_count; i++) {
        json_begin_object(json, NULL);
        json_put_str(json, "change", options->changes[i].name);
        for (uint32_t w = 0; w < lab_change_windows; w++) {
            char name[report_cell_size];
            snprintf(name, sizeof(name), "share_%gs", lab_change_window_s[w]);
            double share = changes[i].share[w];
            json_put_number(json, name, share < 0 ? (double)NAN : share, digits);
        }
        bool is_known = changes[i].ttft_p50 >= 0;
        json_put_number(json, "ttft_p50_ms", is_known ? changes[i].ttft_p50 : (double)NAN, digits);
        json_put_number(json, "ttft_p99_ms", is_known ? changes[i].ttft_p99 : (double)NAN, digits);
        json_end(json);
    }
    json_end(json);
}

static void report_json_run(struct json_writer *json, const struct sweep_options *options,
                            const struct sweep_run *run, uint64_t seed, bool has_wall_time)
{
    json_break_line(json, 8);
    json_begin_object(json, NULL);
    json_put_u64(json, "seed", seed);
    json_put_u64(json, "steps", run->result.step_count);
    json_put_number(json, "virtual_s", run->result.virtual_s, digits);
    json_put_number(json, "completed_per_s", run->result.completed_per_s, digits);
    if (has_wall_time) {
        json_put_number(json, "wall_s", run->wall_s, digits);
    }
    report_json_figures(json, &run->result.figures, false);
    report_json_changes(json, options, run->result.changes);
    json_end(json);
}

static void report_json_point(struct json_file *file, const struct sweep *sweep,
                              const struct sweep_point *point, bool has_wall_time)
{
    struct json_writer *json = &file->json;

    json_break_line(json, 4);
    json_begin_object(json, NULL);
    json_put_str(json, "workload", point->workload->name);
    json_put_str(json, "model", point->profile->name);
    json_put_u64(json, "backends", point->backend_count);
    json_put_number(json, "level", point->level, digits);
    json_put_number(json, "saturation_per_s", point->saturation, digits);
    json_put_number(json, "rate_per_s", point->rate, digits);
    json_begin_array(json, "policies");
    for (uint32_t p = 0; p < sweep->options.policy_count; p++) {
        const struct sweep_cell *cell = &point->cells[p];
        json_break_line(json, 6);
        json_begin_object(json, NULL);
        json_put_str(json, "policy", sweep->options.policies[p].name);
        report_json_figures(json, &cell->figures, true);
        report_json_changes(json, &sweep->options, cell->changes);
        json_begin_array(json, "runs");
        for (uint32_t s = 0; s < sweep->options.seed_count; s++) {
            report_json_run(json, &sweep->options, &cell->runs[s], sweep->options.seed + s,
                            has_wall_time);
            json_file_flush(file);
        }
        json_end(json);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static void report_json_sharing(struct json_writer *json, const struct lab_sharing *sharing)
{
    static const char *const spreads[] = {
        [LAB_SPREAD_RANDOM] = "random", [LAB_SPREAD_CLIENT] = "client"};

    if (sharing->router_count < 2) {
        return;
    }
    json_put_u64(json, "routers", sharing->router_count);
    json_put_number(json, "sync_ms",
                    sharing->sync_ms == lab_sync_never_ms ? (double)NAN : sharing->sync_ms, digits);
    json_put_number(json, "loss", sharing->loss, digits);
    json_put_str(json, "spread", spreads[sharing->spread]);
}

static void report_json_options(struct json_writer *json, const struct sweep_options *options)
{
    static const char *const axes[] = {[SWEEP_AS_IS] = "as_is",
                                       [SWEEP_LOAD] = "load",
                                       [SWEEP_RATE] = "rate",
                                       [SWEEP_USERS] = "users"};

    json_begin_object(json, "options");
    json_put_str(json, "version", WARMPATH_VERSION);
    json_put_str(json, "level", axes[options->axis]);
    json_put_u64(json, "seed", options->seed);
    json_put_u64(json, "seeds", options->seed_count);
    json_put_u64(json, "requests", options->requests);
    json_put_u64(json, "scrape_ms", options->scrape_ms);
    json_put_number(json, "share", options->share, digits);
    json_put_number(json, "warm_up", options->warm_up, digits);
    json_put_number(json, "limit_s", options->limit_s, digits);
    report_json_sharing(json, &options->sharing);
    json_end(json);
}

static void report_json_score(struct json_writer *json, const struct sweep *sweep, uint32_t judge)
{
    struct score score;
    score_sum(sweep, &(struct score_question){.judge = judge, .peer = score_best_peer}, &score);
    json_break_line(json, 2);
    json_begin_object(json, "score");
    json_put_str(json, "judge", sweep->options.policies[judge].name);
    json_put_u64(json, "points", score.point_count);
    json_put_number(json, "all", score.all, digits);
    for (uint32_t m = 0; m < score_metric_count; m++) {
        char name[sweep_name_size] = "";
        if (score.metrics[m].worst_at != NULL) {
            sweep_point_name(sweep, score.metrics[m].worst_at, name);
        }
        json_begin_object(json, score_metrics[m]);
        json_put_number(json, "mean", score.metrics[m].mean, digits);
        json_put_number(json, "worst", score.metrics[m].worst, digits);
        json_put_str(json, "worst_at", name);
        json_end(json);
    }
    json_end(json);
}

void report_json_write(FILE *out, const struct sweep *sweep, const struct report_options *options)
{
    struct json_file file;
    struct json_writer *json = &file.json;

    json_file_open(&file, out);
    json_begin_object(json, NULL);
    json_break_line(json, 2);
    report_json_options(json, &sweep->options);
    json_break_line(json, 2);
    json_begin_array(json, "points");
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        report_json_point(&file, sweep, &sweep->points[i], options->has_wall_time);
    }
    json_end(json);
    if (options->judge != report_no_judge && sweep->options.policy_count > 1) {
        report_json_score(json, sweep, options->judge);
    }
    json_break_line(json, 0);
    json_end(json);
    json_file_close(&file);
}
