// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_api.h"

#include "admin/admin_call.h"
#include "admin/backends_api.h"
#include "admin/decisions_api.h"
#include "admin/document/overview_json.h"
#include "admin/explain.h"
#include "admin/metrics_answer.h"
#include "admin/pushed_events.h"
#include "admin/query.h"
#include "base/base.h"
#include "base/text.h"
#include "dialect/token_reader.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "proxy/proxy.h"
#include "proxy/recorder.h"
#include "sys/clock.h"

#include <stdlib.h>

static void add_names(struct text *json, const char *key, uint32_t shapes)
{
    char space[1024];
    struct text names = text_over(space, sizeof(space));
    dialect_add_shapes(shapes, &names);
    text_add_format(json, ",\"%s\":", key);
    text_add_json(json, text_slice(&names));
}

static void add_dialect(const struct dialect *dialect, struct text *json)
{
    uint32_t revoked = atomic_load_explicit(&dialect->shared.revoked, memory_order_relaxed);
    const struct {
        const char *key;
        const atomic_uint_fast64_t *counter;
    } counters[] = {
        {"exact_requests", &dialect->shared.by_ids_count},
        {"text_requests", &dialect->shared.by_text_count},
        {"confirmed", &dialect->shared.confirmed_count},
        {"drifted", &dialect->shared.drift_count},
        {"bytes", &dialect->shared.text_bytes},
        {"remembered_bytes", &dialect->shared.known_bytes},
    };

    text_add_str(json, "{\"path\":");
    text_add_json(json, slice_str(dialect->name));
    add_names(json, "exact_for", dialect_shapes(dialect));
    add_names(json, "revoked", revoked);
    for (size_t i = 0; i < ARRAY_COUNT(counters); i++) {
        uint64_t count = atomic_load_explicit(counters[i].counter, memory_order_relaxed);
        text_add_format(json, ",\"%s\":%lu", counters[i].key, (unsigned long)count);
    }
    text_add_str(json, ",\"chat_template\":");
    text_add_json(json, slice_str(dialect->chat_error[0] == '\0' ? "ok" : dialect->chat_error));
    text_add_str(json, "}");
}

static void add_dialects(const struct dialect_set *set, struct text *json)
{
    if (set == NULL) {
        return;
    }
    text_add_str(json, ",\"tokenizers\":[");
    for (uint32_t i = 0; i < set->count; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_dialect(set->dialects[i], json);
    }
    text_add_str(json, "]");
}

// What engines have told, all of them together, and what nobody sent.
static void add_ledger(const struct admin_call *call, struct text *json)
{
    const struct prefix_ledger *ledger = knowledge_ledger(proxy_knowledge(*call->options->proxy));
    struct kv_feeder *feeder = call->options->feeder != NULL ? *call->options->feeder : NULL;
    struct prefix_ledger_usage usage;

    if (ledger == NULL) {
        return;
    }
    prefix_ledger_usage(ledger, &usage);
    text_add_format(json,
                    ",\"events\":{\"memory\":%lu,\"memory_max\":%lu,\"runs\":%lu,"
                    "\"refused\":%lu,\"strays\":%lu}",
                    (unsigned long)usage.memory, (unsigned long)usage.limit,
                    (unsigned long)usage.run_count, (unsigned long)usage.refused,
                    (unsigned long)(feeder != NULL ? kv_feeder_stray_count(feeder) : 0));
}

static void write_status(const struct admin_call *call, struct text *json)
{
    struct proxy_totals totals = {0};
    struct knowledge_status known = {0};
    const struct backend *backend;
    uint32_t backends = 0;
    uint32_t usable = 0;

    if (*call->options->proxy != NULL) {
        proxy_totals(*call->options->proxy, &totals);
        knowledge_status(proxy_knowledge(*call->options->proxy), &known);
    }
    while ((backend = fleet_at(call->options->fleet, backends)) != NULL) {
        usable += backend_tier(backend, call->now_ms) != BACKEND_DOWN;
        backends++;
    }
    text_add_format(json,
                    "{\"version\":\"%s\",\"uptime_s\":%lu,\"in_flight\":%u,\"connections\":%u,"
                    "\"requests\":%lu,\"retries\":%lu,\"problems\":%lu,\"body_memory\":%lu,"
                    "\"buffers\":%lu,\"backends\":%u,\"usable_backends\":%u,"
                    "\"prefix\":{\"memory\":%lu,\"runs\":%lu,\"evictions\":%lu,"
                    "\"expiries\":%lu,\"letters_lost\":%lu}",
                    WARMPATH_VERSION, (unsigned long)(call->uptime_ms / 1000), totals.in_flight,
                    totals.connection_count, (unsigned long)totals.request_count,
                    (unsigned long)totals.retry_count, (unsigned long)totals.problem_count,
                    (unsigned long)totals.body_memory, (unsigned long)totals.buffers_in_use,
                    backends, usable, (unsigned long)known.index.memory,
                    (unsigned long)known.index.run_count, (unsigned long)known.index.evictions,
                    (unsigned long)known.index.expiries, (unsigned long)known.letters_lost);
    const struct recorder_totals *recorded = call->options->recorded;
    if (recorded != NULL) {
        text_add_format(json, ",\"record\":{\"requests\":%lu,\"dropped\":%lu}",
                        (unsigned long)recorded->recorded, (unsigned long)recorded->dropped);
    }
    if (*call->options->proxy != NULL) {
        add_ledger(call, json);
        add_dialects(proxy_dialects(*call->options->proxy), json);
    }
    text_add_str(json, "}");
}

