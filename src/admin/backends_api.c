// SPDX-License-Identifier: Apache-2.0

#include "admin/backends_api.h"

#include "admin/admin_call.h"
#include "admin/document/events_json.h"
#include "admin/document/truth_json.h"
#include "base/base.h"
#include "base/text.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "config/option/option.h"
#include "discovery/roster.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "net/tcp.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    backend_weight_max = 256,
    backend_models_max = 256,
    host_size_max = 256,
};

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

static void add_events(const struct admin_call *call, const struct backend *backend,
                       struct text *json)
{
    struct kv_feeder *feeder = call->options->feeder != NULL ? *call->options->feeder : NULL;
    struct kv_feed_status status;
    bool is_heard = feeder != NULL && kv_feeder_status(feeder, backend->id, &status);
    events_json_add(backend, is_heard ? &status : NULL, json);
}

static void add_backend(const struct admin_call *call, const struct backend *backend,
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

static void write_one(const struct admin_call *call, struct text *json)
{
    add_backend(call, call->backend, truth_json_add, json);
}

static void write_list(const struct admin_call *call, struct text *json)
{
    const struct backend *backend;
    text_add_str(json, "{\"backends\":[");
    for (uint32_t i = 0; (backend = fleet_at(call->options->fleet, i)) != NULL; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_backend(call, backend, truth_json_add_brief, json);
    }
    text_add_str(json, "]}");
}

static void write_ok(const struct admin_call *call, struct text *json)
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

static bool read_weight(const struct admin_call *call, const cJSON *item, uint32_t *weight)
{
    bool good = cJSON_IsNumber(item) && item->valuedouble >= 1 &&
                item->valuedouble <= backend_weight_max &&
                item->valuedouble == (double)(uint32_t)item->valuedouble;
    if (!good) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT,
                           "weight must be a whole number from 1 to 256");
        return false;
    }
    *weight = (uint32_t)item->valuedouble;
    return true;
}

static bool read_url(const struct admin_call *call, const cJSON *item, struct addition *out)
{
    struct config_endpoint endpoint;
    if (!cJSON_IsString(item)) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "url is missing or not a string");
        return false;
    }
    const char *why = config_url_split(slice_str(item->valuestring), &endpoint);
    if (why == NULL && endpoint.host.size >= sizeof(out->host)) {
        why = "the host is too long";
    }
    if (why != NULL) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, why);
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

static bool read_pool(const struct admin_call *call, const cJSON *item, struct addition *out)
{
    const struct config *config = *call->options->config;
    for (uint32_t i = 0; cJSON_IsString(item) && i < config->pool_count; i++) {
        if (strcmp(config->pools[i].name, item->valuestring) == 0) {
            out->spec.pool = i;
            return true;
        }
    }
    admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "there is no such pool");
    return false;
}

static bool read_models(const struct admin_call *call, const cJSON *list, struct addition *out)
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
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT,
                           "models must be a list of at most 256 names");
    }
    return good;
}

// It ends up in a header of every request to the backend.
static bool read_key(const struct admin_call *call, const cJSON *item, struct addition *out)
{
    if (!cJSON_IsString(item) || !config_secret_is_sound(slice_str(item->valuestring))) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT,
                           "api_key must be visible ASCII characters without spaces");
        return false;
    }
    out->spec.api_key = item->valuestring;
    return true;
}

// What the configuration checks in the same way: its rows know how each is spelt.
static bool read_row(const struct admin_call *call, const cJSON *item, void *field)
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
    admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, why_space);
    return false;
}

static bool check_events(const struct admin_call *call, const struct addition *addition)
{
    char why_space[512];
    char detail[640];
    struct text why = text_over(why_space, sizeof(why_space));
    const char *row;

    if (config_backend_events_check(*call->options->config, &addition->spec, &row, &why)) {
        return true;
    }
    snprintf(detail, sizeof(detail), "%s: %.*s", row, (int)why.size, why_space);
    admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, detail);
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

static bool read_addition(const struct admin_call *call, const cJSON *object, struct addition *out)
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
            admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, item->string);
            return false;
        }
    }
    if (good && out->spec.url == NULL) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "url is missing");
        return false;
    }
    return good && check_events(call, out);
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

// NULL after a problem was answered.
static cJSON *read_body(const struct admin_call *call)
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
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "it is not a JSON object");
        return NULL;
    }
    return object;
}

void backends_api_list(const struct admin_call *call)
{
    admin_call_written(call, 200, write_list);
}

void backends_api_show(const struct admin_call *call)
{
    admin_call_written(call, 200, write_one);
}

void backends_api_add(const struct admin_call *call)
{
    struct addition addition;
    struct admin_call answer = *call;
    cJSON *object = read_body(call);

    if (object != NULL && read_addition(call, object, &addition)) {
        switch (roster_add(call->options->roster, &addition.spec, &answer.backend)) {
        case STATUS_OK:
            call->options->changed(call->options->owner);
            // A name that has yet to be resolved has no backend to show.
            admin_call_written(&answer, 201, answer.backend != NULL ? write_one : write_ok);
            break;
        case STATUS_MALFORMED:
            admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "this url is in the fleet already");
            break;
        default:
            admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "limits.backends is reached");
            break;
        }
    }
    cJSON_Delete(object);
}

void backends_api_change(const struct admin_call *call)
{
    uint32_t weight = 0;
    cJSON *object = read_body(call);
    if (object == NULL) {
        return;
    }
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "weight");
    if (cJSON_GetArraySize(object) != 1 || item == NULL) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "only weight can be changed");
    } else if (read_weight(call, item, &weight)) {
        fleet_set_weight(call->options->fleet, call->backend, weight);
        call->options->changed(call->options->owner);
        admin_call_written(call, 200, write_one);
    }
    cJSON_Delete(object);
}

static void send_removed(const struct admin_call *call)
{
    call->options->changed(call->options->owner);
    text_add_str(call->out, "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
}

void backends_api_remove(const struct admin_call *call)
{
    if (roster_remove(call->options->roster, call->backend) != STATUS_OK) {
        admin_call_problem(
            call, HTTP_PROBLEM_CONFLICT,
            "it stands behind a DNS name of the configuration; drain it, or remove the record");
        return;
    }
    send_removed(call);
}

// What has no address yet has no id either.
void backends_api_remove_url(const struct admin_call *call)
{
    struct roster *roster = call->options->roster;
    cJSON *object = read_body(call);
    if (object == NULL) {
        return;
    }
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "url");
    if (cJSON_GetArraySize(object) != 1 || !cJSON_IsString(item)) {
        admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, "it takes a url and nothing else");
    } else if (!roster_has(roster, item->valuestring)) {
        admin_call_problem(call, HTTP_PROBLEM_NOT_FOUND, "there is no backend of that url");
    } else if (roster_remove_url(roster, item->valuestring) != STATUS_OK) {
        admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "it is a DNS name of the configuration");
    } else {
        send_removed(call);
    }
    cJSON_Delete(object);
}

static void set_draining(const struct admin_call *call, bool draining)
{
    fleet_set_draining(call->options->fleet, call->backend, draining);
    call->options->changed(call->options->owner);
    admin_call_written(call, 200, write_one);
}

void backends_api_drain(const struct admin_call *call)
{
    set_draining(call, true);
}

void backends_api_ready(const struct admin_call *call)
{
    set_draining(call, false);
}
