// SPDX-License-Identifier: Apache-2.0
//
// scribe.h -- the thread that writes down what workers leave behind.
//
//     worker 0  [ receipt receipt ] --.            +--> access log, slow log  (access_log.h)
//     worker 1  [ receipt ]         ---+--> scribe +--> spans to a collector  (span_exporter.h)
//     worker 2  [ ]                 --'            +--> chronicle, under a lock that no worker takes
//
// A disk that is slow or full and a collector that does not answer cost what was to be written there, which is
// counted and said once; they never cost a request, a probe or a health check.
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
    const struct config *config; // looked at only before scribe_start returns
    uint32_t worker_count;
};

struct scribe_totals {
    uint64_t written;       // lines of the access log
    uint64_t dropped_lines; // for want of a disk that takes them
    uint64_t exported;      // spans
    uint64_t dropped_spans; // the collector did not take them in time
    uint64_t lost;          // receipts: workers were faster than we
};

// Opens the logs, or says in `error` which cannot be opened, and starts the thread.
enum status scribe_start(const struct scribe_options *options, struct scribe **out,
                         char error[scribe_error_size]);

// Writes what has come so far, and ends.  The workers must be gone.  Clears the caller's pointer, which
// may be NULL.
void scribe_stop(struct scribe **scribe);

// Where that worker puts its receipts.
struct receipt_ring *scribe_ring(const struct scribe *scribe, uint32_t worker);

// Opens the files anew, under their names: somebody has moved them (SIGUSR1).
void scribe_reopen(struct scribe *scribe);

// What of a new configuration holds at once: shares, limits and formats.  Where to write needs a restart.
void scribe_set_config(struct scribe *scribe, const struct config *config);

// The chronicle, until scribe_unlock.  Short, please: receipts pile up meanwhile.
struct chronicle *scribe_lock(struct scribe *scribe);
void scribe_unlock(struct scribe *scribe);

void scribe_totals(const struct scribe *scribe, struct scribe_totals *out);
