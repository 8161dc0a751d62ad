// SPDX-License-Identifier: Apache-2.0
//
// traceparent.h -- the field that carries a trace from service to service (W3C Trace Context).
//
//     00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//     ^version  ^trace                    ^parent          ^flags
//
// Versions above 00 are read as far as 00 goes, which the specification asks for; what is written
// is always version 00.
#pragma once

#include "base/slice.h"

struct http_head;
struct text;

enum { traceparent_size = 55 };

enum {
    TRACEPARENT_SAMPLED = 1, // a peer records this trace
    TRACEPARENT_RANDOM = 2,  // the lower half of its id is random
};

struct traceparent {
    uint64_t trace[2]; // never both zero
    uint64_t parent;   // the span that asks; never zero
    uint8_t flags;     // those above; others mean nothing yet and must not be passed on
};

// False: it breaks the specification, and the receiver begins a trace of its own.
bool traceparent_parse(struct slice value, struct traceparent *out);

// The one of a request.  False: it has none, or more than one, or it cannot be read.
bool traceparent_find(const struct http_head *head, struct traceparent *out);

// Appends traceparent_size bytes.
void traceparent_write(const struct traceparent *traceparent, struct text *out);
