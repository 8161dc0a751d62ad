// SPDX-License-Identifier: Apache-2.0
//
// admin.h -- the operator's API: JSON over HTTP, on its own listener, behind a bearer token.
//
//     GET /health, /status, /metrics, /overview, /backends …  all are in paths.def
//     GET /stream                                             the overview once a second (stream.h)
//     GET /dashboard                                          the page, without a token (web.h)
//
// A second listener serves GET /metrics alone, without a token.  Either may be missing.
//
// Each connection carries one request, or is a stream until it ends.  All limits are small and
// fixed: this is not a data plane.
//
// Threads: the keeper's.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct admin;
struct config;
struct cluster;
struct kv_feeder;
struct fleet;
struct loop;
struct proxy;
struct recorder_totals;
struct roster;
struct scribe;

enum { admin_error_size = 512 };

struct admin_options {
    struct loop *loop;
    const char *listen;         // NULL: no API
    const char *metrics_listen; // NULL: metrics only through the API
    struct fleet *fleet;
    struct roster *roster;
    struct config *const *config;           // the one in force
    struct proxy *const *proxy;             // NULL until it has started
    const struct recorder_totals *recorded; // NULL: nothing is recorded
    void (*changed)(void *owner);           // publishes the fleet before the response is sent
    // Hands a document of KV events to the feeder (kv_feeder_push).  NULL: KV events are off.
    enum status (*push_events)(void *owner, uint64_t backend_id, struct slice json);
    struct cluster *const *cluster;  // both may be NULL: this router is alone
    struct kv_feeder *const *feeder; // both may be NULL: KV events are off
    // Source of decisions and time series; both pointers may be NULL: there are none then.
    struct scribe *const *scribe;
    uint64_t process_start_ms; // when the process began, since 1970
    void *owner;
};

static inline struct scribe *admin_scribe(const struct admin_options *options)
{
    return options->scribe != NULL ? *options->scribe : NULL;
}

static inline struct cluster *admin_cluster(const struct admin_options *options)
{
    return options->cluster != NULL ? *options->cluster : NULL;
}

static inline struct kv_feeder *admin_feeder(const struct admin_options *options)
{
    return options->feeder != NULL ? *options->feeder : NULL;
}

enum status admin_open(const struct admin_options *options, struct admin **out,
                       char error[admin_error_size]);

// Clears the caller's pointer, which may be NULL.
void admin_close(struct admin **admin);
