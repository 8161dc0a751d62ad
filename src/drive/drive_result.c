// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_result.h"

#include "base/base.h"
#include "base/text.h"
#include "lab/chart.h"

#include <inttypes.h>

enum { word_size = 1024 };

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

struct distribution drive_result_spread(const struct histogram *times)
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
    double late_ms = drive_result_spread(&result->tally->late).p99;
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
    struct distribution gaps = drive_result_spread(&result->tally->gaps);

    fprintf(out, "  %-20s%12s%12s%12s%12s%12s\n", "", "mean", "p50", "p90", "p99", "max");
    if (result->stream) {
        result_write_row(out, "first token", &result->figures.ttft);
        result_write_row(out, "between tokens", &gaps);
        result_write_row(out, "per token", &result->figures.tpot);
    }
    result_write_row(out, "whole answer", &result->figures.e2e);
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
    if (result->stream) {
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
    struct distribution late = drive_result_spread(&result->tally->late);
    const char *doubt = drive_result_doubt(result);

    fprintf(out, "%s%s%s at %s, model %s\n\n", result->label != NULL ? result->label : "",
            result->label != NULL ? ": " : "", result->workload, result->url, result->model);
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

static void result_write_string(FILE *out, const char *string)
{
    char space[word_size];
    struct text text = text_over(space, sizeof(space));
    if (string == NULL) {
        fputs("null", out);
        return;
    }
    size_t size = strlen(string);
    size = size < word_size / 6 - 1 ? size : word_size / 6 - 1; // each byte may become six
    text_add_json(&text, slice_of(string, size));
    fwrite(space, 1, text.size, out);
}

static void write_member(FILE *out, const char *name, const char *string)
{
    fprintf(out, "  \"%s\": ", name);
    result_write_string(out, string);
    fputs(",\n", out);
}

static void write_spread(FILE *out, const char *name, const struct distribution *row, bool is_known)
{
    if (!is_known) {
        fprintf(out, "  \"%s\": null,\n", name);
        return;
    }
    fprintf(out,
            "  \"%s\": {\"mean\": %.4f, \"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f, "
            "\"max\": %.4f},\n",
            name, row->mean, row->p50, row->p90, row->p99, row->max);
}

static void result_write_number(FILE *out, const char *name, double value, bool is_known)
{
    if (is_known) {
        fprintf(out, "  \"%s\": %.6g,\n", name, value);
    } else {
        fprintf(out, "  \"%s\": null,\n", name);
    }
}

static void write_asked(const struct drive_result *result, FILE *out)
{
    write_member(out, "label", result->label);
    fprintf(out, "  \"started_at_ms\": %" PRIu64 ",\n", result->started_at_ms);
    write_member(out, "url", result->url);
    write_member(out, "model", result->model);
    write_member(out, "api", drive_apis[result->api].name);
    write_member(out, "workload", result->workload);
    fprintf(out, "  \"stream\": %s,\n  \"ignore_eos\": %s,\n  \"sessions\": %s,\n",
            result->stream ? "true" : "false", result->ignore_eos ? "true" : "false",
            result->names_sessions ? "true" : "false");
    result_write_number(out, "rate", result->rate, result->rate > 0);
    result_write_number(out, "users", result->users, result->users > 0);
    result_write_number(out, "share", result->share, result->share > 0);
    result_write_number(out, "duration_s", result->duration_s, result->duration_s > 0);
    result_write_number(out, "timeout_s", result->timeout_s, true);
    result_write_number(out, "warm_up_s", result->warm_up_s, true);
    fprintf(out,
            "  \"warm_up_requests\": %" PRIu64 ",\n  \"request_limit\": %" PRIu64
            ",\n  \"seed\": %" PRIu64 ",\n  \"connections_max\": %u,\n",
            result->warm_up_requests, result->request_limit, result->seed, result->connections_max);
}

static void write_counts(const struct drive_result *result, FILE *out)
{
    const struct drive_tally *tally = result->tally;

    fprintf(
        out,
        "  \"elapsed_s\": %.3f,\n  \"was_interrupted\": %s,\n  \"requests\": {\"sent\": %" PRIu64
        ", \"ended\": %" PRIu64 ", \"counted\": %" PRIu64
        ", \"succeeded\": %u, \"failed\": %" PRIu64 ", \"cut\": %" PRIu64 "},\n",
        result->elapsed_s, result->was_interrupted ? "true" : "false", tally->sent, tally->done,
        tally->counted, tally->sample_count, tally->error_count, tally->cut);
    fputs("  \"errors\": {", out);
    for (enum drive_error error = DRIVE_FINE + 1; error < drive_error_count; error++) {
        fprintf(out, "%s\"%s\": %" PRIu64, error > 1 ? ", " : "", drive_error_name(error),
                tally->errors[error]);
    }
    fputs("},\n  \"statuses\": {", out);
    const char *comma = "";
    for (uint32_t i = 0; i < drive_status_max; i++) {
        if (tally->statuses[i] > 0) {
            fprintf(out, "%s\"%u\": %" PRIu64, comma, i, tally->statuses[i]);
            comma = ", ";
        }
    }
    fputs("},\n", out);
}

static void result_write_backends(const struct drive_tally *tally, FILE *out)
{
    fputs("  \"backends\": [", out);
    for (uint32_t i = 0; i < tally->backend_count; i++) {
        const struct drive_backend *backend = &tally->backends[i];
        fputs(i > 0 ? ",\n    {\"name\": " : "\n    {\"name\": ", out);
        result_write_string(out, backend->name);
        fprintf(out,
                ", \"requests\": %" PRIu64 ", \"prompt_tokens\": %" PRIu64
                ", \"cached_tokens\": %" PRIu64 ", \"output_tokens\": %" PRIu64 "}",
                backend->requests, backend->prompt_tokens, backend->cached_tokens,
                backend->output_tokens);
    }
    fputs(tally->backend_count > 0 ? "\n  ],\n" : "],\n", out);
}

static void write_generator(const struct drive_result *result, FILE *out)
{
    struct distribution late = drive_result_spread(&result->tally->late);

    write_spread(out, "late_ms", &late, true);
    fprintf(out,
            "  \"generator\": {\"in_flight_max\": %u, \"connections\": %" PRIu64
            ", \"stale\": %" PRIu64 ", \"cpu_share\": %.3f, \"doubt\": ",
            result->counts.in_flight_max, result->counts.connections, result->counts.stale,
            cpu_share(result));
    result_write_string(out, drive_result_doubt(result));
    fputs("}\n", out);
}

void drive_result_write_json(const struct drive_result *result, FILE *out)
{
    const struct figures *figures = &result->figures;
    const struct drive_tally *tally = result->tally;
    struct distribution gaps = drive_result_spread(&tally->gaps);
    bool has_any = figures->request_count > 0;
    bool has_first = has_any && result->stream;

    fputs("{\n", out);
    write_asked(result, out);
    write_counts(result, out);
    result_write_number(out, "span_s", figures->span_s, has_any);
    result_write_number(out, "requests_per_s", figures->requests_per_s, has_any);
    result_write_number(out, "output_tokens_per_s", figures->output_per_s, has_any);
    write_spread(out, "ttft_ms", &figures->ttft, has_first);
    write_spread(out, "itl_ms", &gaps, gaps.max > 0);
    write_spread(out, "tpot_ms", &figures->tpot, has_first);
    write_spread(out, "e2e_ms", &figures->e2e, has_any);
    fputs("  \"ttft_percentiles_ms\": [", out);
    for (int i = 0; has_first && i < figure_curve_points; i++) {
        fprintf(out, "%s%.3f", i > 0 ? ", " : "", figures->ttft_curve[i]);
    }
    fputs("],\n", out);
    result_write_number(out, "hit_rate", figures->hit_rate, has_any && tally->knows_cached);
    result_write_number(out, "balance", figures->balance, tally->backend_count > 0);
    result_write_number(out, "request_balance", figures->request_balance, tally->backend_count > 0);
    result_write_number(out, "goodput", figures->goodput, has_first);
    result_write_backends(tally, out);
    write_generator(result, out);
    fputs("}\n", out);
}
