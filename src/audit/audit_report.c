// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_report.h"

#include "base/base.h"
#include "lab/json_file.h"
#include "sim/engine/profile.h"

#include <math.h>

enum { cell_size = 32 };

struct audit_cell {
    char text[cell_size];
};

// 950, 12.5 k, 3.20 M; - when it is not known.
static struct audit_cell count_cell(double value)
{
    static const struct {
        double from;
        const char *unit;
    } scales[] = {{1e9, " G"}, {1e6, " M"}, {1e4, " k"}};
    struct audit_cell cell = {"-"};
    if (value < 0) {
        return cell;
    }
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        if (value >= scales[i].from) {
            double unit = i == 2 ? 1e3 : scales[i].from;
            snprintf(cell.text, cell_size, "%.4g%s", value / unit, scales[i].unit);
            return cell;
        }
    }
    snprintf(cell.text, cell_size, "%.0f", value);
    return cell;
}

static struct audit_cell percent_cell(double share)
{
    struct audit_cell cell = {"-"};
    if (share >= 0) {
        snprintf(cell.text, cell_size, "%.1f%%", 100 * share);
    }
    return cell;
}

static struct audit_cell time_cell(double seconds, const char *mark)
{
    struct audit_cell cell = {"-"};
    if (seconds >= 1) {
        snprintf(cell.text, cell_size, "%s%.2f s", mark, seconds);
    } else if (seconds >= 0) {
        snprintf(cell.text, cell_size, "%s%.0f ms", mark, 1000 * seconds);
    }
    return cell;
}

static struct audit_cell money_cell(double dollars)
{
    struct audit_cell cell;
    snprintf(cell.text, cell_size, dollars >= 1 ? "$%.2f" : "$%.2g", dollars);
    return cell;
}

static struct audit_cell spread_cell(const struct audit_figures *figures)
{
    struct audit_cell cell = {"-"};
    if (figures->ttft_p50_s > 0) {
        snprintf(cell.text, cell_size, "%.1f", figures->ttft_p99_s / figures->ttft_p50_s);
    }
    return cell;
}

static void audit_write_row(FILE *out, const char *name, const char *engine,
                            const struct audit_figures *figures)
{
    fprintf(out, "%-36s %-12s %9s %9s %9s %8s %8s %9s %7s\n", name, engine,
            count_cell(figures->requests).text, count_cell(figures->prompt_tokens).text,
            count_cell(figures->computed_tokens).text, percent_cell(figures->hit_rate).text,
            time_cell(figures->ttft_p50_s, "").text,
            time_cell(figures->ttft_p99_s, figures->ttft_is_beyond ? ">" : "").text,
            spread_cell(figures).text);
}

static void audit_write_head(FILE *out, const struct audit_report *report)
{
    fprintf(out, "%s\n%-36s %-12s %9s %9s %9s %8s %8s %9s %7s\n", report->title, "replica",
            "engine", "requests", "prompt", "computed", "hits", "TTFT p50", "p99", "p99/p50");
}

static void write_fleet_row(FILE *out, const struct audit_report *report)
{
    char name[64];
    snprintf(name, sizeof(name), "fleet: %u of %u replicas", report->result->read_count,
             report->result->replica_count);
    audit_write_row(out, name, "", &report->result->fleet);
}

void audit_report_fleet(FILE *out, const struct audit_report *report)
{
    audit_write_head(out, report);
    write_fleet_row(out, report);
}

void audit_report_table(FILE *out, const struct audit_report *report)
{
    audit_write_head(out, report);
    for (uint32_t i = 0; i < report->replica_count; i++) {
        const struct audit_replica *replica = &report->replicas[i];
        struct audit_figures figures;
        if (replica->why != NULL) {
            fprintf(out, "%-36s not read: %s\n", replica->name, replica->why);
            continue;
        }
        audit_figures_of(replica, &figures);
        audit_write_row(out, replica->name, engine_kind_name(replica->done.kind), &figures);
        if (replica->restarted) {
            fprintf(out, "%-36s it has restarted; the figures are those since\n", "");
        }
    }
    write_fleet_row(out, report);
}

static void write_waste(FILE *out, const struct audit_result *result)
{
    if (result->wasted_tokens < 0) {
        fprintf(out, "wasted prefill: not known\n");
        return;
    }
    fprintf(out, "wasted prefill, estimated: %s tokens", count_cell(result->wasted_tokens).text);
    if (result->wasted_gpu_hours >= 0) {
        fprintf(out, ", %.3g GPU-hours, %s", result->wasted_gpu_hours,
                money_cell(result->wasted_money).text);
    }
    if (result->wasted_money_month >= 0) {
        fprintf(out, "; at this rate %s of the GPUs' time and $%.0f a month",
                percent_cell(result->wasted_share).text, result->wasted_money_month);
    }
    fprintf(out, "\n");
}

static void write_achievable(FILE *out, const struct audit_result *result)
{
    if (result->achievable < 0) {
        return;
    }
    fprintf(out,
            "  %s of tokens could be found in caches: ", percent_cell(result->achievable).text);
    if (result->achievable_is_guess) {
        fprintf(out,
                "a guess, %u replicas times %s as if prompts came to them at random, at most 80%% "
                "(--achievable)\n",
                result->spread_count, percent_cell(result->fleet.hit_rate).text);
    } else {
        fprintf(out, "as you said\n");
    }
    if (result->fleet.hit_rate == 0) {
        fprintf(out, "  no token was found at all: prefix caching may be off, or prompts share "
                     "nothing\n");
    }
}

