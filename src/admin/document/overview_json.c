// SPDX-License-Identifier: Apache-2.0

#include "admin/document/overview_json.h"

#include "admin/admin.h"
#include "admin/admin_call.h"
#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"

#include <math.h>
#include <stdlib.h>

enum {
    window_s = 60, // of what is recent, about
    prefix_max = 20,
};

// Of one backend, lately.
struct lately {
    bool is_known;
    struct chronicle_figures figures;
};

// What was copied from the scribe.
struct snapshot {
    bool is_kept; // otherwise all of it is empty
    struct chronicle_figures recent;
    struct chronicle_figures total;
    struct scribe_totals scribe;
    struct chronicle_point *points;
    uint32_t point_count;
    struct chronicle_prefix prefixes[prefix_max];
    uint32_t prefix_count;
    struct lately *backends; // in the fleet's order
};

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static double known(double number)
{
    return number >= 0 ? number : (double)NAN;
}

// Null before any time has passed.
static double rate(uint64_t count, const struct chronicle_figures *figures)
{
    return share((double)count, figures->span_s);
}

static double hit_rate(const struct chronicle_figures *figures)
{
    return share((double)figures->cached_tokens, (double)figures->told_prompt_tokens);
}

static double shadow_hit_rate(const struct chronicle_figures *figures)
{
    return share(figures->shadow_cached_tokens, (double)figures->told_prompt_tokens);
}

static uint32_t count_backends(const struct fleet *fleet)
{
    uint32_t count = 0;
    while (fleet_at(fleet, count) != NULL) {
        count++;
    }
    return count;
}

static void snapshot_open(struct snapshot *snapshot, const struct admin_options *options,
                          const struct overview_request *request)
{
    struct scribe *scribe = options->scribe != NULL ? *options->scribe : NULL;
    uint32_t backend_count = count_backends(options->fleet);

    *snapshot = (struct snapshot){.is_kept = scribe != NULL};
    snapshot->backends = calloc(backend_count + 1, sizeof(*snapshot->backends));
    snapshot->points = malloc(chronicle_point_max * sizeof(*snapshot->points));
    ASSERT(snapshot->backends != NULL && snapshot->points != NULL);
    if (scribe == NULL) {
        return;
    }
    const struct chronicle *chronicle = scribe_lock(scribe);
    chronicle_recent(chronicle, &snapshot->recent);
    chronicle_total(chronicle, &snapshot->total);
    snapshot->point_count =
        chronicle_points(chronicle, request->since_ms, snapshot->points, chronicle_point_max);
    snapshot->prefix_count = chronicle_prefixes(chronicle, snapshot->prefixes, prefix_max);
    for (uint32_t i = 0; i < backend_count; i++) {
        struct lately *lately = &snapshot->backends[i];
        lately->is_known =
            chronicle_backend(chronicle, fleet_at(options->fleet, i)->id, &lately->figures);
    }
    scribe_unlock(scribe);
    scribe_totals(scribe, &snapshot->scribe);
}

static void snapshot_close(struct snapshot *snapshot)
{
    free(snapshot->backends);
    free(snapshot->points);
}

// A member with its comma and its key.
static void add_member(struct text *json, const char *key, double number)
{
    text_add_format(json, ",\"%s\":", key);
    admin_add_number(json, number);
}

// Whole, and null where nobody counted.
static void add_count(struct text *json, const char *key, bool is_known, uint64_t count)
{
    text_add_format(json, ",\"%s\":", key);
    if (is_known) {
        text_add_u64(json, count);
    } else {
        text_add_str(json, "null");
    }
}

// Pools may have policies of their own.
static void add_policies(const struct config *config, struct text *json)
{
    char space[512];
    struct text names = text_over(space, sizeof(space));

    for (uint32_t i = 0; i < config->pool_count; i++) {
        bool is_new = true;
        for (uint32_t j = 0; j < i; j++) {
            is_new = is_new && strcmp(config->pools[i].policy, config->pools[j].policy) != 0;
        }
        if (is_new) {
            text_add_str(&names, i > 0 ? ", " : "");
            text_add_str(&names, config->pools[i].policy);
        }
    }
    text_add_str(json, ",\"policy\":");
    text_add_json(json, text_slice(&names));
}

