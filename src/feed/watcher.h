// SPDX-License-Identifier: Apache-2.0
//
// watcher.h -- asks each backend one question, again and again, one fetch at a time for each
// backend.
//
// The prober, the scraper and the poller own watchers: they say what to ask and what a response
// means; the watcher owns timers, fetches and the TLS context.  The next question follows from what
// the response was:
//
//     WATCHER_AGAIN     an interval after the last question
//     WATCHER_FAILED    after an interval, twice that, ... up to a minute
//     WATCHER_ABSENT    the backend does not have it: after a minute
//     WATCHER_NOW       at once, by another path
//
// An interval is shortened by up to a twentieth at random, so that backends which were added
// together drift apart.  A slow response delays the next question until half an interval after it.
// When the prober finds a backend up again, the watcher stops waiting within an interval.
//
// Threads: the keeper's.
#pragma once

#include "net/fetch.h"

struct backend;
struct config;
struct watcher;

enum watcher_next { WATCHER_AGAIN, WATCHER_FAILED, WATCHER_ABSENT, WATCHER_NOW };

struct watcher_options {
    struct loop *loop;
    uint32_t slot_count;      // backends have slots below this
    bool asks_each_rank;      // otherwise the first rank of a server is asked for all ranks
    bool asks_at_once;        // a new backend; otherwise somewhere in its first interval
    struct slice body;        // JSON to post, kept; empty: GET
    size_t response_size_max; // as in fetch_options
    bool takes_part;          // as in fetch_options
    const char *(*path)(void *owner, const struct backend *backend);
    // May forget backends, this one included.
    enum watcher_next (*heard)(void *owner, struct backend *backend,
                               const struct fetch_result *result);
    void *owner;
};

struct watcher_schedule {
    const struct config *config; // for backend_tls; kept until the next schedule
    uint32_t interval_ms;        // 0: do not ask
    uint32_t timeout_ms;
};

// NULL when memory is short.  Asks after watcher_set_schedule.
struct watcher *watcher_create(const struct watcher_options *options);

// Clears the caller's pointer, which may be NULL.
void watcher_destroy(struct watcher **watcher);

// Takes effect at once: backends that failed or had nothing are asked again within an interval.
// With `is_anew` questions in flight are cancelled and asked again, because paths have changed.
void watcher_set_schedule(struct watcher *watcher, const struct watcher_schedule *schedule,
                          bool is_anew);

// Starts and stops asking a backend.  The first rank of a server comes first.
void watcher_watch(struct watcher *watcher, struct backend *backend);
void watcher_forget(struct watcher *watcher, const struct backend *backend);

// Asks a watched backend now, unless a question is in flight.
void watcher_ask(struct watcher *watcher, const struct backend *backend);

// Asks a watched backend now, and cancels the question in flight.
void watcher_ask_anew(struct watcher *watcher, const struct backend *backend);

// Whether every backend that is asked has responded or failed to, at least once.
bool watcher_has_heard_all(const struct watcher *watcher);

// The next watched rank of the backend's server, from `*slot` on, which starts at 0; NULL after the
// last.
struct backend *watcher_next_rank(const struct watcher *watcher, const struct backend *backend,
                                  uint32_t *slot);
