// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_result.h"

#include "base/base.h"
#include "lab/chart.h"
#include "lab/json_file.h"

#include <inttypes.h>
#include <math.h>

// A request that is sent this late has a time that is not the server's.
static const double late_ms_max = 10;
// Beyond this share of a processor the generator stands in its own way.
static const double cpu_share_max = 0.9;

static const struct error_kind {
    const char *name;
    const char *meaning;
} error_kinds[] = {
    [DRIVE_FINE] = {"fine", "it went well"},
#define ERROR(id, name, meaning) [DRIVE_##id] = {name, meaning},
#include "drive/drive_errors.def"
#undef ERROR
};

const char *drive_error_name(enum drive_error error)
{
    ASSERT(error < ARRAY_COUNT(error_kinds));
    return error_kinds[error].name;
}

const char *drive_error_meaning(enum drive_error error)
{
    ASSERT(error < ARRAY_COUNT(error_kinds));
    return error_kinds[error].meaning;
}

static struct distribution result_spread(const struct histogram *times)
{
    if (times->count == 0) {
        return (struct distribution){0};
    }
    return (struct distribution){
        .mean = (double)times->sum_ns / (double)times->count / 1e6,
        .p50 = (double)histogram_quantile(times, 0.5) / 1e6,
        .p90 = (double)histogram_quantile(times, 0.9) / 1e6,
        .p99 = (double)histogram_quantile(times, 0.99) / 1e6,
        .max = (double)times->max_ns / 1e6,
    };
}

static double cpu_share(const struct drive_result *result)
{
    return result->elapsed_s > 0 ? result->cpu_s / result->elapsed_s : 0;
}

const char *drive_result_doubt(const struct drive_result *result)
{
    double late_ms = result_spread(&result->tally->late).p99;
    bool is_late = late_ms > late_ms_max || result->tally->errors[DRIVE_UNSENT] > 0;

    if (is_late && result->counts.in_flight_max == result->connections_max) {
        return "all connections were in use and requests had to wait here: raise "
               "--connections-max, "
               "or ask for less";
    }
    if (is_late) {
        return "requests were sent late: this machine is too busy to generate that load";
    }
    if (cpu_share(result) > cpu_share_max) {
        return "the generator used all of its processor: spread the load over several";
    }
    return NULL;
}

static void result_write_row(FILE *out, const char *name, const struct distribution *row)
{
    const double values[] = {row->mean, row->p50, row->p90, row->p99, row->max};
    fprintf(out, "  %-20s", name);
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        char value[chart_value_size];
        chart_format(CHART_MS, values[i], value);
        fprintf(out, "%12s", value);
    }
    fputc('\n', out);
}

static void write_errors(const struct drive_tally *tally, FILE *out)
{
    for (enum drive_error error = DRIVE_FINE + 1; error < drive_error_count; error++) {
        if (tally->errors[error] == 0) {
            continue;
        }
        fprintf(out, "  %-20s%" PRIu64 " (%s", drive_error_name(error), tally->errors[error],
                drive_error_meaning(error));
        for (uint32_t i = 0; error == DRIVE_STATUS && i < drive_status_max; i++) {
            if (tally->statuses[i] > 0) {
                fprintf(out, "; %u: %" PRIu64, i, tally->statuses[i]);
            }
        }
        fputs(")\n", out);
    }
}

static void result_write_times(const struct drive_result *result, FILE *out)
{
    struct distribution gaps = result_spread(&result->tally->gaps);

    fprintf(out, "  %-20s%12s%12s%12s%12s%12s\n", "", "mean", "p50", "p90", "p99", "max");
    if (!result->flags->no_stream) {
        result_write_row(out, "first token", &result->figures.ttft);
        result_write_row(out, "between tokens", &gaps);
        result_write_row(out, "per token", &result->figures.tpot);
    }
    result_write_row(out, "whole response", &result->figures.e2e);
}