static void add_price(const struct config *config, struct text *json)
{
    uint32_t cents = config->savings.gpu_hour_cents;

    text_add_str(json, ",\"price\":{\"gpu_hour\":");
    admin_add_number(json, cents > 0 ? cents / 100.0 : (double)NAN);
    text_add_str(json, ",\"currency\":");
    text_add_json(json, slice_str(config->savings.currency));
    text_add_format(json, ",\"gpus\":%u}", config->savings.gpus);
}

// A second of prefill that is saved is one of each GPU of the backend.
static double money_of(const struct config *config, double saved_s)
{
    uint32_t cents = config->savings.gpu_hour_cents;
    return cents > 0 ? saved_s / 3600 * config->savings.gpus * cents / 100 : (double)NAN;
}

static uint64_t queued_tokens(const struct fleet *fleet, uint64_t now_ms)
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

static void add_totals(const struct admin_options *options, const struct overview_request *request,
                       const struct snapshot *snapshot, struct text *json)
{
    const struct chronicle_figures *total = &snapshot->total;
    bool is_kept = snapshot->is_kept;
    double unknown = (double)NAN;
    double over = total->saved_s - total->shadow_saved_s;
    struct proxy_totals proxy = {0};

    if (*options->proxy != NULL) {
        proxy_totals(*options->proxy, &proxy);
    }
    text_add_format(json, ",\"totals\":{\"requests\":%lu", (unsigned long)proxy.request_count);
    add_count(json, "failures", is_kept, total->failures);
    add_count(json, "retries", true, proxy.retry_count);
    add_count(json, "in_flight", true, proxy.in_flight);
    add_count(json, "connections", true, proxy.connection_count);
    add_count(json, "queued_tokens", true, queued_tokens(options->fleet, request->now_ms));
    add_count(json, "prompt_tokens", is_kept, total->prompt_tokens);
    add_count(json, "cached_tokens", is_kept, total->cached_tokens);
    add_count(json, "told_prompt_tokens", is_kept, total->told_prompt_tokens);
    add_count(json, "output_tokens", is_kept, total->output_tokens);
    add_member(json, "saved_s", is_kept ? total->saved_s : unknown);
    add_member(json, "round_robin_saved_s", is_kept ? total->shadow_saved_s : unknown);
    add_member(json, "saved_money", is_kept ? money_of(*options->config, total->saved_s) : unknown);
    add_member(json, "over_round_robin_money",
               is_kept ? money_of(*options->config, over) : unknown);
    add_count(json, "lost_receipts", is_kept, snapshot->scribe.lost);
    text_add_str(json, "}");
}

static void add_percentiles(struct text *json, const char *key, bool is_kept,
                            const double values[chronicle_percentile_count])
{
    static const char *const names[chronicle_percentile_count] = {"p50", "p95", "p99"};

    text_add_format(json, ",\"%s\":{", key);
    for (int i = 0; i < chronicle_percentile_count; i++) {
        text_add_format(json, "%s\"%s\":", i > 0 ? "," : "", names[i]);
        admin_add_number(json, is_kept ? known(values[i]) : (double)NAN);
    }
    text_add_str(json, "}");
}

static void add_recent(const struct snapshot *snapshot, struct text *json)
{
    const struct chronicle_figures *recent = &snapshot->recent;
    double span_s = recent->span_s > 0 ? recent->span_s : window_s;

    text_add_format(json, ",\"recent\":{\"window_s\":%.6g", span_s);
    add_member(json, "requests_per_s", rate(recent->requests, recent));
    add_member(json, "failures_per_s", rate(recent->failures, recent));
    add_member(json, "output_tokens_per_s", rate(recent->output_tokens, recent));
    add_member(json, "prompt_tokens_per_s", rate(recent->prompt_tokens, recent));
    add_member(json, "hit_rate", hit_rate(recent));
    add_member(json, "round_robin_hit_rate", shadow_hit_rate(recent));
    add_percentiles(json, "ttft_ms", snapshot->is_kept, recent->ttft_ms);
    add_percentiles(json, "round_robin_ttft_ms", snapshot->is_kept, recent->shadow_ttft_ms);
    text_add_str(json, "}");
}

