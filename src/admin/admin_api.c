// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_api.h"

#include "admin/admin.h"
#include "admin/events_json.h"
#include "admin/explain.h"
#include "admin/metrics_answer.h"
#include "admin/pushed_events.h"
#include "admin/truth_json.h"
#include "base/base.h"
#include "base/text.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "config/option.h"
#include "feed/kv_feeder.h"
#include "feed/roster.h"
#include "fleet/fleet.h"
#include "http/problem.h"
#include "proxy/proxy.h"
#include "proxy/recorder.h"
#include "route/exact.h"
#include "route/knowledge.h"
#include "sys/tcp.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    answer_head_size = 256,
    backend_weight_max = 256,
    backend_models_max = 256,
    host_size_max = 256,
};

// What a handler has to do with.
struct call {
    const struct admin_options *options;
    const struct admin_request *request;
    uint64_t now_ms;
    uint64_t uptime_ms;
    struct backend *backend; // of paths that name one
    struct text *out;
};

static void problem(const struct call *call, enum http_problem which, const char *detail)
{
    http_problem_answer(
        &(struct http_problem_answer){.problem = which, .detail = slice_str(detail), .close = true},
        call->out);
}

static void document(const struct call *call, uint16_t status, struct slice json)
{
    struct text *out = call->out;
    text_add_format(out,
                    "HTTP/1.1 %u %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
                    "connection: close\r\n\r\n",
                    status, http_reason(status), json.size);
    text_add(out, json);
}

// What the backend has to do and how fast it is; what was never learned or reported is null.
static void add_load(const struct load *load, uint64_t now_ms, struct text *json)
{
    struct load_view view;
    load_read(load, now_ms, &view);
    text_add_format(
        json,
        "{\"queued_tokens\":%lu,\"decoding\":%u,\"context_tokens\":%lu,"
        "\"foreign_requests\":%.1f,\"predicted_cached_tokens\":%lu,"
        "\"reported_cached_tokens\":%lu",
        (unsigned long)view.queued_tokens, view.sequences, (unsigned long)view.context_tokens,
        (double)view.foreign_requests,
        (unsigned long)atomic_load_explicit(&load->predicted_tokens, memory_order_relaxed),
        (unsigned long)atomic_load_explicit(&load->cached_tokens, memory_order_relaxed));
    if (view.speed_is_learned) {
        text_add_format(json, ",\"prefill_ms_per_token\":%.5g,\"step_ms\":%.4g",
                        (double)view.prefill_ms, (double)view.step_ms);
    } else {
        text_add_str(json, ",\"prefill_ms_per_token\":null,\"step_ms\":null");
    }
    if (view.cache_tokens > 0) {
        text_add_format(json, ",\"cache_tokens\":%lu}", (unsigned long)view.cache_tokens);
    } else {
        text_add_str(json, ",\"cache_tokens\":null}");
    }
}

typedef void add_truth_fn(const struct truth *truth, uint64_t now_ms, struct text *json);

static void add_events(const struct call *call, const struct backend *backend, struct text *json)
{
    struct kv_feeder *feeder = call->options->feeder != NULL ? *call->options->feeder : NULL;
    struct kv_feed_status status;
    bool is_heard = feeder != NULL && kv_feeder_status(feeder, backend->id, &status);
    events_json_add(backend, is_heard ? &status : NULL, json);
}

