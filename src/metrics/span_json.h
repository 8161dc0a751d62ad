// SPDX-License-Identifier: Apache-2.0
//
// span_json.h -- receipts as spans: the body of an OTLP/HTTP request in JSON.
//
//     begin  {"resourceSpans":[{"resource":…,"scopeSpans":[{"scope":…,"spans":[
//     add    one span a receipt, while there is room
//     end    ]}]}]}
//
// Names are those of OpenTelemetry's semantic conventions where these have one, else `warmpath.…`.  What is
// not known is left out.  docs/tracing.md lists all of it.
//
// Stages are told by receipts as durations alone, all attempts together.  As events they stand one behind the
// other from when the request was complete, and never after it was sent.
//
// Memory: the caller's.
#pragma once

#include "base/text.h"

struct receipt;

struct span_json {
    struct text out;
    uint32_t span_count;
};

enum {
    // What a span can take at most, and what stands around all of them, but for the names handed in.
    span_json_span_size_max = 16384,
    span_json_frame_size_max = 512,
};

// `space` has room for the frame at least.  Keeps it.
void span_json_begin(struct span_json *json, void *space, size_t capacity, const char *service,
                     const char *version);

// False: it does not fit, and nothing was added.  The request must be over and have a trace.
bool span_json_add(struct span_json *json, const struct receipt *receipt);

// The whole text.  Only span_json_begin may follow.
struct slice span_json_end(struct span_json *json);
