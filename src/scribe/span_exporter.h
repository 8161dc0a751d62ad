// SPDX-License-Identifier: Apache-2.0
//
// span_exporter.h -- sends spans to a collector, by OTLP over HTTP.
//
//     receipts -> [ filling ] -- 512 spans, or a second old --> [ leaving ] -> POST /v1/traces
//
// Two batches and no more: what comes while one is on its way and the other is full is dropped and counted.
// A batch that meets no connection or a busy collector (429, 502, 503, 504) is sent once more; then it
// is dropped as well.  One that was not answered in time is not: it may have arrived.
//
// That the collector does not take spans is logged once, and once that it does again.
//
// Threads: belongs to the thread of its loop; the counts may be read by any.  Memory: taken by _create, and by
// each post a copy of its batch.
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

// Looks at the options only until it returns, but for the loop.  MALFORMED: the endpoint is no URL, or
// whom to trust cannot be read, which is logged.
enum status span_exporter_create(const struct span_exporter_options *options,
                                 struct span_exporter **out);

// Between turns of the loop only, of which there may be one more.  Drops what was not sent.  Clears the
// caller's pointer, which may be NULL.
void span_exporter_destroy(struct span_exporter **exporter);

// Takes it, if it is sampled and over.
void span_exporter_note(struct span_exporter *exporter, const struct receipt *receipt);

// Sends what is due.  To be called every now and then, whether or not there is anything new.
void span_exporter_flush(struct span_exporter *exporter);

// At the end, between turns: sends all there is and turns the loop until it is gone or `wait_ms` are
// over.
void span_exporter_finish(struct span_exporter *exporter, uint64_t wait_ms);

uint64_t span_exporter_sent(const struct span_exporter *exporter);
uint64_t span_exporter_dropped(const struct span_exporter *exporter);