static void add_backend(const struct call *call, const struct backend *backend,
                        add_truth_fn *add_truth, struct text *json)
{
    const struct fleet *fleet = call->options->fleet;
    const struct config *config = *call->options->config;
    bool draining = fleet_is_draining(fleet, backend);
    uint8_t space[64];
    struct text address = text_over(space, sizeof(space));
    const char *name;

    address_format(&backend->address, &address);
    text_add_format(json, "{\"id\":%lu,\"url\":", (unsigned long)backend->id);
    text_add_json(json, slice_str(backend->url));
    text_add_str(json, ",\"address\":");
    text_add_json(json, text_slice(&address));
    text_add_str(json, ",\"pool\":");
    text_add_json(
        json,
        slice_str(backend->pool < config->pool_count ? config->pools[backend->pool].name : ""));
    text_add_format(
        json,
        ",\"weight\":%u,\"state\":\"%s\",\"in_flight\":%u,\"requests\":%lu,\"failures\":%lu,"
        "\"models\":[",
        fleet_weight(fleet, backend), draining ? "draining" : backend_state(backend, call->now_ms),
        atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed),
        (unsigned long)atomic_load_explicit(&backend->shared.request_count, memory_order_relaxed),
        (unsigned long)atomic_load_explicit(&backend->shared.failure_count, memory_order_relaxed));
    for (uint32_t i = 0; (name = fleet_model_name(fleet, backend, i)) != NULL; i++) {
        text_add_str(json, i > 0 ? "," : "");
        text_add_json(json, slice_str(name));
    }
    text_add_str(json, "],");
    if (backend->rank_count > 1) {
        text_add_format(json, "\"rank\":%u,\"ranks\":%u,", backend->rank, backend->rank_count);
    }
    text_add_str(json, "\"load\":");
    add_load(&backend->load, call->now_ms, json);
    text_add_str(json, ",\"events\":");
    add_events(call, backend, json);
    text_add_str(json, ",\"truth\":");
    add_truth(&backend->truth, call->now_ms, json);
    text_add_str(json, "}");
}

// Runs `write` into memory of its own and sends what came out.
static void send_written(const struct call *call, uint16_t status,
                         void (*write)(const struct call *call, struct text *json))
{
    size_t capacity = call->out->capacity - answer_head_size;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text json = text_over(space, capacity);
    write(call, &json);
    if (json.overflow) {
        problem(call, HTTP_PROBLEM_INTERNAL, "the list is too long for one answer");
    } else {
        document(call, status, text_slice(&json));
    }
    free(space);
}

static void write_one(const struct call *call, struct text *json)
{
    add_backend(call, call->backend, truth_json_add, json);
}

static void write_list(const struct call *call, struct text *json)
{
    const struct backend *backend;
    text_add_str(json, "{\"backends\":[");
    for (uint32_t i = 0; (backend = fleet_at(call->options->fleet, i)) != NULL; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_backend(call, backend, truth_json_add_brief, json);
    }
    text_add_str(json, "]}");
}

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
        {"exact_requests", &dialect->shared.exact_count},
        {"text_requests", &dialect->shared.inexact_count},
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

static void add_dialects(const struct exact_set *set, struct text *json)
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
static void add_ledger(const struct call *call, struct text *json)
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

static void write_status(const struct call *call, struct text *json)
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
        add_dialects(proxy_exact(*call->options->proxy), json);
    }
    text_add_str(json, "}");
}

static void write_ok(const struct call *call, struct text *json)
{
    (void)call;
    text_add_str(json, "{\"status\":\"ok\"}");
}

// What a POST /backends asks for, checked field by field; false after a problem was answered.
struct addition {
    struct config_backend spec;
    char host[host_size_max];
    const char *models[backend_models_max];
};

static bool read_weight(const struct call *call, const cJSON *item, uint32_t *weight)
{
    bool good = cJSON_IsNumber(item) && item->valuedouble >= 1 &&
                item->valuedouble <= backend_weight_max &&
                item->valuedouble == (double)(uint32_t)item->valuedouble;
    if (!good) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "weight must be a whole number from 1 to 256");
        return false;
    }
    *weight = (uint32_t)item->valuedouble;
    return true;
}

static bool read_url(const struct call *call, const cJSON *item, struct addition *out)
{
    struct config_endpoint endpoint;
    if (!cJSON_IsString(item)) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "url is missing or not a string");
        return false;
    }
    const char *why = config_url_split(slice_str(item->valuestring), &endpoint);
    if (why == NULL && endpoint.host.size >= sizeof(out->host)) {
        why = "the host is too long";
    }
    if (why != NULL) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, why);
        return false;
    }
    memcpy(out->host, endpoint.host.bytes, endpoint.host.size);
    out->host[endpoint.host.size] = '\0';
    out->spec.url = item->valuestring;
    out->spec.host = out->host;
    out->spec.port = endpoint.port;
    out->spec.tls = endpoint.tls;
    return true;
}

