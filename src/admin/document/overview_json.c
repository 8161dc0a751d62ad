// SPDX-License-Identifier: Apache-2.0

#include "admin/document/overview_json.h"

#include "admin/admin.h"
#include "admin/document/backend_json.h"
#include "admin/document/cluster_json.h"
#include "base/base.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"

#include <math.h>
#include <stdlib.h>

enum {
    window_s = 60, // shown before any second has passed
    prefix_max = 20,
    figure_digits = 6,
};

// The last minute of one backend.
struct backend_recent {
    bool is_known;
    struct chronicle_figures figures;
};

// Figures of the chronicle, copied while its lock is held.
struct snapshot {
    bool is_kept; // false without a scribe: all the rest is empty
    struct chronicle_figures recent;
    struct chronicle_figures total;
    struct scribe_totals scribe;
    struct chronicle_point *points;
    uint32_t point_count;
    struct chronicle_prefix prefixes[prefix_max];
    uint32_t prefix_count;
    struct backend_recent *backends; // in the fleet's order
};

static double overview_share(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

// NaN before any time has passed.
static double overview_rate(uint64_t count, const struct chronicle_figures *figures)
{
    return overview_share((double)count, figures->span_s);
}

static double overview_hit_rate(const struct chronicle_figures *figures)
{
    return overview_share((double)figures->cached_tokens, (double)figures->told_prompt_tokens);
}

static double overview_shadow_hit_rate(const struct chronicle_figures *figures)
{
    return overview_share(figures->shadow_cached_tokens, (double)figures->told_prompt_tokens);
}

static uint32_t overview_count_backends(const struct fleet *fleet)
{
    uint32_t count = 0;
    while (fleet_at(fleet, count) != NULL) {
        count++;
    }
    return count;
}

static void snapshot_close(struct snapshot *snapshot)
{
    free(snapshot->backends);
    free(snapshot->points);
}

// False, with nothing open: memory is short.
static bool snapshot_open(struct snapshot *snapshot, const struct admin_options *options,
                          const struct overview_request *request)
{
    struct scribe *scribe = admin_scribe(options);
    uint32_t backend_count = overview_count_backends(options->fleet);

    *snapshot = (struct snapshot){.is_kept = scribe != NULL};
    snapshot->backends = calloc(backend_count + 1, sizeof(*snapshot->backends));
    snapshot->points = malloc(chronicle_point_max * sizeof(*snapshot->points));
    if (snapshot->backends == NULL || snapshot->points == NULL) {
        snapshot_close(snapshot);
        return false;
    }
    if (scribe == NULL) {
        return true;
    }
    const struct chronicle *chronicle = scribe_lock(scribe);
    chronicle_recent(chronicle, &snapshot->recent);
    chronicle_total(chronicle, &snapshot->total);
    snapshot->point_count =
        chronicle_points(chronicle, request->since_ms, snapshot->points, chronicle_point_max);
    snapshot->prefix_count = chronicle_prefixes(chronicle, snapshot->prefixes, prefix_max);
    for (uint32_t i = 0; i < backend_count; i++) {
        struct backend_recent *recent = &snapshot->backends[i];
        const struct backend *backend = fleet_at(options->fleet, i);
        recent->is_known =
            chronicle_backend(chronicle, backend->slot, backend->id, &recent->figures);
    }
    scribe_unlock(scribe);
    scribe_totals(scribe, &snapshot->scribe);
    return true;
}

static void overview_put_figure(struct json_writer *json, const char *key, double number)
{
    json_put_number(json, key, number, figure_digits);
}

// Pools may have policies of their own.
static void put_policies(const struct config *config, struct json_writer *json)
{
    json_begin_string(json, "policy");
    for (uint32_t i = 0; i < config->pool_count; i++) {
        bool is_new = true;
        for (uint32_t j = 0; j < i; j++) {
            is_new = is_new && strcmp(config->pools[i].policy, config->pools[j].policy) != 0;
        }
        if (is_new) {
            text_add_str(json->out, i > 0 ? ", " : "");
            text_add_str(json->out, config->pools[i].policy);
        }
    }
    json_end_string(json);
}

static void put_price(const struct config *config, struct json_writer *json)
{
    uint32_t cents = config->savings.gpu_hour_cents;

    json_begin_object(json, "price");
    overview_put_figure(json, "gpu_hour", cents > 0 ? cents / 100.0 : (double)NAN);
    json_put_str(json, "currency", config->savings.currency);
    json_put_u64(json, "gpus", config->savings.gpus);
    json_end(json);
}

// A saved second of prefill saves that second on each GPU of the backend.
static double money_of(const struct config *config, double saved_s)
{
    uint32_t cents = config->savings.gpu_hour_cents;
    return cents > 0 ? saved_s / 3600 * config->savings.gpus * cents / 100 : (double)NAN;
}

static uint64_t overview_queued_tokens(const struct fleet *fleet, uint64_t now_ms)
{
    const struct backend *backend;
    uint64_t sum = 0;

    for (uint32_t i = 0; (backend = fleet_at(fleet, i)) != NULL; i++) {
        struct load_view load;
        load_read(&backend->load, now_ms, &load);
        sum += load.queued_tokens;
    }
    return sum;
}

static void put_overview_totals(const struct admin_options *options,
                                const struct overview_request *request,
                                const struct snapshot *snapshot, struct json_writer *json)
{
    const struct chronicle_figures *total = &snapshot->total;
    bool is_kept = snapshot->is_kept;
    double unknown = (double)NAN;
    double over = total->saved_s - total->shadow_saved_s;
    struct proxy_totals proxy = {0};

    if (*options->proxy != NULL) {
        proxy_totals(*options->proxy, &proxy);
    }
    json_begin_object(json, "totals");
    json_put_u64(json, "requests", proxy.request_count);
    json_put_known(json, "failures", is_kept, total->failures);
    json_put_u64(json, "retries", proxy.retry_count);
    json_put_u64(json, "in_flight", proxy.in_flight);
    json_put_u64(json, "connections", proxy.connection_count);
    json_put_u64(json, "queued_tokens", overview_queued_tokens(options->fleet, request->now_ms));
    json_put_known(json, "prompt_tokens", is_kept, total->prompt_tokens);
    json_put_known(json, "cached_tokens", is_kept, total->cached_tokens);
    json_put_known(json, "told_prompt_tokens", is_kept, total->told_prompt_tokens);
    json_put_known(json, "output_tokens", is_kept, total->output_tokens);
    overview_put_figure(json, "saved_s", is_kept ? total->saved_s : unknown);
    overview_put_figure(json, "round_robin_saved_s", is_kept ? total->shadow_saved_s : unknown);
    overview_put_figure(json, "saved_money",
                        is_kept ? money_of(*options->config, total->saved_s) : unknown);
    overview_put_figure(json, "over_round_robin_money",
                        is_kept ? money_of(*options->config, over) : unknown);
    json_put_known(json, "lost_receipts", is_kept, snapshot->scribe.lost);
    json_end(json);
}

static void put_percentiles(struct json_writer *json, const char *key, bool is_kept,
                            const double values[chronicle_percentile_count])
{
    static const char *const names[chronicle_percentile_count] = {"p50", "p95", "p99"};

    json_begin_object(json, key);
    for (int i = 0; i < chronicle_percentile_count; i++) {
        overview_put_figure(json, names[i], is_kept ? values[i] : (double)NAN);
    }
    json_end(json);
}

static void put_overview_recent(const struct snapshot *snapshot, struct json_writer *json)
{
    const struct chronicle_figures *recent = &snapshot->recent;

    json_begin_object(json, "recent");
    overview_put_figure(json, "window_s", recent->span_s > 0 ? recent->span_s : window_s);
    overview_put_figure(json, "requests_per_s", overview_rate(recent->requests, recent));
    overview_put_figure(json, "failures_per_s", overview_rate(recent->failures, recent));
    overview_put_figure(json, "output_tokens_per_s", overview_rate(recent->output_tokens, recent));
    overview_put_figure(json, "prompt_tokens_per_s", overview_rate(recent->prompt_tokens, recent));
    overview_put_figure(json, "hit_rate", overview_hit_rate(recent));
    overview_put_figure(json, "round_robin_hit_rate", overview_shadow_hit_rate(recent));
    put_percentiles(json, "ttft_ms", snapshot->is_kept, recent->ttft_ms);
    put_percentiles(json, "round_robin_ttft_ms", snapshot->is_kept, recent->shadow_ttft_ms);
    json_end(json);
}

static void put_overview_load(const struct backend *backend, uint64_t now_ms,
                              struct json_writer *json)
{
    struct load_view load;

    load_read(&backend->load, now_ms, &load);
    json_put_u64(json, "queued_tokens", load.queued_tokens);
    overview_put_figure(json, "kv_usage", load.kv_usage >= 0 ? (double)load.kv_usage : (double)NAN);
    overview_put_figure(json, "prefill_tokens_per_s",
                        load.speed_is_learned ? 1000 / (double)load.prefill_ms : (double)NAN);
}

static void put_backend_recent(const struct snapshot *snapshot, uint32_t i,
                               struct json_writer *json)
{
    const struct backend_recent *recent = &snapshot->backends[i];
    const struct chronicle_figures *figures = &recent->figures;
    double unknown = (double)NAN;
    // A backend that the chronicle does not know has had no requests.
    double idle = snapshot->is_kept ? 0 : unknown;

    overview_put_figure(json, "requests_per_s",
                        recent->is_known ? overview_rate(figures->requests, figures) : idle);
    overview_put_figure(json, "hit_rate", recent->is_known ? overview_hit_rate(figures) : unknown);
    overview_put_figure(json, "ttft_p50_ms", recent->is_known ? figures->ttft_ms[0] : unknown);
    overview_put_figure(json, "ttft_p95_ms", recent->is_known ? figures->ttft_ms[1] : unknown);
}

static void put_overview_backend(const struct admin_options *options, const struct backend *backend,
                                 uint64_t now_ms, struct json_writer *json)
{
    backend_json_put_summary(options, backend, now_ms, json);
    json_put_bool(json, "draining", fleet_member(options->fleet, backend)->draining);
    json_put_str(json, "events", backend_events_text(backend));
    put_overview_load(backend, now_ms, json);
}

static void put_overview_backends(const struct admin_options *options,
                                  const struct snapshot *snapshot, uint64_t now_ms,
                                  struct json_writer *json)
{
    const struct backend *backend;

    json_begin_array(json, "backends");
    for (uint32_t i = 0; (backend = fleet_at(options->fleet, i)) != NULL; i++) {
        json_begin_object(json, NULL);
        put_overview_backend(options, backend, now_ms, json);
        put_backend_recent(snapshot, i, json);
        json_end(json);
    }
    json_end(json);
}

// The lines of the charts: one array of the series each.
static const char *const series_keys[] = {
    "requests_per_s",
    "failures_per_s",
    "hit_rate",
    "round_robin_hit_rate",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "round_robin_ttft_p50_ms",
    "round_robin_ttft_p95_ms",
    "saved_s",
    "round_robin_saved_s",
};

// The value of a point on the line `key`.
static double series_value(const struct chronicle_figures *figures, size_t key)
{
    const double values[ARRAY_COUNT(series_keys)] = {
        overview_rate(figures->requests, figures),
        overview_rate(figures->failures, figures),
        overview_hit_rate(figures),
        overview_shadow_hit_rate(figures),
        figures->ttft_ms[0],
        figures->ttft_ms[1],
        figures->shadow_ttft_ms[0],
        figures->shadow_ttft_ms[1],
        figures->saved_s,
        figures->shadow_saved_s,
    };
    return values[key];
}

static void put_series(const struct snapshot *snapshot, struct json_writer *json)
{
    json_begin_object(json, "series");
    json_put_u64(json, "step_s", chronicle_step_ms / 1000);
    json_begin_array(json, "time_ms");
    for (uint32_t j = 0; j < snapshot->point_count; j++) {
        json_put_u64(json, NULL, snapshot->points[j].wall_ms);
    }
    json_end(json);
    for (size_t i = 0; i < ARRAY_COUNT(series_keys); i++) {
        json_begin_array(json, series_keys[i]);
        for (uint32_t j = 0; j < snapshot->point_count; j++) {
            overview_put_figure(json, NULL, series_value(&snapshot->points[j].figures, i));
        }
        json_end(json);
    }
    json_end(json);
}

static void put_prefix(const struct fleet *fleet, const struct chronicle_prefix *prefix,
                       struct json_writer *json)
{
    uint32_t listed =
        prefix->holder_count < chronicle_holder_max ? prefix->holder_count : chronicle_holder_max;

    json_begin_object(json, NULL);
    json_put_format(json, "prefix", "%016lx", (unsigned long)prefix->key);
    json_put_u64(json, "tokens", prefix->tokens);
    overview_put_figure(json, "requests", prefix->requests);
    overview_put_figure(json, "share", prefix->share);
    json_put_u64(json, "holder_count", prefix->holder_count);
    json_begin_array(json, "holders");
    for (uint32_t i = 0; i < listed; i++) {
        const struct backend *backend = fleet_find(fleet, prefix->holders[i]);
        if (backend != NULL) {
            json_begin_object(json, NULL);
            json_put_u64(json, "id", backend->id);
            json_put_str(json, "url", backend->url);
            json_end(json);
        }
    }
    json_end(json);
    json_end(json);
}

bool overview_json_put(const struct admin_options *options, const struct overview_request *request,
                       uint64_t *last_ms, struct json_writer *json)
{
    const struct config *config = *options->config;
    struct snapshot snapshot;

    if (!snapshot_open(&snapshot, options, request)) {
        return false;
    }
    json_begin_object(json, NULL);
    json_put_str(json, "version", WARMPATH_VERSION);
    json_put_u64(json, "now_ms", request->wall_ms);
    json_put_u64(json, "uptime_s", request->uptime_ms / 1000);
    put_policies(config, json);
    put_price(config, json);
    put_overview_totals(options, request, &snapshot, json);
    put_overview_recent(&snapshot, json);
    cluster_json_put_own(options, json);
    put_overview_backends(options, &snapshot, request->now_ms, json);
    put_series(&snapshot, json);
    json_begin_array(json, "hottest");
    for (uint32_t i = 0; i < snapshot.prefix_count; i++) {
        put_prefix(options->fleet, &snapshot.prefixes[i], json);
    }
    json_end(json);
    json_end(json);
    *last_ms = snapshot.point_count > 0 ? snapshot.points[snapshot.point_count - 1].wall_ms
                                        : request->since_ms;
    snapshot_close(&snapshot);
    return true;
}
