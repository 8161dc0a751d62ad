// SPDX-License-Identifier: Apache-2.0
//
// metric_manual.h -- docs/metrics.md, from the rows of metrics.def.
#pragma once

#include "base/base.h"
#include "base/text.h"
#include "metrics/metric_table.h"
#include "metrics/receipt.h"

static const char manual_preface[] =
    "# Metrics\n"
    "\n"
    "`GET /metrics` of the admin API, with its token, or of `metrics.listen`, which needs no token "
    "and serves nothing else. The format is Prometheus text, 0.0.4. Each worker has its own "
    "counters, "
    "and a scrape adds them up without stopping a request. Counters begin at zero with the "
    "process, "
    "and those of a backend when it joins.\n"
    "\n"
    "```yaml\n"
    "scrape_configs:\n"
    "  - job_name: warmpath\n"
    "    authorization: {credentials_file: /etc/prometheus/warmpath.token}   # not with "
    "metrics.listen\n"
    "    static_configs: [{targets: ['router:9090']}]\n"
    "```\n"
    "\n"
    "Times are in seconds and sizes in bytes. Histograms have many buckets, so that percentiles "
    "are "
    "accurate to a few percent: six per factor of two from 1 ms to 17 minutes for requests, four "
    "from 0.1 ms to 13 s for tokens, two from 0.25 µs to 4 s for stages. They are by model and "
    "never "
    "by backend: a thousand backends would be too many series.\n"
    "\n"
    "## Queries\n"
    "\n";

static const struct {
    const char *question;
    const char *query;
} manual_queries[] = {
    {"Requests per second, by outcome", "sum by (outcome) (rate(warmpath_requests_total[1m]))"},
    {"Share of requests that failed",
     "sum(rate(warmpath_requests_total{outcome=~\"busy|failed|broken|refused\"}[5m]))\n"
     "  / sum(rate(warmpath_requests_total[5m]))"},
    {"95th percentile of the time to the first token, by model",
     "histogram_quantile(0.95,\n"
     "  sum by (model, le) (rate(warmpath_time_to_first_token_seconds_bucket[5m])))"},
    {"Mean time to the first token, by backend",
     "rate(warmpath_backend_time_to_first_token_seconds_sum[5m])\n"
     "  / rate(warmpath_backend_time_to_first_token_seconds_count[5m])"},
    {"Hit rate: the share of prompt tokens that engines had cached",
     "sum(rate(warmpath_cached_tokens_total[5m]))\n"
     "  / sum(rate(warmpath_cache_reported_prompt_tokens_total[5m]))"},
    {"Prediction error, as a share of the cached tokens",
     "sum(rate(warmpath_prediction_error_tokens_total[5m]))\n"
     "  / sum(rate(warmpath_cached_tokens_total[5m]))"},
    {"Accelerators saved by caches, on average",
     "sum(rate(warmpath_saved_prefill_seconds_total[5m]))"},
    {"99th percentile of the router's own time, by stage",
     "histogram_quantile(0.99,\n"
     "  sum by (stage, le) (rate(warmpath_routing_stage_seconds_bucket[5m])))"},
    {"Seconds of prefill queued at each backend",
     "warmpath_backend_queued_tokens / warmpath_backend_prefill_tokens_per_second"},
    {"Backends that get no requests", "warmpath_backend_up == 0 or warmpath_backend_draining == 1"},
    {"Backends of each pool that are up",
     "sum by (pool) (warmpath_backend_up * on (backend) group_left (pool) warmpath_backend_info)"},
    {"Gaps in the KV events", "rate(warmpath_events_gaps_total[10m]) > 0"},
    {"Share of attempts on a kept connection",
     "rate(warmpath_upstream_connections_reused_total[5m])\n"
     "  / (rate(warmpath_upstream_connections_reused_total[5m])\n"
     "     + rate(warmpath_upstream_connections_opened_total[5m]))"},
};

static const struct {
    const char *name;
    const char *help;
} manual_outcomes[] = {
#define OUTCOME(id, name, is_failure, help) [RECEIPT_##id] = {name, help},
#include "metrics/outcomes.def"
#undef OUTCOME
};

static const struct {
    const char *name;
    const char *help;
} manual_stages[] = {
#define STAGE(id, name, help) [RECEIPT_STAGE_##id] = {name, help},
#include "metrics/stages.def"
#undef STAGE
};

static void manual_add_queries(struct text *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(manual_queries); i++) {
        text_add_str(out, manual_queries[i].question);
        text_add_str(out, ":\n\n```promql\n");
        text_add_str(out, manual_queries[i].query);
        text_add_str(out, "\n```\n\n");
    }
}

static void manual_add_cells(struct text *out, const char *name, const char *help)
{
    text_add_str(out, "| `");
    text_add_str(out, name);
    text_add_str(out, "` | ");
    text_add_str(out, help);
    text_add_str(out, " |\n");
}

static void manual_add_values(struct text *out)
{
    text_add_str(out,
                 "## Values of labels\n\n`backend` is the URL as the admin API shows it. `code` is "
                 "the `code` of an error response of the router itself; "
                 "[errors.md](errors.md#error-codes) explains each.\n\n"
                 "| `outcome` | |\n|---|---|\n");
    for (size_t i = RECEIPT_RUNNING + 1; i < ARRAY_COUNT(manual_outcomes); i++) {
        manual_add_cells(out, manual_outcomes[i].name, manual_outcomes[i].help);
    }
    text_add_str(out, "\n| `stage` | |\n|---|---|\n");
    for (size_t i = 0; i < ARRAY_COUNT(manual_stages); i++) {
        manual_add_cells(out, manual_stages[i].name, manual_stages[i].help);
    }
}

static void manual_add_row(struct text *out, const struct metric_row *row)
{
    text_add_str(out, "| `");
    text_add_str(out, row->name);
    text_add_str(out, "` | ");
    text_add_str(out, metric_type_name(row->type));
    text_add_str(out, " | ");
    text_add_str(out, row->labels);
    text_add_str(out, " | ");
    text_add_str(out, row->help);
    text_add_str(out, " |\n");
}

static void metric_manual_write(struct text *out)
{
    text_add_str(out, manual_preface);
    manual_add_queries(out);
    manual_add_values(out);
#define GROUP(title, text)                                                                         \
    text_add_str(out, "\n## " title "\n\n" text "\n\n"                                             \
                      "| metric | type | labels | meaning |\n|---|---|---|---|\n");
#define METRIC(id, type, name, labels, decimals, help) manual_add_row(out, metric_row(METRIC_##id));
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
}
