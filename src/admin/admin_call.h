// SPDX-License-Identifier: Apache-2.0
//
// admin_call.h -- one request to the admin API, as its handlers see it, and the ways to answer it.
//
// Every answer is one whole message that ends the connection.  None may be kept by a browser or a proxy, and
// none is meant for pages of other sites: there are no CORS fields.
#pragma once

#include "admin/admin.h"
#include "admin/admin_api.h"
#include "http/problem.h"

struct backend;
struct text;

// What a handler has to do with.
struct admin_call {
    const struct admin_options *options;
    const struct admin_request *request;
    uint64_t now_ms;
    uint64_t uptime_ms;
    struct backend *backend; // of paths that name one
    struct slice name;       // of paths that have one in them, as it was spelt
    struct text *out;
};

enum { admin_answer_head_size = 256 }; // of admin_call_document, at most

typedef void admin_write_fn(const struct admin_call *call, struct text *json);

void admin_call_problem(const struct admin_call *call, enum http_problem which, const char *detail);

void admin_call_document(const struct admin_call *call, uint16_t status, struct slice json);

// Runs `write` into memory of its own and sends what came out.
void admin_call_written(const struct admin_call *call, uint16_t status, admin_write_fn *write);

// Adds a number, or null where it is not a number or has no end: JSON has no word for that.
void admin_add_number(struct text *json, double number);
