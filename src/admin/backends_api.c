// SPDX-License-Identifier: Apache-2.0

#include "admin/backends_api.h"

#include "admin/admin_call.h"
#include "admin/backend_body.h"
#include "admin/document/backend_json.h"
#include "base/base.h"
#include "discovery/roster.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"

enum { reason_size_max = 512 };

static void write_backend(const struct admin_call *call, struct json_writer *json)
{
    backend_json_put(call->options, call->backend,
                     &(struct backend_json_request){.now_ms = call->now_ms, .has_histogram = true},
                     json);
}

static void backends_api_write_backends(const struct admin_call *call, struct json_writer *json)
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
}

static void backends_api_refuse_body(const struct admin_call *call, struct text *reason)
{
    text_add(reason, slice_of("", 1));
    ASSERT(!reason->overflow);
    admin_call_problem(call, HTTP_PROBLEM_BAD_DOCUMENT, (const char *)reason->bytes);
}

void backends_api_list(const struct admin_call *call)
{
    admin_call_written(call, 200, backends_api_write_backends);
}

void backends_api_show(const struct admin_call *call)
{
    admin_call_written(call, 200, write_backend);
}

static void backends_api_add_backend(const struct admin_call *call,
                                     const struct config_backend *spec)
{
    struct admin_call added = *call;

    switch (roster_add(call->options->roster, spec, &added.backend)) {
    case STATUS_OK:
        call->options->changed(call->options->owner);
        if (added.backend != NULL) {
            admin_call_written(&added, 201, write_backend);
        } else {
            // The name is not resolved yet: there are no backends to show.
            admin_call_document(call, 201, slice_str(ADMIN_STATUS_OK));
        }
        return;
    case STATUS_MALFORMED:
        admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "this url is in the fleet already");
        return;
    default:
        admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "limits.backends is reached");
    }
}

void backends_api_add(const struct admin_call *call)
{
    char space[reason_size_max];
    struct text reason = text_over(space, sizeof(space));
    struct backend_body body;

    if (backend_body_read(*call->options->config, call->request->body, &body, &reason)) {
        backends_api_add_backend(call, &body.spec);
    } else {
        backends_api_refuse_body(call, &reason);
    }
    backend_body_free(&body);
}

void backends_api_change(const struct admin_call *call)
{
    char space[reason_size_max];
    struct text reason = text_over(space, sizeof(space));
    uint32_t weight;

    if (!backend_body_read_weight(call->request->body, &weight, &reason)) {
        backends_api_refuse_body(call, &reason);
        return;
    }
    fleet_set_weight(call->options->fleet, call->backend, weight);
    call->options->changed(call->options->owner);
    admin_call_written(call, 200, write_backend);
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

// A name that is not resolved yet has no backend, hence no id.
void backends_api_remove_url(const struct admin_call *call)
{
    struct roster *roster = call->options->roster;
    char space[reason_size_max];
    struct text reason = text_over(space, sizeof(space));
    char url[backend_body_url_size];

    if (!backend_body_read_url(call->request->body, url, &reason)) {
        backends_api_refuse_body(call, &reason);
    } else if (!roster_has(roster, url)) {
        admin_call_problem(call, HTTP_PROBLEM_NOT_FOUND, "no backend has that url");
    } else if (roster_remove_url(roster, url) != STATUS_OK) {
        admin_call_problem(call, HTTP_PROBLEM_CONFLICT, "it is a DNS name of the configuration");
    } else {
        send_removed(call);
    }
}

static void set_draining(const struct admin_call *call, bool draining)
{
    fleet_set_draining(call->options->fleet, call->backend, draining);
    call->options->changed(call->options->owner);
    admin_call_written(call, 200, write_backend);
}

void backends_api_drain(const struct admin_call *call)
{
    set_draining(call, true);
}

void backends_api_ready(const struct admin_call *call)
{
    set_draining(call, false);
}
