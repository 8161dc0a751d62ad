// SPDX-License-Identifier: Apache-2.0
//
// admin_call.h -- one request to the admin API, as its handlers see it, and its response.
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
    struct text *reason;     // of a refusal
    struct text *out;
};

// A problem, or the status of the document that the handler has written; 0: it has written the
// whole response to `out`.
struct admin_result {
    uint16_t status;
    enum http_problem problem;
};

typedef struct admin_result admin_handler(const struct admin_call *call, struct json_writer *json);

enum {
    admin_head_size_max = 256, // of a response
    admin_reason_size_max = 1024,
};

static inline struct admin_result admin_done(uint16_t status)
{
    return (struct admin_result){.status = status};
}

struct admin_result admin_refuse(const struct admin_call *call, enum http_problem problem,
                                 const char *reason);

struct admin_result admin_refuse_memory(const struct admin_call *call);

// The document of a change that has nothing to show: {"status":"ok"}.
void admin_put_status(struct json_writer *json, const char *status);

// Runs the handler and writes the whole response to `out`; problem 500 if it does not fit.
void admin_call_run(struct admin_call *call, admin_handler *handler);