static bool read_pool(const struct call *call, const cJSON *item, struct addition *out)
{
    const struct config *config = *call->options->config;
    for (uint32_t i = 0; cJSON_IsString(item) && i < config->pool_count; i++) {
        if (strcmp(config->pools[i].name, item->valuestring) == 0) {
            out->spec.pool = i;
            return true;
        }
    }
    problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "there is no such pool");
    return false;
}

static bool read_models(const struct call *call, const cJSON *list, struct addition *out)
{
    const cJSON *item;
    bool good = cJSON_IsArray(list);
    cJSON_ArrayForEach(item, list)
    {
        good = good && cJSON_IsString(item) && item->valuestring[0] != '\0' &&
               out->spec.models.count < backend_models_max;
        if (good) {
            out->models[out->spec.models.count++] = item->valuestring;
        }
    }
    out->spec.models.items = out->models;
    if (!good) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "models must be a list of at most 256 names");
    }
    return good;
}

// It ends up in a header of every request to the backend.
static bool read_key(const struct call *call, const cJSON *item, struct addition *out)
{
    if (!cJSON_IsString(item) || !config_secret_is_sound(slice_str(item->valuestring))) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT,
                "api_key must be visible ASCII characters without spaces");
        return false;
    }
    out->spec.api_key = item->valuestring;
    return true;
}

// What the configuration checks in the same way: its rows know how each is spelt.
static bool read_row(const struct call *call, const cJSON *item, void *field)
{
    const struct config_option *option = config_option_find(&config_backend_options, item->string);
    char why_space[512];
    char number[32];
    struct text why = text_over(why_space, sizeof(why_space) - 1);
    const char *value = cJSON_IsString(item) ? item->valuestring : NULL;

    if (cJSON_IsNumber(item)) {
        snprintf(number, sizeof(number), "%.15g", item->valuedouble);
        value = number;
    }
    text_add_format(&why, "%s: ", item->string);
    if (value == NULL) {
        text_add_str(&why, "takes one value");
    } else if (option->kind->read(option, value, field, &why)) {
        return true;
    }
    why_space[why.size] = '\0';
    problem(call, HTTP_PROBLEM_BAD_DOCUMENT, why_space);
    return false;
}

static bool check_events(const struct call *call, const struct addition *addition)
{
    char why_space[512];
    char detail[640];
    struct text why = text_over(why_space, sizeof(why_space));
    const char *row;

    if (config_backend_events_check(*call->options->config, &addition->spec, &row, &why)) {
        return true;
    }
    snprintf(detail, sizeof(detail), "%s: %.*s", row, (int)why.size, why_space);
    problem(call, HTTP_PROBLEM_BAD_DOCUMENT, detail);
    return false;
}

// The field of a row that the configuration has too; NULL: none that may be set here.
static void *field_of(struct addition *addition, const char *name)
{
    struct config_backend *spec = &addition->spec;
    const struct {
        const char *name;
        void *field;
    } fields[] = {
        {"ranks", &spec->ranks},
        {"events", &spec->events},
        {"events_replay", &spec->events_replay},
        {"events_topic", &spec->events_topic},
    };
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return fields[i].field;
        }
    }
    return NULL;
}

static bool read_addition(const struct call *call, const cJSON *object, struct addition *out)
{
    const cJSON *item;
    bool good = true;

    *out = (struct addition){.spec = {.weight = 1, .ranks = 1}};
    cJSON_ArrayForEach(item, object)
    {
        if (!good) {
            return false;
        }
        if (strcmp(item->string, "url") == 0) {
            good = read_url(call, item, out);
        } else if (strcmp(item->string, "weight") == 0) {
            good = read_weight(call, item, &out->spec.weight);
        } else if (strcmp(item->string, "pool") == 0) {
            good = read_pool(call, item, out);
        } else if (strcmp(item->string, "models") == 0) {
            good = read_models(call, item, out);
        } else if (strcmp(item->string, "api_key") == 0) {
            good = read_key(call, item, out);
        } else if (field_of(out, item->string) != NULL) {
            good = read_row(call, item, field_of(out, item->string));
        } else {
            problem(call, HTTP_PROBLEM_BAD_DOCUMENT, item->string);
            return false;
        }
    }
    if (good && out->spec.url == NULL) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "url is missing");
        return false;
    }
    return good && check_events(call, out);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

