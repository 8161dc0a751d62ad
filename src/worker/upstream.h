// SPDX-License-Identifier: Apache-2.0
//
// upstream.h -- a connection to a backend: opened for an exchange, kept for the next.
//
// Each worker keeps the idle ones by backend, the most recently used on top, and drops them when
// the backend closes them, when they have waited for timeouts.backend_keepalive, or when the
// backend leaves the fleet.  It keeps no more than one for each request and each backend that are
// allowed, so that those that wait never take the place of one that is needed.
//
// A kept connection may turn out to have been closed at the very moment it was taken: `reused`
// tells the hop's owner that the backend is not at fault.
//
// Threads: belongs to its worker.
#pragma once

#include "base/list.h"
#include "net/transport.h"

struct backend;
struct worker;

struct upstream {
    struct transport transport; // first: `ready` finds us from here
    struct worker *worker;
    struct backend *backend;
    void (*wake)(void *owner); // it has news
    void *owner;               // NULL: idle
    struct list_node idle;     // among the idle ones of the backend
    uint64_t idle_until_ms;
    bool reused;
    bool connected;
    struct timer timer;
    struct loop_deferred recycle;
};

// An idle connection or, with `fresh` or when there is none, one that is being opened.  EXHAUSTED:
// no slot is left; IO: the kernel or TLS refused, errno set.
enum status upstream_open(struct worker *worker, struct backend *backend, bool fresh,
                          struct upstream **out);

// Whether bytes can be sent: AGAIN while it connects or shakes hands.
enum status upstream_connect(struct upstream *upstream);

// News of the connection goes to `wake` from now on.
void upstream_use(struct upstream *upstream, void (*wake)(void *owner), void *owner);

// Keeps it for the next hop.  Clears the caller's pointer, as the next one does.
void upstream_keep(struct upstream **upstream);

// Closes at once, which makes an engine stop generating.
void upstream_close(struct upstream **upstream);

// Drops idle connections to backends that are no longer in the fleet; all of them with `all`.
void upstream_purge(struct worker *worker, bool all);