static void write_ok(const struct admin_call *call, struct text *json)
{
    (void)call;
    text_add_str(json, "{\"status\":\"ok\"}");
}

static void show_status(const struct admin_call *call)
{
    admin_call_written(call, 200, write_status);
}

static void show_health(const struct admin_call *call)
{
    admin_call_written(call, 200, write_ok);
}

static void show_metrics(const struct admin_call *call)
{
    metrics_answer(call->options, call->now_ms, call->out);
}

static void write_overview(const struct admin_call *call, struct text *json)
{
    struct overview_request request = {
        .now_ms = call->now_ms, .uptime_ms = call->uptime_ms, .wall_ms = clock_wall_ms()};
    if (query_number(call->request->target, "since", 0, &request.since_ms)) {
        overview_json_add(call->options, &request, json);
    }
}

static void show_overview(const struct admin_call *call)
{
    uint64_t since_ms;
    if (query_number(call->request->target, "since", 0, &since_ms)) {
        admin_call_written(call, 200, write_overview);
    } else {
        admin_call_problem(call, HTTP_PROBLEM_BAD_QUERY, "since is a time in ms");
    }
}

// The listener answers it itself (stream.h), as long as it has room.
static void refuse_stream(const struct admin_call *call)
{
    admin_call_problem(call, HTTP_PROBLEM_OVERLOADED, "too many streams are open");
}

static void explain(const struct admin_call *call)
{
    size_t capacity = call->out->capacity - admin_answer_head_size;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text json = text_over(space, capacity);
    struct explain_request request = {.path = slice_str("/v1/chat/completions"),
                                      .body = call->request->body,
                                      .now_us = call->now_ms * 1000};
    enum http_problem why = HTTP_PROBLEM_INTERNAL;

    query_find(call->request->target, "path", &request.path);
    if (explain_write(call->options, &request, &json, &why) && !json.overflow) {
        admin_call_document(call, 200, text_slice(&json));
    } else {
        admin_call_problem(call, why, "");
    }
    free(space);
}

static void take_events(const struct admin_call *call)
{
    struct pushed_events_refusal why;
    if (pushed_events_take(call->options, call->request->body, &why)) {
        admin_call_document(call, 202, slice_str("{\"status\":\"accepted\"}"));
    } else {
        admin_call_problem(call, why.problem, why.detail);
    }
}

const struct admin_path admin_paths[] = {
#define PATH(method, path, run, help) {method, path, run, help},
#include "admin/paths.def"
#undef PATH
    {0},
};

// Whether `path` has that form; *name is what stands for its mark.
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

static void run(const struct admin_path *path, struct admin_call *call)
{
    uint64_t id = 0;

    if (strchr(path->path, '#') != NULL) {
        call->backend =
            slice_parse_u64(call->name, &id) ? fleet_find(call->options->fleet, id) : NULL;
        if (call->backend == NULL) {
            admin_call_problem(call, HTTP_PROBLEM_NOT_FOUND, "there is no backend of that id");
            return;
        }
    }
    path->run(call);
}

void admin_api_answer(const struct admin_options *options, const struct admin_request *request,
                      uint64_t now_ms, uint64_t uptime_ms, struct text *out)
{
    struct admin_call call = {.options = options,
                              .request = request,
                              .now_ms = now_ms,
                              .uptime_ms = uptime_ms,
                              .out = out};
    bool path_is_known = false;

    for (const struct admin_path *path = admin_paths; path->path != NULL; path++) {
        if (!path_matches(request->path, path->path, &call.name)) {
            continue;
        }
        if (slice_is(request->method, path->method)) {
            run(path, &call);
            return;
        }
        path_is_known = true;
    }
    admin_call_problem(&call, path_is_known ? HTTP_PROBLEM_NO_SUCH_METHOD : HTTP_PROBLEM_NOT_FOUND,
                       "");
}

bool admin_api_is_stream(const struct admin_request *request)
{
    return slice_is(request->method, "GET") && slice_is(request->path, "/stream");
}
