// SPDX-License-Identifier: Apache-2.0
//
// span_json.h -- receipts as spans: the body of an OTLP/HTTP request in JSON.
//
//     begin  {"resourceSpans":[{"resource":…,"scopeSpans":[{"scope":…,"spans":[
//     add    one span for each receipt, while there is space
//     end    ]}]}]}
//
// Names are those of OpenTelemetry's semantic conventions where these have one, else `warmpath.…`.
// Unknown values are left out.  docs/tracing.md lists all of them.
//
// Receipts have only the durations of stages, all attempts together.  As events they follow one
// another from the moment when the request was complete, and end before it was sent.
//
// Memory: the caller's.
#pragma once

#include "base/text.h"
#include "json/json_writer.h"

struct receipt;

// A batch of spans.  Must not be copied between begin and end: the writer points into it.
struct span_json {
    struct text out;
    struct json_writer json;
    uint32_t span_count;
};

enum {
    // The longest span, and the text around all of them without the names that the caller gives.
    span_json_span_size_max = 16384,
    span_json_frame_size_max = 512,
};

// `space` has room for the frame at least.  Keeps it.
void span_json_begin(struct span_json *batch, void *space, size_t capacity, const char *service,
                     const char *version);

// False: it does not fit, and nothing was added.  The request must have ended and have a trace.
bool span_json_add(struct span_json *batch, const struct receipt *receipt);

// The whole text.  Only span_json_begin may follow.
struct slice span_json_end(struct span_json *batch);
