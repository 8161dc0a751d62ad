// SPDX-License-Identifier: Apache-2.0
//
// proxy.h -- the data plane: worker threads, which share nothing that is written per request.
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
struct policy_memory;
struct proxy;
struct receipt_ring;
struct recorder;

enum { proxy_error_size = 512 };

struct proxy_options {
    const struct config *config; // kept until the next plan has taken its place
    struct fleet *fleet;
    struct reclaim *reclaim;   // its readers are the workers, by index
    struct recorder *recorder; // gets an entry for each request; NULL: none.  Kept
    // The ring for the receipts of a worker; NULL: receipts are not read.
    struct receipt_ring *(*ring_of)(void *owner, uint32_t worker);
    void *owner;
    const struct dialect_set *dialects; // tokenizers of models; may be NULL.  Kept
    uint32_t worker_count;
    uint64_t descriptor_count_max; // that the system allows the process; 0: no limit
};

struct proxy_totals {
    uint64_t request_count;
    uint64_t retry_count;
    uint64_t poison_count;  // requests with a poison prompt that got no byte
    uint64_t problem_count; // responses of the router itself
    uint64_t problems[HTTP_PROBLEM_COUNT];
    uint64_t upstream_opened; // connections to backends, ever
    uint64_t upstream_reused; // requests that found one kept
    uint32_t upstream_idle;   // kept now
    uint32_t in_flight;
    uint32_t connection_count;
    uint64_t body_memory;
    uint64_t buffers_in_use;
};

// Binds all listeners and starts all workers, or fails and leaves nothing behind; see `error`.
enum status proxy_start(const struct proxy_options *options, struct proxy **out,
                        char error[proxy_error_size]);

// Replaces the configuration for later requests.  On failure the old plan stays in force.  AGAIN: a
// worker has not seen the plan before this one yet.  proxy_reclaim says when the old configuration
// may be freed.
enum status proxy_replan(struct proxy *proxy, const struct config *config,
                         char error[proxy_error_size]);

// True, once after each change of plan, when no worker can see the configuration before it.
bool proxy_reclaim(struct proxy *proxy);

// Stops accepting, closes idle connections, lets requests finish.
void proxy_drain(struct proxy *proxy);
bool proxy_is_drained(const struct proxy *proxy);

// Ends all workers at once; requests in flight fail.  Clears the caller's pointer; `*proxy` may be
// NULL.
void proxy_stop(struct proxy **proxy);

void proxy_totals(const struct proxy *proxy, struct proxy_totals *out);

// The knowledge that all workers share.  The keeper is its sender number proxy_worker_count, the
// thread of the cluster the next one.
struct knowledge *proxy_knowledge(const struct proxy *proxy);
uint32_t proxy_worker_count(const struct proxy *proxy);

// The meters of that worker; NULL: metrics.enabled is false.
const struct meters *proxy_meters(const struct proxy *proxy, uint32_t worker);
// The memory of that pool's policy, which all workers share; NULL: the policy has no state, or the
// configuration in force has no such pool.
struct policy_memory *proxy_policy_memory(const struct proxy *proxy, uint32_t pool);
const struct dialect_set *proxy_dialects(const struct proxy *proxy);

// Makes every worker take a turn soon, so that a new view is seen.
void proxy_wake(struct proxy *proxy);
