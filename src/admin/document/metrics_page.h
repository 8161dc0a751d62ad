// SPDX-License-Identifier: Apache-2.0
//
// metrics_page.h -- the body of GET /metrics: every row of the table with its values.
//
// Numbers are read while workers change them, so they are not from one moment.  A metric without a
// source has its help and no values.
//
// Threads: the keeper's.
#pragma once

#include "base/slice.h"
#include "sys/process.h"

struct cluster_status;
struct config;
struct dialect_set;
struct fleet;
struct knowledge_status;
struct kv_feed_status;
struct meters;
struct prefix_ledger_usage;
struct proxy_totals;
struct recorder_totals;
struct scribe_totals;
struct text;

// The sources of the numbers; all but the fleet may be missing.
struct metrics_page_input {
    const struct fleet *fleet;
    const struct config *config; // for names of pools
    uint64_t now_ms;             // the loop's
    const struct proxy_totals *totals;
    const struct meters *const *meters; // by worker; each may be NULL
    uint32_t worker_count;
    const struct knowledge_status *known;
    const struct prefix_ledger_usage *ledger;
    uint64_t stray_count;
    bool (*events)(void *owner, uint64_t backend_id, struct kv_feed_status *out);
    void *events_owner;
    const struct dialect_set *dialects;
    const struct cluster_status *cluster;
    const struct scribe_totals *scribe;
    const struct recorder_totals *recorded;
    const struct process_figures *process;
};

// Enough for a page of so many backends with names of usual length.
size_t metrics_page_size_max(uint32_t backend_count);

// False: out of memory, or the text is too small.
bool metrics_page_write(const struct metrics_page_input *input, struct text *out);
