// SPDX-License-Identifier: Apache-2.0
//
// span_exporter.h -- sends spans to a collector, by OTLP over HTTP.
//
//     receipts -> [ filling ] -- 512 spans, or a second old --> [ leaving ] -> POST /v1/traces
//
// There are two batches: while one is sent and the other is full, further spans are dropped and
// counted.  A batch that finds no connection or a busy collector (429, 502, 503, 504) is sent once
// more, then dropped.  After a time-out it is not sent again: it may have arrived.
//
// The log says once that the collector does not accept spans, and once that it does again.
//
// Threads: belongs to the thread of its loop; counts may be read by any.  Memory: taken by _create,
// and a copy of the batch for each post.
#pragma once

#include "base/status.h"

#include <stdint.h>

struct config;
struct loop;
struct receipt;
struct span_exporter;

struct span_exporter_options {
    struct loop *loop;
    const char *endpoint; // as config_collector_split reads it; without a path: /v1/traces
    const char *service;
    // For dns.servers and backend_tls; NULL: the system's servers and authorities.
    const struct config *config;
};

// Keeps the loop of the options, nothing else.  MALFORMED: the endpoint is not a valid URL, or the
// certificates cannot be read, which is logged.
enum status span_exporter_create(const struct span_exporter_options *options,
                                 struct span_exporter **out);

// Only between turns of the loop; may run one more turn.  Drops unsent spans.  Clears the caller's
// pointer, which may be NULL.
void span_exporter_destroy(struct span_exporter **exporter);

// Adds the span of a request that has ended and is sampled; ignores others.
void span_exporter_note(struct span_exporter *exporter, const struct receipt *receipt);

// Sends a batch that is full or old enough.  To be called regularly.
void span_exporter_flush(struct span_exporter *exporter);

// At the end, between turns: sends all spans and runs the loop until they are sent, or `wait_ms`
// have passed.
void span_exporter_finish(struct span_exporter *exporter, uint64_t wait_ms);

uint64_t span_exporter_sent(const struct span_exporter *exporter);
uint64_t span_exporter_dropped(const struct span_exporter *exporter);