static void write_rates(const struct drive_result *result, FILE *out)
{
    const struct figures *figures = &result->figures;
    const struct drive_tally *tally = result->tally;

    fprintf(out, "  %-20s%u in %.1f s, %.2f/s; %" PRIu64 " failed", "requests",
            figures->request_count, figures->span_s, figures->requests_per_s, tally->error_count);
    if (tally->done > tally->counted) {
        fprintf(out, "; %" PRIu64 " more to warm up", tally->done - tally->counted);
    }
    if (tally->cut > 0) {
        fprintf(out, "; %" PRIu64 " cut off at the end", tally->cut);
    }
    fprintf(out, "\n  %-20s%.0f tokens/s\n", "output", figures->output_per_s);
    if (tally->knows_cached) {
        fprintf(out, "  %-20s%.1f%% of the tokens of prompts\n", "cached", figures->hit_rate * 100);
    }
    if (!result->flags->no_stream) {
        fprintf(out, "  %-20s%.1f%% with a first token within 1 s and 50 ms per token\n", "goodput",
                figures->goodput * 100);
    }
    if (tally->backend_count > 0) {
        fprintf(out, "  %-20s%u, the busiest with %.2f times the mean\n", "backends",
                tally->backend_count, figures->balance);
    }
}

void drive_result_write_table(const struct drive_result *result, FILE *out)
{
    struct distribution late = result_spread(&result->tally->late);
    const char *doubt = drive_result_doubt(result);

    fprintf(out, "%s%s%s at %s, model %s\n\n",
            result->flags->label != NULL ? result->flags->label : "",
            result->flags->label != NULL ? ": " : "", result->workload, result->flags->url,
            result->flags->model);
    if (result->figures.request_count > 0) {
        result_write_times(result, out);
        fputc('\n', out);
    }
    write_rates(result, out);
    fprintf(out,
            "  %-20ssent %.1f ms late (p50), %.1f ms (p99), %.1f ms at most; %u in flight at most "
            "over %" PRIu64 " connections; %.0f%% of a processor\n",
            "generator", late.p50, late.p99, late.max, result->counts.in_flight_max,
            result->counts.connections, cpu_share(result) * 100);
    write_errors(result->tally, out);
    if (result->was_interrupted) {
        fputs("\nInterrupted: these are the figures so far.\n", out);
    }
    if (doubt != NULL) {
        fprintf(out, "\nDO NOT TRUST THESE TIMES: %s.\n", doubt);
    }
}

static void result_put_known(struct json_writer *json, const char *name, double value,
                             bool is_known)
{
    json_break_line(json, 2);
    json_put_number(json, name, is_known ? value : NAN, 6);
}

static void result_put_spread(struct json_writer *json, const char *name,
                              const struct distribution *row, bool is_known)
{
    json_break_line(json, 2);
    if (!is_known) {
        json_put_null(json, name);
        return;
    }
    json_begin_object(json, name);
    json_put_fixed(json, "mean", row->mean, 4);
    json_put_fixed(json, "p50", row->p50, 4);
    json_put_fixed(json, "p90", row->p90, 4);
    json_put_fixed(json, "p99", row->p99, 4);
    json_put_fixed(json, "max", row->max, 4);
    json_end(json);
}

static void result_put_asked(struct json_writer *json, const struct drive_result *result)
{
    json_break_line(json, 2);
    json_put_str(json, "label", result->flags->label);
    json_put_u64(json, "started_at_ms", result->started_at_ms);
    json_break_line(json, 2);
    json_put_str(json, "url", result->flags->url);
    json_put_str(json, "model", result->flags->model);
    json_put_str(json, "api", drive_apis[result->flags->api].name);
    json_put_str(json, "workload", result->workload);
    json_break_line(json, 2);
    json_put_bool(json, "stream", !result->flags->no_stream);
    json_put_bool(json, "ignore_eos", !result->flags->no_ignore_eos);
    json_put_bool(json, "sessions", result->flags->sessions);
    result_put_known(json, "rate", result->flags->rate, result->flags->rate > 0);
    result_put_known(json, "users", result->flags->users, result->flags->users > 0);
    result_put_known(json, "share", result->flags->share, result->flags->share > 0);
    result_put_known(json, "duration_s", result->flags->duration, result->flags->duration > 0);
    result_put_known(json, "timeout_s", result->flags->timeout, true);
    result_put_known(json, "warm_up_s", result->warm_up_s, true);
    json_break_line(json, 2);
    json_put_u64(json, "warm_up_requests", result->warm_up_requests);
    json_put_u64(json, "request_limit", result->request_limit);
    json_put_u64(json, "seed", result->flags->seed);
    json_put_u64(json, "connections_max", result->connections_max);
}

