// SPDX-License-Identifier: Apache-2.0
//
// admin_call.h -- one request to the admin API, as its handlers see it, and the ways to respond.
//
// Every response is one whole message that ends the connection.  Browsers and proxies must not
// store it, and pages of other sites must not read it: there are no CORS fields.
#pragma once

#include "admin/admin.h"
#include "admin/admin_api.h"
#include "http/problem.h"

struct backend;
struct json_writer;
struct text;

struct admin_call {
    const struct admin_options *options;
    const struct admin_request *request;
    uint64_t now_ms;
    uint64_t uptime_ms;
    struct backend *backend; // of paths with an id
    struct slice name;       // the variable part of the path, percent-encoded
    struct text *out;
};

#define ADMIN_STATUS_OK "{\"status\":\"ok\"}"

enum { admin_response_head_size = 256 }; // of admin_call_document, at most

typedef void admin_write_fn(const struct admin_call *call, struct json_writer *json);

void admin_call_problem(const struct admin_call *call, enum http_problem which, const char *detail);

void admin_call_document(const struct admin_call *call, uint16_t status, struct slice json);

// Runs `write` into a buffer and sends the result; problem 500 if it does not fit.
void admin_call_written(const struct admin_call *call, uint16_t status, admin_write_fn *write);
