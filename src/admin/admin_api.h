// SPDX-License-Identifier: Apache-2.0
//
// admin_api.h -- the paths of the admin API: a request in, a response out, no sockets.
#pragma once

#include "base/slice.h"

struct admin_call;
struct admin_result;
struct json_writer;
struct admin_options;
struct text;

struct admin_request {
    struct slice method;
    struct slice path;
    struct slice target; // the path and the query
    struct slice body;
};

// Carries out the request and writes the whole response, head included.  `uptime_ms` is the age of
// the process, `now_ms` the loop's time.
void admin_api_respond(const struct admin_options *options, const struct admin_request *request,
                       uint64_t now_ms, uint64_t uptime_ms, struct text *out);

// Whether it asks for the stream of events: then the listener responds itself (stream.h), and
// admin_api_respond only if it cannot.
bool admin_api_is_stream(const struct admin_request *request);

// Ends with a row without a path.
struct admin_path {
    const char *method;
    const char *path; // `#` stands for a backend's id, `*` for another name
    struct admin_result (*run)(const struct admin_call *call, struct json_writer *json);
    const char *help;
};

extern const struct admin_path admin_paths[];
