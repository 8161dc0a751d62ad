// SPDX-License-Identifier: Apache-2.0

#include "admin/backends_api.h"

#include "admin/backend_body.h"
#include "admin/document/backend_json.h"
#include "base/base.h"
#include "cluster/cluster.h"
#include "discovery/roster.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"

static struct admin_result backends_api_put(const struct admin_call *call,
                                            const struct backend *backend, uint16_t status,
                                            struct json_writer *json)
{
    backend_json_put(call->options, backend,
                     &(struct backend_json_request){.now_ms = call->now_ms, .has_histogram = true},
                     json);
    return admin_done(status);
}

struct admin_result backends_api_list(const struct admin_call *call, struct json_writer *json)
{
    const struct backend *backend;

    json_begin_object(json, NULL);
    json_begin_array(json, "backends");
    for (uint32_t i = 0; (backend = fleet_at(call->options->fleet, i)) != NULL; i++) {
        backend_json_put(call->options, backend,
                         &(struct backend_json_request){.now_ms = call->now_ms}, json);
    }
    json_end(json);
    json_end(json);
    return admin_done(200);
}

struct admin_result backends_api_show(const struct admin_call *call, struct json_writer *json)
{
    return backends_api_put(call, call->backend, 200, json);
}

// `backend` is NULL if the body has a DNS name that is not resolved yet.
static struct admin_result backends_api_added(const struct admin_call *call,
                                              const struct backend *backend,
                                              struct json_writer *json)
{
    call->options->changed(call->options->owner);
    if (backend != NULL) {
        return backends_api_put(call, backend, 201, json);
    }
    admin_put_status(json, "ok");
    return admin_done(201);
}

struct admin_result backends_api_add(const struct admin_call *call, struct json_writer *json)
{
    struct admin_result result = {.problem = HTTP_PROBLEM_BAD_DOCUMENT};
    struct backend *added = NULL;
    struct backend_body body;

    if (backend_body_read(*call->options->config, call->request->body, &body, call->reason)) {
        switch (roster_add(call->options->roster, &body.spec, &added)) {
        case STATUS_OK:
            result = backends_api_added(call, added, json);
            break;
        case STATUS_MALFORMED:
            result = admin_refuse(call, HTTP_PROBLEM_CONFLICT, "this url is in the fleet already");
            break;
        default:
            result = admin_refuse(call, HTTP_PROBLEM_CONFLICT, "limits.backends is reached");
        }
    } else if (body.strings.bytes == NULL) {
        result = admin_refuse_memory(call);
    }
    backend_body_free(&body);
    return result;
}

// Publishes a change of the backend and shows it.
static struct admin_result backends_api_changed(const struct admin_call *call,
                                                struct json_writer *json)
{
    call->options->changed(call->options->owner);
    return backends_api_show(call, json);
}

// The other routers of the cluster do the same.
static void backends_api_share(const struct admin_call *call, enum setting_field field,
                               uint64_t value)
{
    if (admin_cluster(call->options) != NULL) {
        cluster_set(admin_cluster(call->options), call->backend, field, value);
    }
}

struct admin_result backends_api_change(const struct admin_call *call, struct json_writer *json)
{
    uint32_t weight;

    if (!backend_body_read_weight(call->request->body, &weight, call->reason)) {
        return (struct admin_result){.problem = HTTP_PROBLEM_BAD_DOCUMENT};
    }
    fleet_set_weight(call->options->fleet, call->backend, weight);
    backends_api_share(call, SETTING_WEIGHT, weight);
    return backends_api_changed(call, json);
}

static struct admin_result backends_api_removed(const struct admin_call *call)
{
    call->options->changed(call->options->owner);
    return admin_done(204);
}

struct admin_result backends_api_remove(const struct admin_call *call, struct json_writer *json)
{
    (void)json;
    if (roster_remove(call->options->roster, call->backend) != STATUS_OK) {
        return admin_refuse(
            call, HTTP_PROBLEM_CONFLICT,
            "it belongs to a DNS name of the configuration; drain it, or remove the record");
    }
    return backends_api_removed(call);
}

struct admin_result backends_api_remove_url(const struct admin_call *call, struct json_writer *json)
{
    struct roster *roster = call->options->roster;
    char url[backend_body_url_size];
    (void)json;

    if (!backend_body_read_url(call->request->body, url, call->reason)) {
        return (struct admin_result){.problem = HTTP_PROBLEM_BAD_DOCUMENT};
    }
    if (!roster_has(roster, url)) {
        return admin_refuse(call, HTTP_PROBLEM_NOT_FOUND, "no backend has that url");
    }
    if (roster_remove_url(roster, url) != STATUS_OK) {
        return admin_refuse(call, HTTP_PROBLEM_CONFLICT, "it is a DNS name of the configuration");
    }
    return backends_api_removed(call);
}

struct admin_result backends_api_drain(const struct admin_call *call, struct json_writer *json)
{
    fleet_set_draining(call->options->fleet, call->backend, true);
    backends_api_share(call, SETTING_DRAINING, 1);
    return backends_api_changed(call, json);
}

struct admin_result backends_api_ready(const struct admin_call *call, struct json_writer *json)
{
    fleet_set_draining(call->options->fleet, call->backend, false);
    backends_api_share(call, SETTING_DRAINING, 0);
    return backends_api_changed(call, json);
}