// NULL after a problem was answered.
static cJSON *read_body(const struct call *call)
{
    struct slice body = call->request->body;
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts((const char *)body.bytes, body.size, &end, false);
    const char *body_end = (const char *)body.bytes + body.size;
    while (object != NULL && end < body_end && is_blank(*end)) {
        end++;
    }
    if (!cJSON_IsObject(object) || end != body_end) {
        cJSON_Delete(object);
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "it is not a JSON object");
        return NULL;
    }
    return object;
}

static void list_backends(const struct call *call)
{
    send_written(call, 200, write_list);
}

static void show_status(const struct call *call)
{
    send_written(call, 200, write_status);
}

static void show_health(const struct call *call)
{
    send_written(call, 200, write_ok);
}

static void show_metrics(const struct call *call)
{
    metrics_answer(call->options, call->now_ms, call->out);
}

static void show_backend(const struct call *call)
{
    send_written(call, 200, write_one);
}

static void add_one(const struct call *call)
{
    struct addition addition;
    struct call answer = *call;
    cJSON *object = read_body(call);

    if (object != NULL && read_addition(call, object, &addition)) {
        switch (roster_add(call->options->roster, &addition.spec, &answer.backend)) {
        case STATUS_OK:
            call->options->changed(call->options->owner);
            // A name that has yet to be resolved has no backend to show.
            send_written(&answer, 201, answer.backend != NULL ? write_one : write_ok);
            break;
        case STATUS_MALFORMED:
            problem(call, HTTP_PROBLEM_CONFLICT, "this url is in the fleet already");
            break;
        default:
            problem(call, HTTP_PROBLEM_CONFLICT, "limits.backends is reached");
            break;
        }
    }
    cJSON_Delete(object);
}

static void change_one(const struct call *call)
{
    uint32_t weight = 0;
    cJSON *object = read_body(call);
    if (object == NULL) {
        return;
    }
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "weight");
    if (cJSON_GetArraySize(object) != 1 || item == NULL) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "only weight can be changed");
    } else if (read_weight(call, item, &weight)) {
        fleet_set_weight(call->options->fleet, call->backend, weight);
        call->options->changed(call->options->owner);
        send_written(call, 200, write_one);
    }
    cJSON_Delete(object);
}

static void send_removed(const struct call *call)
{
    call->options->changed(call->options->owner);
    text_add_str(call->out, "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
}

static void remove_one(const struct call *call)
{
    if (roster_remove(call->options->roster, call->backend) != STATUS_OK) {
        problem(call, HTTP_PROBLEM_CONFLICT,
                "it stands behind a DNS name of the configuration; drain it, or remove the record");
        return;
    }
    send_removed(call);
}

// What has no address yet has no id either.
static void remove_url(const struct call *call)
{
    struct roster *roster = call->options->roster;
    cJSON *object = read_body(call);
    if (object == NULL) {
        return;
    }
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "url");
    if (cJSON_GetArraySize(object) != 1 || !cJSON_IsString(item)) {
        problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "it takes a url and nothing else");
    } else if (!roster_has(roster, item->valuestring)) {
        problem(call, HTTP_PROBLEM_NOT_FOUND, "there is no backend of that url");
    } else if (roster_remove_url(roster, item->valuestring) != STATUS_OK) {
        problem(call, HTTP_PROBLEM_CONFLICT, "it is a DNS name of the configuration");
    } else {
        send_removed(call);
    }
    cJSON_Delete(object);
}

static void set_draining(const struct call *call, bool draining)
{
    fleet_set_draining(call->options->fleet, call->backend, draining);
    call->options->changed(call->options->owner);
    send_written(call, 200, write_one);
}

static void drain_one(const struct call *call)
{
    set_draining(call, true);
}

