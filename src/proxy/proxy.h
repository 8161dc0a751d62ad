// SPDX-License-Identifier: Apache-2.0
//
// proxy.h -- the data plane: one worker thread a core, each with all it needs of its own.
//
//     keeper thread                       worker threads
//     plan (configuration, TLS)  ------>  take the plan and the view once a turn,
//     fleet view                 ------>  serve their own listeners, clients, connections
//     proxy_drain, proxy_stop    ------>
//     proxy_totals               <------  counters
//
// Threads: every call here is the keeper's.  Memory: workers reserve all at start; see worker.h.
#pragma once

#include "base/reclaim.h"
#include "base/slice.h"
#include "base/status.h"
#include "http/problem.h"

struct config;
struct dialect_set;
struct fleet;
struct knowledge;
struct meters;
struct proxy;
struct receipt_ring;
struct recorder;

enum { proxy_error_size = 512 };

struct proxy_options {
    const struct config *config; // kept until the next plan has taken its place
    struct fleet *fleet;
    struct reclaim *reclaim;   // its readers are the workers, by index
    struct recorder *recorder; // what requests were like goes there, too; NULL: nowhere.  Kept
    // The ring for the receipts of a worker; NULL: receipts are not read.
    struct receipt_ring *(*ring_of)(void *owner, uint32_t worker);
    void *owner;
    const struct dialect_set *dialects; // tokenizers of models; NULL: there are none.  Kept
    uint32_t worker_count;
    uint64_t descriptor_count_max; // what the system allows the process
};

struct proxy_totals {
    uint64_t request_count;
    uint64_t retry_count;
    uint64_t problem_count; // answers that were the router's own
    uint64_t problems[HTTP_PROBLEM_COUNT];
    uint64_t upstream_opened; // connections to backends, ever
    uint64_t upstream_reused; // requests that found one kept
    uint32_t upstream_idle;   // kept now
    uint32_t in_flight;
    uint32_t connection_count;
    uint64_t body_memory;
    uint64_t buffers_in_use;
};

// Binds all listeners and starts all workers, or nothing.  `error` says what failed.
enum status proxy_start(const struct proxy_options *options, struct proxy **out,
                        char error[proxy_error_size]);

// Replaces the configuration for all that comes after; what runs goes on.  On failure the old plan
// stays in force.  AGAIN: some worker has yet to see the plan before.  The old configuration may be
// freed when proxy_reclaim says so.
enum status proxy_replan(struct proxy *proxy, const struct config *config,
                         char error[proxy_error_size]);

// True, once after each change of plan, when no worker can see the configuration before it.
bool proxy_reclaim(struct proxy *proxy);

// Stop accepting, close what is idle, finish what runs.
void proxy_drain(struct proxy *proxy);
bool proxy_is_drained(const struct proxy *proxy);

// Ends all workers, whatever they do.  Clears the caller's pointer; `*proxy` may be NULL.
void proxy_stop(struct proxy **proxy);

void proxy_totals(const struct proxy *proxy, struct proxy_totals *out);

// The knowledge that all workers share.  The keeper's number as a sender of mail is the number of
// workers.
struct knowledge *proxy_knowledge(const struct proxy *proxy);
uint32_t proxy_worker_count(const struct proxy *proxy);

// The meters of that worker; NULL: metrics.enabled is false.
const struct meters *proxy_meters(const struct proxy *proxy, uint32_t worker);
const struct dialect_set *proxy_dialects(const struct proxy *proxy);

// Makes every worker take a turn soon, so that a new view is seen.
void proxy_wake(struct proxy *proxy);
