// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_api.h"

#include "admin/admin_call.h"
#include "admin/backends_api.h"
#include "admin/decisions_api.h"
#include "admin/document/cluster_json.h"
#include "admin/document/overview_json.h"
#include "admin/explain.h"
#include "admin/metrics_response.h"
#include "admin/pushed_events.h"
#include "admin/query.h"
#include "base/base.h"
#include "dialect/token_reader.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "knowledge/knowledge.h"
#include "proxy/proxy.h"
#include "sys/clock.h"
#include "worker/recorder.h"

static void put_shapes(struct json_writer *json, const char *key, uint32_t shapes)
{
    json_begin_string(json, key);
    dialect_add_shapes(shapes, json->out);
    json_end_string(json);
}

static void put_dialect(const struct dialect *dialect, struct json_writer *json)
{
    uint32_t revoked = atomic_load_explicit(&dialect->shared.revoked, memory_order_relaxed);
    const struct {
        const char *key;
        const atomic_uint_fast64_t *counter;
    } counters[] = {
        {"token_id_requests", &dialect->shared.by_ids_count},
        {"text_requests", &dialect->shared.by_text_count},
        {"confirmed", &dialect->shared.confirmed_count},
        {"drifted", &dialect->shared.drift_count},
        {"bytes", &dialect->shared.text_bytes},
        {"remembered_bytes", &dialect->shared.known_bytes},
    };

    json_begin_object(json, NULL);
    json_put_str(json, "path", dialect->name);
    put_shapes(json, "certified_for", dialect_shapes(dialect));
    put_shapes(json, "revoked", revoked);
    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        json_put_u64(json, counters[i].key,
                     atomic_load_explicit(counters[i].counter, memory_order_relaxed));
    }
    json_put_str(json, "chat_template",
                 dialect->chat_error[0] == '\0' ? "ok" : dialect->chat_error);
    json_end(json);
}

static void put_dialects(const struct dialect_set *set, struct json_writer *json)
{
    if (set == NULL) {
        return;
    }
    json_begin_array(json, "tokenizers");
    for (uint32_t i = 0; i < set->count; i++) {
        put_dialect(set->dialects[i], json);
    }
    json_end(json);
}

// KV events of all engines together.
static void put_ledger(const struct admin_call *call, struct json_writer *json)
{
    const struct prefix_ledger *ledger = knowledge_ledger(proxy_knowledge(*call->options->proxy));
    struct kv_feeder *feeder = admin_feeder(call->options);
    struct prefix_ledger_usage usage;

    if (ledger == NULL) {
        return;
    }
    prefix_ledger_usage(ledger, &usage);
    json_begin_object(json, "events");
    json_put_u64(json, "memory", usage.memory);
    json_put_u64(json, "memory_max", usage.limit);
    json_put_u64(json, "runs", usage.run_count);
    json_put_u64(json, "refused", usage.refused);
    json_put_u64(json, "strays", feeder != NULL ? kv_feeder_stray_count(feeder) : 0);
    json_end(json);
}

static void put_index(const struct knowledge_status *known, struct json_writer *json)
{
    json_begin_object(json, "prefix");
    json_put_u64(json, "memory", known->index.memory);
    json_put_u64(json, "runs", known->index.run_count);
    json_put_u64(json, "evictions", known->index.evictions);
    json_put_u64(json, "expiries", known->index.expiries);
    json_put_u64(json, "letters_lost", known->letters_lost);
    json_end(json);
}

static void put_backend_counts(const struct admin_call *call, struct json_writer *json)
{
    const struct backend *backend;
    uint32_t backends = 0;
    uint32_t usable = 0;

    while ((backend = fleet_at(call->options->fleet, backends)) != NULL) {
        usable += backend_tier(backend, call->now_ms) != BACKEND_DOWN;
        backends++;
    }
    json_put_u64(json, "backends", backends);
    json_put_u64(json, "usable_backends", usable);
}

static struct admin_result show_status(const struct admin_call *call, struct json_writer *json)
{
    const struct proxy *proxy = *call->options->proxy;
    const struct recorder_totals *recorded = call->options->recorded;
    struct proxy_totals totals = {0};
    struct knowledge_status known = {0};

    if (proxy != NULL) {
        proxy_totals(proxy, &totals);
        knowledge_status(proxy_knowledge(proxy), &known);
    }
    json_begin_object(json, NULL);
    json_put_str(json, "version", WARMPATH_VERSION);
    json_put_u64(json, "uptime_s", call->uptime_ms / 1000);
    json_put_u64(json, "in_flight", totals.in_flight);
    json_put_u64(json, "connections", totals.connection_count);
    json_put_u64(json, "requests", totals.request_count);
    json_put_u64(json, "retries", totals.retry_count);
    json_put_u64(json, "problems", totals.problem_count);
    json_put_u64(json, "body_memory", totals.body_memory);
    json_put_u64(json, "buffers", totals.buffers_in_use);
    put_backend_counts(call, json);
    put_index(&known, json);
    if (recorded != NULL) {
        json_begin_object(json, "record");
        json_put_u64(json, "requests", recorded->recorded);
        json_put_u64(json, "dropped", recorded->dropped);
        json_end(json);
    }
    cluster_json_put_own(call->options, json);
    if (proxy != NULL) {
        put_ledger(call, json);
        put_dialects(proxy_dialects(proxy), json);
    }
    json_end(json);
    return admin_done(200);
}