static void ready_one(const struct call *call)
{
    set_draining(call, false);
}

// The value of `path` in the query, as it stands; chat completions when there is none.
static struct slice explained_path(struct slice target)
{
    static const char key[] = "?path=";
    const uint8_t *found = memmem(target.bytes, target.size, key, sizeof(key) - 1);
    if (found == NULL) {
        return slice_str("/v1/chat/completions");
    }
    const uint8_t *begin = found + sizeof(key) - 1;
    return slice_of(begin, (size_t)(target.bytes + target.size - begin));
}

static void explain(const struct call *call)
{
    size_t capacity = call->out->capacity - answer_head_size;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text json = text_over(space, capacity);
    struct explain_request request = {
        .path = explained_path(call->request->target),
        .body = call->request->body,
        .now_us = call->now_ms * 1000,
    };
    enum http_problem why = HTTP_PROBLEM_INTERNAL;

    if (explain_write(call->options, &request, &json, &why) && !json.overflow) {
        document(call, 200, text_slice(&json));
    } else {
        problem(call, why, "");
    }
    free(space);
}

static void take_events(const struct call *call)
{
    struct pushed_events_refusal why;
    if (pushed_events_take(call->options, call->request->body, &why)) {
        document(call, 202, slice_str("{\"status\":\"accepted\"}"));
    } else {
        problem(call, why.problem, why.detail);
    }
}

// Every path of the API; `#` stands for a backend's id.
static const struct {
    const char *method;
    const char *path;
    void (*run)(const struct call *call);
} routes[] = {
    {"GET", "/health", show_health},
    {"GET", "/status", show_status},
    {"GET", "/metrics", show_metrics},
    {"GET", "/backends", list_backends},
    {"POST", "/backends", add_one},
    {"DELETE", "/backends", remove_url},
    {"GET", "/backends/#", show_backend},
    {"PATCH", "/backends/#", change_one},
    {"DELETE", "/backends/#", remove_one},
    {"POST", "/backends/#/drain", drain_one},
    {"POST", "/backends/#/ready", ready_one},
    {"POST", "/explain", explain},
    {"POST", "/v1/cache/events", take_events},
};

// Whether `path` has that form; *id is what stands for the `#`.
static bool path_matches(struct slice path, const char *form, struct slice *id)
{
    const char *hash = strchr(form, '#');
    if (hash == NULL) {
        return slice_is(path, form);
    }
    struct slice before = slice_of(form, (size_t)(hash - form));
    struct slice after = slice_str(hash + 1);
    if (path.size <= before.size + after.size ||
        !slice_equal(slice_of(path.bytes, before.size), before) ||
        !slice_equal(slice_of(path.bytes + path.size - after.size, after.size), after)) {
        return false;
    }
    *id = slice_of(path.bytes + before.size, path.size - before.size - after.size);
    return memchr(id->bytes, '/', id->size) == NULL;
}

void admin_api_answer(const struct admin_options *options, const struct admin_request *request,
                      uint64_t now_ms, uint64_t uptime_ms, struct text *out)
{
    struct call call = {.options = options,
                        .request = request,
                        .now_ms = now_ms,
                        .uptime_ms = uptime_ms,
                        .out = out};
    bool path_is_known = false;

    for (size_t i = 0; i < ARRAY_COUNT(routes); i++) {
        struct slice id = {0};
        uint64_t number = 0;
        if (!path_matches(request->path, routes[i].path, &id)) {
            continue;
        }
        path_is_known = true;
        if (!slice_is(request->method, routes[i].method)) {
            continue;
        }
        if (id.size > 0) {
            call.backend = slice_parse_u64(id, &number) ? fleet_find(options->fleet, number) : NULL;
            if (call.backend == NULL) {
                problem(&call, HTTP_PROBLEM_NOT_FOUND, "there is no backend of that id");
                return;
            }
        }
        routes[i].run(&call);
        return;
    }
    problem(&call, path_is_known ? HTTP_PROBLEM_NO_SUCH_METHOD : HTTP_PROBLEM_NOT_FOUND, "");
}
