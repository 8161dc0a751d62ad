// SPDX-License-Identifier: Apache-2.0
//
// cluster.h -- the thread that shares what this router learns with the others.
//
//     workers, keeper --notes-->  tap  --.                      .--> link --> other routers
//     load of each backend -------------+-->  replica (pure) --+
//     other routers --> link -----------'         |             '--> status, for the admin API
//                                                 v
//                              knowledge: the index, as one more sender
//                              fleet: the load of the others on each backend
//
// Every cluster.interval the thread reads the notes and the loads and sends one batch; what comes
// in is merged at once.  It takes the role of writer of the index for one change at a time and
// waits for it, so no worker applies what another router has told.
//
// Without the other routers, or without the store, this router decides by what it knows: nothing on
// the path of a request waits for this thread.
//
// Threads: its own, a reader of `reclaim`; the calls below are the keeper's.  Memory: within
// cluster.memory, but for a snapshot while it is given.
#pragma once

#include "base/status.h"
#include "cluster/link.h"
#include "replica/replica.h"

struct backend;
struct cluster;
struct config;
struct fleet;
struct knowledge;
struct reclaim;

enum { cluster_error_size = 256 };

struct cluster_options {
    const struct config *config; // until cluster_set_config
    struct fleet *fleet;         // kept, as the following
    struct reclaim *reclaim;
    uint32_t reader; // our number there
    struct knowledge *knowledge;
    uint32_t sender; // our number there
};

struct cluster_status {
    uint64_t router;
    char name[link_name_size];
    uint64_t now_ms;        // by the clock of the times below
    uint64_t notes_dropped; // that found no room on their way to the thread
    struct replica_status replica;
    struct link_status link;
};

// IO: `error` says why.
enum status cluster_start(const struct cluster_options *options, struct cluster **out,
                          char error[cluster_error_size]);

// Ends the thread, which then leaves `reclaim`.  Clears the caller's pointer, which may be NULL.
void cluster_stop(struct cluster **cluster);

// Pools may have other names now.
void cluster_set_config(struct cluster *cluster, const struct config *config);

// The fleet has changed.
void cluster_wake(struct cluster *cluster);

// An operator has set the weight of a backend here, or drains it: the others shall do so, too.
void cluster_set(struct cluster *cluster, const struct backend *backend, enum setting_field field,
                 uint64_t value);

// Operators of other routers have.  Tells each change once.
typedef void cluster_setting_fn(void *owner, uint64_t identity, enum setting_field field,
                                uint64_t value);
void cluster_take_settings(struct cluster *cluster, cluster_setting_fn *changed, void *owner);

// As of a moment ago.
void cluster_read_status(struct cluster *cluster, struct cluster_status *out);
