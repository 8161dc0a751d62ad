// SPDX-License-Identifier: Apache-2.0

#include "http/forward.h"

#include "base/base.h"
#include "base/text.h"
#include "http/head.h"

static void forward_add_field(struct text *out, struct slice name, struct slice value)
{
    text_add(out, name);
    text_add_str(out, ": ");
    text_add(out, value);
    text_add_str(out, "\r\n");
}

static bool request_drops(const struct http_head *head, const struct http_field *field,
                          const struct http_forward_request *how)
{
    if (field->name == HTTP_NAME_AUTHORIZATION) {
        return !how->keep_authorization;
    }
    if (field->name == HTTP_NAME_FORWARDED_FOR && how->forwarded_for.size > 0) {
        return true;
    }
    if (field->name == HTTP_NAME_DATA_PARALLEL_RANK && how->rank.size > 0) {
        return true;
    }
    if (field->name == HTTP_NAME_TRACEPARENT && how->traceparent.size > 0) {
        return true;
    }
    if (field->name == HTTP_NAME_TRACESTATE && how->begins_trace) {
        return true;
    }
    return http_field_is_hop_by_hop(head, field);
}

static void add_forwarded_for(const struct http_head *head, struct slice address, struct text *out)
{
    text_add_str(out, "x-forwarded-for: ");
    for (uint32_t i = 0; i < head->field_count; i++) {
        if (head->fields[i].name == HTTP_NAME_FORWARDED_FOR) {
            text_add(out, http_field_value(head, &head->fields[i]));
            text_add_str(out, ", ");
        }
    }
    text_add(out, address);
    text_add_str(out, "\r\n");
}

void http_forward_request(const struct http_head *head, const struct http_forward_request *how,
                          struct text *out)
{
    ASSERT(head->kind == HTTP_KIND_REQUEST && head->size > 0);

    text_add(out, http_head_method(head));
    text_add_str(out, " ");
    text_add(out, http_head_target(head));
    text_add_str(out, " HTTP/1.1\r\n");
    if (http_head_find(head, HTTP_NAME_HOST) == NULL) {
        forward_add_field(out, slice_str("host"), how->host);
    }
    bool has_request_id = false;
    for (uint32_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (request_drops(head, field, how)) {
            continue;
        }
        has_request_id |= field->name == HTTP_NAME_REQUEST_ID;
        if (field->name == HTTP_NAME_CONTENT_LENGTH && how->content_length > 0) {
            text_add_str(out, "content-length: ");
            text_add_u64(out, how->content_length);
            text_add_str(out, "\r\n");
            continue;
        }
        forward_add_field(out, http_field_name(head, field), http_field_value(head, field));
    }
    if (head->framing == HTTP_CHUNKED) {
        text_add_str(out, "transfer-encoding: chunked\r\n");
    }
    if (!how->keep_authorization && how->authorization.size > 0) {
        forward_add_field(out, slice_str("authorization"), how->authorization);
    }
    if (!has_request_id) {
        forward_add_field(out, slice_str("x-request-id"), how->request_id);
    }
    if (how->rank.size > 0) {
        forward_add_field(out, slice_str("X-data-parallel-rank"), how->rank);
    }
    if (how->traceparent.size > 0) {
        forward_add_field(out, slice_str("traceparent"), how->traceparent);
    }
    if (how->forwarded_for.size > 0) {
        add_forwarded_for(head, how->forwarded_for, out);
    }
    text_add_str(out, "\r\n");
}

void http_forward_response(const struct http_head *head, const struct http_forward_response *how,
                           struct text *out)
{
    ASSERT(head->kind == HTTP_KIND_RESPONSE && head->size > 0);

    text_add_str(out, "HTTP/1.1 ");
    text_add_u64(out, head->status);
    text_add_str(out, " ");
    text_add(out, http_head_at(head, head->reason_at, head->reason_size));
    text_add_str(out, "\r\n");
    bool has_request_id = false;
    for (uint32_t i = 0; i < head->field_count; i++) {
        const struct http_field *field = &head->fields[i];
        if (http_field_is_hop_by_hop(head, field)) {
            continue;
        }
        has_request_id |= field->name == HTTP_NAME_REQUEST_ID;
        forward_add_field(out, http_field_name(head, field), http_field_value(head, field));
    }
    if (how->chunked) {
        text_add_str(out, "transfer-encoding: chunked\r\n");
    }
    if (how->close || how->say_keep_alive) {
        text_add_str(out, how->close ? "connection: close\r\n" : "connection: keep-alive\r\n");
    }
    if (!has_request_id && how->request_id.size > 0) {
        forward_add_field(out, slice_str("x-request-id"), how->request_id);
    }
    if (how->backend.size > 0) {
        forward_add_field(out, slice_str("x-warmpath-backend"), how->backend);
    }
    if (how->decision.size > 0) {
        forward_add_field(out, slice_str("x-warmpath-decision"), how->decision);
    }
    text_add_str(out, "\r\n");
}