static void result_put_counts(struct json_writer *json, const struct drive_result *result)
{
    const struct drive_tally *tally = result->tally;

    json_break_line(json, 2);
    json_put_fixed(json, "elapsed_s", result->elapsed_s, 3);
    json_put_bool(json, "was_interrupted", result->was_interrupted);
    json_break_line(json, 2);
    json_begin_object(json, "requests");
    json_put_u64(json, "sent", tally->sent);
    json_put_u64(json, "ended", tally->done);
    json_put_u64(json, "counted", tally->counted);
    json_put_u64(json, "succeeded", tally->sample_count);
    json_put_u64(json, "failed", tally->error_count);
    json_put_u64(json, "cut", tally->cut);
    json_end(json);
    json_break_line(json, 2);
    json_begin_object(json, "errors");
    for (enum drive_error error = DRIVE_FINE + 1; error < drive_error_count; error++) {
        json_put_u64(json, drive_error_name(error), tally->errors[error]);
    }
    json_end(json);
    json_break_line(json, 2);
    json_begin_object(json, "statuses");
    for (uint32_t i = 0; i < drive_status_max; i++) {
        if (tally->statuses[i] > 0) {
            char status[16];
            snprintf(status, sizeof(status), "%u", i);
            json_put_u64(json, status, tally->statuses[i]);
        }
    }
    json_end(json);
}

static void result_put_backends(struct json_file *file, const struct drive_tally *tally)
{
    struct json_writer *json = &file->json;

    json_break_line(json, 2);
    json_begin_array(json, "backends");
    for (uint32_t i = 0; i < tally->backend_count; i++) {
        const struct drive_backend *backend = &tally->backends[i];
        json_break_line(json, 4);
        json_begin_object(json, NULL);
        json_put_foreign(json, "name", slice_str(backend->name));
        json_put_u64(json, "requests", backend->requests);
        json_put_u64(json, "prompt_tokens", backend->prompt_tokens);
        json_put_u64(json, "cached_tokens", backend->cached_tokens);
        json_put_u64(json, "output_tokens", backend->output_tokens);
        json_end(json);
        json_file_flush(file);
    }
    json_end(json);
}

static void result_put_generator(struct json_writer *json, const struct drive_result *result)
{
    struct distribution late = result_spread(&result->tally->late);

    result_put_spread(json, "late_ms", &late, true);
    json_break_line(json, 2);
    json_begin_object(json, "generator");
    json_put_u64(json, "in_flight_max", result->counts.in_flight_max);
    json_put_u64(json, "connections", result->counts.connections);
    json_put_u64(json, "stale", result->counts.stale);
    json_put_fixed(json, "cpu_share", cpu_share(result), 3);
    json_put_str(json, "doubt", drive_result_doubt(result));
    json_end(json);
}

void drive_result_write_json(const struct drive_result *result, FILE *out)
{
    const struct figures *figures = &result->figures;
    const struct drive_tally *tally = result->tally;
    struct distribution gaps = result_spread(&tally->gaps);
    bool has_any = figures->request_count > 0;
    bool has_first = has_any && !result->flags->no_stream;
    struct json_file file;
    struct json_writer *json = &file.json;

    json_file_open(&file, out);
    json_begin_object(json, NULL);
    result_put_asked(json, result);
    result_put_counts(json, result);
    json_file_flush(&file);
    result_put_known(json, "span_s", figures->span_s, has_any);
    result_put_known(json, "requests_per_s", figures->requests_per_s, has_any);
    result_put_known(json, "output_tokens_per_s", figures->output_per_s, has_any);
    result_put_spread(json, "ttft_ms", &figures->ttft, has_first);
    result_put_spread(json, "itl_ms", &gaps, gaps.max > 0);
    result_put_spread(json, "tpot_ms", &figures->tpot, has_first);
    result_put_spread(json, "e2e_ms", &figures->e2e, has_any);
    json_break_line(json, 2);
    json_begin_array(json, "ttft_percentiles_ms");
    for (int i = 0; has_first && i < figure_curve_points; i++) {
        json_put_fixed(json, NULL, figures->ttft_curve[i], 3);
    }
    json_end(json);
    result_put_known(json, "hit_rate", figures->hit_rate, has_any && tally->knows_cached);
    result_put_known(json, "balance", figures->balance, tally->backend_count > 0);
    result_put_known(json, "request_balance", figures->request_balance, tally->backend_count > 0);
    result_put_known(json, "goodput", figures->goodput, has_first);
    result_put_backends(&file, tally);
    result_put_generator(json, result);
    json_break_line(json, 0);
    json_end(json);
    json_file_close(&file);
}