static void add_load(const struct backend *backend, uint64_t now_ms, struct text *json)
{
    struct load_view load;

    load_read(&backend->load, now_ms, &load);
    add_count(json, "queued_tokens", true, load.queued_tokens);
    add_member(json, "kv_usage", known((double)load.kv_usage));
    add_member(json, "prefill_tokens_per_s",
               load.speed_is_learned ? 1000 / (double)load.prefill_ms : (double)NAN);
}

static void add_lately(const struct snapshot *snapshot, uint32_t i, struct text *json)
{
    const struct lately *lately = &snapshot->backends[i];
    const struct chronicle_figures *figures = &lately->figures;
    double unknown = (double)NAN;
    // Of whom the scribe has never heard, nobody came to.
    double nobody = snapshot->is_kept ? 0 : unknown;

    add_member(json, "requests_per_s",
               lately->is_known ? rate(figures->requests, figures) : nobody);
    add_member(json, "hit_rate", lately->is_known ? hit_rate(figures) : unknown);
    add_member(json, "ttft_p50_ms", lately->is_known ? known(figures->ttft_ms[0]) : unknown);
    add_member(json, "ttft_p95_ms", lately->is_known ? known(figures->ttft_ms[1]) : unknown);
}

static void add_backend(const struct admin_options *options, const struct backend *backend,
                        uint64_t now_ms, struct text *json)
{
    const struct config *config = *options->config;
    const struct fleet *fleet = options->fleet;
    bool draining = fleet_is_draining(fleet, backend);
    const char *name;

    text_add_format(json, "{\"id\":%lu,\"url\":", (unsigned long)backend->id);
    text_add_json(json, slice_str(backend->url));
    text_add_str(json, ",\"pool\":");
    text_add_json(
        json,
        slice_str(backend->pool < config->pool_count ? config->pools[backend->pool].name : ""));
    text_add_format(
        json,
        ",\"state\":\"%s\",\"weight\":%u,\"draining\":%s,\"in_flight\":%u,\"requests\":%lu,"
        "\"failures\":%lu,\"events\":\"%s\",\"models\":[",
        draining ? "draining" : backend_state(backend, now_ms), fleet_weight(fleet, backend),
        draining ? "true" : "false",
        atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed),
        (unsigned long)atomic_load_explicit(&backend->shared.request_count, memory_order_relaxed),
        (unsigned long)atomic_load_explicit(&backend->shared.failure_count, memory_order_relaxed),
        backend_events_text(backend));
    for (uint32_t i = 0; (name = fleet_model_name(fleet, backend, i)) != NULL; i++) {
        text_add_str(json, i > 0 ? "," : "");
        text_add_json(json, slice_str(name));
    }
    text_add_str(json, "]");
    add_load(backend, now_ms, json);
}

static void add_backends(const struct admin_options *options, const struct snapshot *snapshot,
                         uint64_t now_ms, struct text *json)
{
    const struct backend *backend;

    text_add_str(json, ",\"backends\":[");
    for (uint32_t i = 0; (backend = fleet_at(options->fleet, i)) != NULL; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_backend(options, backend, now_ms, json);
        add_lately(snapshot, i, json);
        text_add_str(json, "}");
    }
    text_add_str(json, "]");
}

// What a point has of each line.
static double line_requests(const struct chronicle_point *point)
{
    return rate(point->figures.requests, &point->figures);
}

static double line_failures(const struct chronicle_point *point)
{
    return rate(point->figures.failures, &point->figures);
}

static double line_hit_rate(const struct chronicle_point *point)
{
    return hit_rate(&point->figures);
}

static double line_shadow_hit_rate(const struct chronicle_point *point)
{
    return shadow_hit_rate(&point->figures);
}

static double line_ttft_p50(const struct chronicle_point *point)
{
    return known(point->figures.ttft_ms[0]);
}

static double line_ttft_p95(const struct chronicle_point *point)
{
    return known(point->figures.ttft_ms[1]);
}

static double line_shadow_ttft_p50(const struct chronicle_point *point)
{
    return known(point->figures.shadow_ttft_ms[0]);
}

