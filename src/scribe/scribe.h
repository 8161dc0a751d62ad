// SPDX-License-Identifier: Apache-2.0
//
// scribe.h -- the thread that writes requests down: logs, spans, the chronicle.
//
//     worker 0  [ receipt receipt ] --.            +--> access log, slow log  (access_log.h)
//     worker 1  [ receipt ]         ---+--> scribe +--> spans to a collector  (span_exporter.h)
//     worker 2  [ ]                 --'            +--> chronicle, under a lock of its own
//
// When a disk is slow or full, or a collector does not respond, lines or spans are dropped,
// counted, and logged once.  Requests, probes and health checks are not affected.
//
// Threads: all calls are the keeper's.
#pragma once

#include "base/status.h"
#include "chronicle/chronicle.h"

struct config;
struct receipt_ring;
struct scribe;

enum { scribe_error_size = 512 };

struct scribe_options {
    const struct config *config; // used only until scribe_start returns
    uint32_t worker_count;
};

struct scribe_totals {
    uint64_t written;       // lines of the access log
    uint64_t dropped_lines; // the file could not be written
    uint64_t exported;      // spans
    uint64_t dropped_spans; // the collector did not accept them in time
    uint64_t lost;          // receipts: the scribe fell behind
};

// Opens the logs and starts the thread; on failure `error` says why.
enum status scribe_start(const struct scribe_options *options, struct scribe **out,
                         char error[scribe_error_size]);

// Writes all receipts and ends.  The workers must have ended.  Clears the caller's pointer, which
// may be NULL.
void scribe_stop(struct scribe **scribe);

// The ring for the receipts of that worker.
struct receipt_ring *scribe_ring(const struct scribe *scribe, uint32_t worker);

// Opens the files again, after a rotation (SIGUSR1).
void scribe_reopen(struct scribe *scribe);

// Applies sampling, limits and formats of a new configuration.  Changed paths need a restart.
void scribe_set_config(struct scribe *scribe, const struct config *config);

// The chronicle, until scribe_unlock.  Hold the lock shortly: receipts wait for it.
struct chronicle *scribe_lock(struct scribe *scribe);
void scribe_unlock(struct scribe *scribe);

void scribe_totals(const struct scribe *scribe, struct scribe_totals *out);