static struct admin_result show_health(const struct admin_call *call, struct json_writer *json)
{
    (void)call;
    admin_put_status(json, "ok");
    return admin_done(200);
}

static struct admin_result show_metrics(const struct admin_call *call, struct json_writer *json)
{
    (void)json;
    metrics_response(call->options, call->now_ms, call->out);
    return admin_done(0);
}

static struct admin_result show_overview(const struct admin_call *call, struct json_writer *json)
{
    struct overview_request request = {
        .now_ms = call->now_ms, .uptime_ms = call->uptime_ms, .wall_ms = clock_wall_ms()};
    uint64_t last_ms;

    if (!query_number(call->request->target, "since", 0, &request.since_ms)) {
        return admin_refuse(call, HTTP_PROBLEM_BAD_QUERY, "since is a time in ms");
    }
    return overview_json_put(call->options, &request, &last_ms, json) ? admin_done(200)
                                                                      : admin_refuse_memory(call);
}

// The listener serves streams itself (stream.h); this runs only when all of them are taken
// or memory is short.
static struct admin_result refuse_stream(const struct admin_call *call, struct json_writer *json)
{
    (void)json;
    return admin_refuse(call, HTTP_PROBLEM_OVERLOADED, "too many streams are open");
}

static struct admin_result admin_explain(const struct admin_call *call, struct json_writer *json)
{
    struct explain_request request = {.path = slice_str("/v1/chat/completions"),
                                      .body = call->request->body,
                                      .now_us = call->now_ms * 1000};
    struct admin_result result = admin_done(200);

    query_find(call->request->target, "path", &request.path);
    explain_write(call->options, &request, json, &result.problem);
    if (result.problem == HTTP_PROBLEM_NO_SUCH_MODEL) {
        return admin_refuse(call, result.problem, fleet_view(call->options->fleet)->models_hint);
    }
    return result;
}

static struct admin_result admin_take_events(const struct admin_call *call,
                                             struct json_writer *json)
{
    struct pushed_events_refusal why;

    if (!pushed_events_take(call->options, call->request->body, &why)) {
        return admin_refuse(call, why.problem, why.detail);
    }
    admin_put_status(json, "accepted");
    return admin_done(202);
}

const struct admin_path admin_paths[] = {
#define PATH(method, path, run, help) {method, path, run, help},
#include "admin/paths.def"
#undef PATH
    {0},
};

// Whether `path` has that form; *name is the part that `#` or `*` stands for.
static bool path_matches(struct slice path, const char *form, struct slice *name)
{
    size_t before_size = strcspn(form, "#*");
    if (form[before_size] == '\0') {
        return slice_is(path, form);
    }
    struct slice before = slice_of(form, before_size);
    struct slice after = slice_str(form + before_size + 1);
    if (path.size <= before.size + after.size ||
        !slice_equal(slice_of(path.bytes, before.size), before) ||
        !slice_equal(slice_of(path.bytes + path.size - after.size, after.size), after)) {
        return false;
    }
    *name = slice_of(path.bytes + before.size, path.size - before.size - after.size);
    return memchr(name->bytes, '/', name->size) == NULL;
}

static struct admin_result admin_route(const struct admin_call *call, struct json_writer *json)
{
    struct admin_call routed = *call;
    bool path_is_known = false;
    uint64_t id = 0;

    for (const struct admin_path *path = admin_paths; path->path != NULL; path++) {
        if (!path_matches(call->request->path, path->path, &routed.name)) {
            continue;
        }
        path_is_known = true;
        if (!slice_is(call->request->method, path->method)) {
            continue;
        }
        if (strchr(path->path, '#') != NULL) {
            bool is_id = slice_parse_u64(routed.name, &id);
            routed.backend = is_id ? fleet_find(call->options->fleet, id) : NULL;
            if (routed.backend == NULL) {
                return admin_refuse(call, HTTP_PROBLEM_NOT_FOUND, "no backend has that id");
            }
        }
        return path->run(&routed, json);
    }
    return admin_refuse(call, path_is_known ? HTTP_PROBLEM_NO_SUCH_METHOD : HTTP_PROBLEM_NOT_FOUND,
                        "");
}

void admin_api_respond(const struct admin_options *options, const struct admin_request *request,
                       uint64_t now_ms, uint64_t uptime_ms, struct text *out)
{
    struct admin_call call = {.options = options,
                              .request = request,
                              .now_ms = now_ms,
                              .uptime_ms = uptime_ms,
                              .out = out};
    admin_call_run(&call, admin_route);
}

bool admin_api_is_stream(const struct admin_request *request)
{
    return slice_is(request->method, "GET") && slice_is(request->path, "/stream");
}