static double line_shadow_ttft_p95(const struct chronicle_point *point)
{
    return known(point->figures.shadow_ttft_ms[1]);
}

static double line_saved(const struct chronicle_point *point)
{
    return point->figures.saved_s;
}

static double line_shadow_saved(const struct chronicle_point *point)
{
    return point->figures.shadow_saved_s;
}

static void add_series(const struct snapshot *snapshot, struct text *json)
{
    static const struct {
        const char *key;
        double (*value)(const struct chronicle_point *point);
    } lines[] = {
        {"requests_per_s", line_requests},
        {"failures_per_s", line_failures},
        {"hit_rate", line_hit_rate},
        {"round_robin_hit_rate", line_shadow_hit_rate},
        {"ttft_p50_ms", line_ttft_p50},
        {"ttft_p95_ms", line_ttft_p95},
        {"round_robin_ttft_p50_ms", line_shadow_ttft_p50},
        {"round_robin_ttft_p95_ms", line_shadow_ttft_p95},
        {"saved_s", line_saved},
        {"round_robin_saved_s", line_shadow_saved},
    };

    text_add_format(json, ",\"series\":{\"step_s\":%d,\"time_ms\":[", chronicle_step_ms / 1000);
    for (uint32_t j = 0; j < snapshot->point_count; j++) {
        text_add_format(json, "%s%lu", j > 0 ? "," : "",
                        (unsigned long)snapshot->points[j].wall_ms);
    }
    text_add_str(json, "]");
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        text_add_format(json, ",\"%s\":[", lines[i].key);
        for (uint32_t j = 0; j < snapshot->point_count; j++) {
            text_add_str(json, j > 0 ? "," : "");
            admin_add_number(json, lines[i].value(&snapshot->points[j]));
        }
        text_add_str(json, "]");
    }
    text_add_str(json, "}");
}

static void add_prefix(const struct fleet *fleet, const struct chronicle_prefix *prefix,
                       struct text *json)
{
    uint32_t listed =
        prefix->holder_count < chronicle_holder_max ? prefix->holder_count : chronicle_holder_max;
    const char *comma = "";

    text_add_format(json, "{\"prefix\":\"%016lx\",\"tokens\":%u", (unsigned long)prefix->key,
                    prefix->tokens);
    add_member(json, "requests", prefix->requests);
    add_member(json, "share", prefix->share);
    text_add_format(json, ",\"holder_count\":%u,\"holders\":[", prefix->holder_count);
    for (uint32_t i = 0; i < listed; i++) {
        const struct backend *backend = fleet_find(fleet, prefix->holders[i]);
        if (backend != NULL) {
            text_add_format(json, "%s{\"id\":%lu,\"url\":", comma, (unsigned long)backend->id);
            text_add_json(json, slice_str(backend->url));
            text_add_str(json, "}");
            comma = ",";
        }
    }
    text_add_str(json, "]}");
}

static void add_hottest(const struct admin_options *options, const struct snapshot *snapshot,
                        struct text *json)
{
    text_add_str(json, ",\"hottest\":[");
    for (uint32_t i = 0; i < snapshot->prefix_count; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_prefix(options->fleet, &snapshot->prefixes[i], json);
    }
    text_add_str(json, "]");
}

uint64_t overview_json_add(const struct admin_options *options,
                           const struct overview_request *request, struct text *json)
{
    struct snapshot snapshot;

    snapshot_open(&snapshot, options, request);
    text_add_format(json, "{\"version\":\"%s\",\"now_ms\":%lu,\"uptime_s\":%lu", WARMPATH_VERSION,
                    (unsigned long)request->wall_ms, (unsigned long)(request->uptime_ms / 1000));
    add_policies(*options->config, json);
    add_price(*options->config, json);
    add_totals(options, request, &snapshot, json);
    add_recent(&snapshot, json);
    add_backends(options, &snapshot, request->now_ms, json);
    add_series(&snapshot, json);
    add_hottest(options, &snapshot, json);
    text_add_str(json, "}");
    uint64_t last_ms = snapshot.point_count > 0 ? snapshot.points[snapshot.point_count - 1].wall_ms
                                                : request->since_ms;
    snapshot_close(&snapshot);
    return last_ms;
}
