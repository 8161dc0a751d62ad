// SPDX-License-Identifier: Apache-2.0
//
// backend.h -- one inference server: what it is, how it is, and what we have sent it.
//
// What it is never changes while anyone can see it.  How it is, is a handful of atomics that every
// worker reads when it routes and writes when a request turns out well or badly:
//
//     probe      active checks say up or down (unknown until the first one)
//     breaker    after `eject_failures` faults in a row nobody sends here until `ejected_until`;
//                then exactly one request is let in on trial: it closes the breaker or renews it
//     busy       the server said 429 or 503: it is well, but others are preferred for a while
//
//            faults                time passes              trial succeeds
//     closed ------> ejected ------------------> half open ----------------> closed
//                       ^                            |  trial fails
//                       +----------------------------+  (twice as long)
//
// Requests in flight are counted from backend_begin to backend_end, on every path a request can
// take; the sum over the fleet returns to zero when all have ended.
//
// Threads: any.  No locks: a lost race costs one request more or less on a sick backend.
#pragma once

#include "base/address.h"
#include "fleet/load.h"
#include "fleet/truth.h"

#include <stdatomic.h>

enum backend_tier {
    BACKEND_READY,
    BACKEND_BUSY, // asked us to come back later
    BACKEND_DOWN, // by its probes or by the breaker: used when there is no other
};

enum backend_outcome {
    BACKEND_ANSWERING, // a good head: enough to pass a trial, not to forget the faults before it
    BACKEND_SUCCESS,   // an answer that came to its end
    BACKEND_FAULT,     // transport errors, timeouts, 500, 502, 504, answers that are no HTTP
};

// How well its KV events tell what it holds.
enum backend_events {
    BACKEND_EVENTS_NONE,     // it sends none, or none has come
    BACKEND_EVENTS_LEARNING, // there may be more than what they have told
    BACKEND_EVENTS_LIVE,     // they tell all
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
    char *url; // how the operator named it, and for names with several addresses which one
    char *host;
    char *authority;     // host and port, as a Host field has them
    char *authorization; // "Bearer …", or NULL
    uint16_t port;
    bool tls;
    struct address address;
    uint64_t identity; // hash of the url
    // Which data-parallel rank of the server this is; requests name it when there are several.
    uint64_t
        server; // the id of the first rank, which stands for the process; its own if it is alone
    uint32_t rank;
    uint32_t rank_count; // 1: the server is one
    // Where it publishes its KV events, as ZeroMQ spells it, with the rank's own port; NULL: nowhere.  `poll`:
    // it tells them when it is asked.
    char *events;
    char *events_replay; // where missed ones can be had; NULL: nowhere
    char *events_topic;  // what its topic begins with; "": it may be any

    // Written and read by all workers and by the prober.
    struct {
        _Alignas(64) atomic_uint in_flight; // all of it is one cache line
        atomic_uint failures;               // in a row
        atomic_uint ejections;              // in a row
        atomic_uint probe;                  // enum backend_probe
        atomic_uint lives;                  // how often it came back with nothing of what it held
        atomic_uint events;                 // enum backend_events; written by who reads them
        atomic_uint events_wrong; // how often answers have shown that they do not tell the truth
        atomic_bool trial;        // a trial request is under way
        atomic_bool removed;      // no longer in a view: connections to it are not kept
        atomic_uint_fast64_t ejected_until_ms; // 0: the breaker is closed
        atomic_uint_fast64_t busy_until_ms;
        atomic_uint_fast64_t request_count;
        atomic_uint_fast64_t failure_count;
    } shared;

    struct load load;   // on cache lines of its own
    struct truth truth; // as well
};

// Whether it tells its KV events when it is asked (feed/kv_poller.h), instead of publishing them.
bool backend_is_polled(const struct backend *backend);

enum backend_tier backend_tier(const struct backend *backend, uint64_t now_ms);

// Counts a request in.  False, and nothing is counted, when the breaker is half open and another
// request is on trial; never false with `anyway`.  *on_trial says whether this one is.
bool backend_begin(struct backend *backend, uint64_t now_ms, bool anyway, bool *on_trial);

// What the request showed.  May be said more than once (a good head, then a reset).  `on_trial` as
// backend_begin said: while the breaker is half open, what other requests show is counted and decides
// nothing, because they may be as old as the ejection.
void backend_judge(struct backend *backend, enum backend_outcome outcome, bool on_trial,
                   uint64_t now_ms, const struct backend_rules *rules);

// The server asked for a pause.
void backend_set_busy(struct backend *backend, uint64_t until_ms);

// Counts the request out.  `on_trial` as backend_begin said: a trial that was never judged is over.
void backend_end(struct backend *backend, bool on_trial);

// Nobody listens there: the process is gone, and what it held with it.
void backend_lost(struct backend *backend);

// The prober's verdict; up ends an ejection early, to a trial.  Who was down has lost what it held.
void backend_set_probe(struct backend *backend, enum backend_probe probe, uint64_t now_ms);

// For people: none, learning, live.
const char *backend_events_text(const struct backend *backend);

// For people: up, down, ejected, half_open.
const char *backend_state(const struct backend *backend, uint64_t now_ms);