static void write_speed(FILE *out, const struct audit_report *report)
{
    const struct audit_result *result = report->result;
    if (result->token_s < 0) {
        fprintf(out, "  no engine says how long its prefills take: name a --model for GPU-hours\n");
        return;
    }
    fprintf(out, "  1,000 tokens of prompts take %.3g s: ", 1000 * result->token_s);
    if (report->terms->model != NULL) {
        fprintf(out, "%s on one H200, at the mean length of a prompt\n",
                report->terms->model->name);
    } else if (result->token_is_capped) {
        fprintf(out, "more than all of the time, as engines count overlapping requests, so this is "
                     "all of it and too high\n");
    } else {
        fprintf(out, "as the engines say; requests in one batch overlap, so it may be too high\n");
    }
}

static void write_rule(FILE *out, const char *title, const struct audit_rule *rule)
{
    fprintf(out, "%s: %s. %s\n  rule: %s\n", title, rule->name, rule->sentence, rule->condition);
}

void audit_report_verdict(FILE *out, const struct audit_report *report)
{
    const struct audit_result *result = report->result;
    fprintf(out, "\n");
    write_waste(out, result);
    write_rule(out, "verdict", result->verdict);
    if (result->also != NULL) {
        write_rule(out, "also", result->also);
    }
    fprintf(out, "what this rests on\n");
    write_achievable(out, result);
    write_speed(out, report);
    fprintf(out, "  a GPU-hour costs $%.4g; a replica has %.4g GPU%s\n",
            report->terms->gpu_hour_price, report->terms->gpus_per_replica,
            report->terms->gpus_per_replica == 1 ? "" : "s");
    fprintf(out, "  counters do not show prompts: `warmpath sim` on a recorded trace knows more\n");
    if (result->blind_count > 0) {
        fprintf(out, "  %u replicas do not count hits and are left out of the hit rate\n",
                result->blind_count);
    }
}

// Negative: not known.
static void audit_put_known(struct json_writer *json, const char *name, double value)
{
    json_put_number(json, name, value < 0 ? NAN : value, 9);
}

static void audit_put_figures(struct json_writer *json, const struct audit_figures *figures)
{
    audit_put_known(json, "requests", figures->requests);
    audit_put_known(json, "prompt_tokens", figures->prompt_tokens);
    audit_put_known(json, "computed_tokens", figures->computed_tokens);
    audit_put_known(json, "hit_rate", figures->hit_rate);
    audit_put_known(json, "ttft_p50_s", figures->ttft_p50_s);
    audit_put_known(json, "ttft_p99_s", figures->ttft_p99_s);
    json_put_bool(json, "ttft_p99_is_beyond", figures->ttft_is_beyond);
}

static void audit_put_replica(struct json_writer *json, const struct audit_replica *replica)
{
    struct audit_figures figures;
    json_break_line(json, 4);
    json_begin_object(json, NULL);
    json_put_foreign(json, "replica", slice_str(replica->name));
    json_put_str(json, "error", replica->why);
    if (replica->why == NULL) {
        json_put_str(json, "engine", engine_kind_name(replica->done.kind));
        json_put_bool(json, "restarted", replica->restarted);
        audit_put_known(json, "seconds", replica->span_s);
        audit_figures_of(replica, &figures);
        audit_put_figures(json, &figures);
    }
    json_end(json);
}

static void audit_put_rule(struct json_writer *json, const char *name,
                           const struct audit_rule *rule)
{
    json_break_line(json, 2);
    if (rule == NULL) {
        json_put_null(json, name);
        return;
    }
    json_begin_object(json, name);
    json_put_str(json, "name", rule->name);
    json_put_str(json, "rule", rule->condition);
    json_put_str(json, "sentence", rule->sentence);
    json_end(json);
}

static void audit_put_waste(struct json_writer *json, const struct audit_report *report)
{
    const struct audit_result *result = report->result;
    json_break_line(json, 2);
    json_begin_object(json, "waste");
    json_put_bool(json, "achievable_is_guess", result->achievable_is_guess);
    audit_put_known(json, "achievable_hit_rate", result->achievable);
    audit_put_known(json, "seconds_per_token", result->token_s);
    audit_put_known(json, "gpu_hour_price", report->terms->gpu_hour_price);
    audit_put_known(json, "gpus_per_replica", report->terms->gpus_per_replica);
    audit_put_known(json, "tokens", result->wasted_tokens);
    audit_put_known(json, "gpu_hours", result->wasted_gpu_hours);
    audit_put_known(json, "share", result->wasted_share);
    audit_put_known(json, "money", result->wasted_money);
    audit_put_known(json, "money_month", result->wasted_money_month);
    json_end(json);
}

void audit_report_json(FILE *out, const struct audit_report *report)
{
    const struct audit_result *result = report->result;
    struct json_file file;
    struct json_writer *json = &file.json;

    json_file_open(&file, out);
    json_begin_object(json, NULL);
    json_break_line(json, 2);
    json_put_str(json, "span", report->title);
    json_break_line(json, 2);
    json_begin_array(json, "replicas");
    for (uint32_t i = 0; i < report->replica_count; i++) {
        audit_put_replica(json, &report->replicas[i]);
        json_file_flush(&file);
    }
    json_break_line(json, 2);
    json_end(json);
    json_break_line(json, 2);
    json_begin_object(json, "fleet");
    json_put_u64(json, "replicas", result->replica_count);
    json_put_u64(json, "read", result->read_count);
    audit_put_known(json, "seconds", result->span_s);
    audit_put_figures(json, &result->fleet);
    json_end(json);
    audit_put_waste(json, report);
    audit_put_rule(json, "verdict", result->verdict);
    audit_put_rule(json, "also", result->also);
    json_break_line(json, 0);
    json_end(json);
    json_file_close(&file);
}
