// SPDX-License-Identifier: Apache-2.0
//
// backend.h -- one backend: its identity, its health, and the requests in flight to it.
//
// The identity never changes while a view shows the backend.  Its health is a handful of atomics
// that every worker reads when it routes and writes when a request succeeds or fails:
//
//     probe      active checks say up or down (unknown until the first one)
//     breaker    after `eject_failures` faults in a row it is ejected until `ejected_until`;
//                then exactly one request is let in on trial: it closes the breaker or renews it
//     stalled    it has made no progress on its requests for long (progress.h)
//     busy       the server responded 429 or 503: healthy, but others are preferred for a while
//
//            faults                time passes              trial succeeds
//     closed ------> ejected ------------------> half open ----------------> closed
//                       ^                            |  trial fails
//                       +----------------------------+  (twice as long)
//
// Requests in flight are counted from backend_begin to backend_end, on every path a request can
// take; the sum over the fleet returns to zero when all have ended.
//
// Threads: any.  No locks: a lost race costs one request more or less on a faulty backend.
#pragma once

#include "base/address.h"
#include "fleet/load.h"
#include "fleet/progress.h"
#include "fleet/refusals.h"
#include "fleet/truth.h"

#include <stdatomic.h>

enum backend_tier {
    BACKEND_READY,
    BACKEND_BUSY, // asked us to come back later
    BACKEND_DOWN, // by its probes or the breaker, or stalled: used if all others are down too
};

enum backend_outcome {
    BACKEND_RESPONDING, // a good head: enough to pass a trial, not to clear earlier faults
    BACKEND_SUCCESS,    // a complete response
    BACKEND_FAULT,      // 500, 502, 504, a reset, no response in time, invalid HTTP
    BACKEND_UNREACHED,  // a fault too: no connection
};

// How complete our record of its blocks is.
enum backend_events {
    BACKEND_EVENTS_NONE,     // no KV event has come
    BACKEND_EVENTS_LEARNING, // it may hold blocks that no event has told
    BACKEND_EVENTS_LIVE,     // the record is complete
};

enum backend_probe { BACKEND_PROBE_UNKNOWN, BACKEND_PROBE_UP, BACKEND_PROBE_DOWN };

struct backend_rules {
    uint32_t eject_failures; // 0: never eject
    uint32_t eject_time_ms;
    uint32_t eject_time_max_ms;
};

struct backend {
    // Immutable while the backend is in a view.
    uint64_t id;
    uint32_t slot;
    uint32_t pool;
    char *url; // as configured, with the address if its name has several, and with the rank
    char *host;
    char *authority;     // host and port, as a Host field has them
    char *authorization; // "Bearer …", or NULL
    uint16_t port;
    bool tls;
    struct address address;
    uint64_t identity;   // hash of the url
    uint64_t server;     // the id of the server's first rank, which stands for the process
    uint32_t rank;       // data-parallel; requests name it if the server has several
    uint32_t rank_count; // 1: the server has no ranks
    // The ZeroMQ endpoint of its KV events, with the rank's own port; NULL: none.  `poll`: it sends
    // them when it is asked.
    char *events;
    char *events_replay; // the endpoint that replays missed ones; NULL: none
    char *events_topic;  // prefix of its topic; "": any

    // The keeper's own.
    uint64_t seen_moved_ms; // at its last look
    float queue_ms;         // that the prompts in the queue would take, when it moved last
    bool is_doubted;        // its last look found no progress
    bool was_stalled;       // as it was logged last

    // Written and read by all workers and by the prober.
    struct {
        _Alignas(64) atomic_uint in_flight; // one cache line but for the last word
        atomic_uint failures;               // in a row
        atomic_uint ejections;              // in a row
        atomic_uint probe;                  // enum backend_probe
        atomic_uint lives;                  // restarts: its cache is empty after each
        atomic_uint events;                 // enum backend_events; written by the KV feeder
        atomic_uint events_wrong;           // how often responses contradicted its KV events
        atomic_bool trial;                  // a trial request is in flight
        atomic_bool unreached;              // the last ejection was for want of a connection
        atomic_bool stalled;                // no progress: set by the keeper, cleared by output
        atomic_bool refuses;                // some kind of request: see `refusals`
        atomic_bool removed;                // no longer in a view: connections to it are not kept
        atomic_uint_fast64_t ejected_until_ms; // 0: the breaker is closed
        atomic_uint_fast64_t busy_until_ms;
        atomic_uint_fast64_t request_count;
        atomic_uint_fast64_t failure_count;
    } shared;

    struct load load;         // on cache lines of its own
    struct truth truth;       // as well
    struct refusals refusals; // as well
    struct progress progress; // as well
};

// Whether its KV events are polled (feed/kv_poller.h), not published.
bool backend_is_polled(const struct backend *backend);

enum backend_tier backend_tier(const struct backend *backend, uint64_t now_ms);

// Counts a request in.  False, and nothing is counted, when the breaker is half open and another
// request is on trial; never false with `anyway`.  *on_trial says whether this one is.
bool backend_begin(struct backend *backend, uint64_t now_ms, bool anyway, bool *on_trial);

// Notes the outcome of a request.  May be called more than once (a good head, then a reset).
// `on_trial` as from backend_begin: while the breaker is half open, outcomes of other requests are
// only counted, because they may be as old as the ejection.
void backend_judge(struct backend *backend, enum backend_outcome outcome, bool on_trial,
                   uint64_t now_ms, const struct backend_rules *rules);

// The server responded 429 or 503.
void backend_set_busy(struct backend *backend, uint64_t until_ms);

// Counts the request out.  `on_trial` as from backend_begin: ends a trial without an outcome.
void backend_end(struct backend *backend, bool on_trial);

// The connection was refused: the process is gone, and its cache with it.
void backend_lost(struct backend *backend);

// The prober's verdict.  Up after down ends any ejection, with a trial, and the cache counts as
// lost.  Otherwise up ends only an ejection for want of a connection: a backend whose requests fail
// while its probes succeed would fail one more request after each probe.
void backend_set_probe(struct backend *backend, enum backend_probe probe, uint64_t now_ms);

// For display: none, learning, live.
const char *backend_events_text(const struct backend *backend);

// The keeper's judgement of its progress, each time it looks; `stall_ms` is progress_stalled_ms.
void backend_set_stalled(struct backend *backend, uint64_t stall_ms);

// Output has come: it is not stalled.
void backend_moved(struct backend *backend);

// For display: up, down, ejected, half_open, stalled.
const char *backend_state(const struct backend *backend, uint64_t now_ms);
