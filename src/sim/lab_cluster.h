// SPDX-License-Identifier: Apache-2.0
//
// lab_cluster.h -- the routers of a run, and how they share what they know.
//
//     request --spread--> router 0 --.                        sync 100 ms, three routers:
//                         router 1 --+--> the same engines    0 shares at  33, 133, 233 ms
//                         router 2 --'                        1 shares at  66, 166, 266 ms ...
//
// A router gathers what it learns, and sends it once in each `sync`; it arrives at once.  So the
// others know it 0 to `sync` later, half of that in the mean.  With a sync of 0 every router sends
// after each event, and the others know it before the next one.  With lab_sync_never_ms they
// know nothing of each other.
//
// Not simulated: routers that come and go, networks that part, and clocks that differ.
//
// Pure: the same options and seed give the same routers and losses.  Threads: one owner.  Memory:
// about 70 MiB for each router, taken by _open.
#pragma once

#include "base/rng.h"
#include "sim/lab_router.h"

struct work_item;

// Which router gets a request.
enum lab_spread {
    LAB_SPREAD_RANDOM, // any, at random
    LAB_SPREAD_CLIENT, // always the same for one client
};

enum { lab_router_max = 32, lab_sync_never_ms = INT32_MAX };

struct lab_sharing {
    uint32_t router_count; // 0: one
    uint32_t sync_ms;      // lab_sync_never_ms: they share nothing
    double loss;           // fraction of the frames that do not arrive, of each receiver
    enum lab_spread spread;
};

struct lab_cluster {
    struct lab_sharing sharing;
    struct lab_router *routers;
    uint32_t router_count;
    bool is_sharing;
    uint64_t *turns_us; // when each router sends next
    uint64_t next_us;   // the earliest of these; UINT64_MAX: routers have no turns
    uint64_t spread_seed;
    struct rng losses;
};

// `options` are those of router 0.  False when memory is short; the caller owes _close in any case.
bool lab_cluster_open(struct lab_cluster *cluster, const struct lab_sharing *sharing,
                      const struct lab_router_options *options, uint64_t now_us);
void lab_cluster_close(struct lab_cluster *cluster);

// The fleets of all routers change alike.
bool lab_cluster_join(struct lab_cluster *cluster);
void lab_cluster_leave(struct lab_cluster *cluster, uint32_t slot);
bool lab_cluster_publish(struct lab_cluster *cluster);

// The router that gets this request.
struct lab_router *lab_cluster_pick(struct lab_cluster *cluster, const struct work_item *item);

// After each event, and at next_us.
void lab_cluster_follow(struct lab_cluster *cluster, uint64_t now_us);
