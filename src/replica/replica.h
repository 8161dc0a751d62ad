// SPDX-License-Identifier: Apache-2.0
//
// replica.h -- what one router of a cluster knows, and how it stays the same as what the others
// know.
//
//     notes of this router's workers --.                       .--> batches to every router
//     its load on each backend      ---+--> replica of router --+--> snapshots to those that ask
//     batches, snapshots of others  --'         |
//                                               v
//                      sink: the prefix index, the load of others on each backend
//
// The state is a join of parts that merge without order (docs/internals/cluster.md):
//
//     life of a backend     the largest era                              life.h
//     holds                 a set of (backend, era, block), which only grows within an era
//     open predictions      each router's own: its newest word counts    open_table.h
//     sessions              the latest stamp                             session_table.h
//     load, traffic         each router's own: its newest word counts, and none when it has left
//     settings              learned capacity, weight, draining: the latest stamp
//     speeds                measurements, which every router blends into its own; not a state
//
// The index is a projection of this: it has a block of a backend if the holds of its present era
// have it, or an open prediction.  Ages are not shared: each router counts the blocks that are new
// to a backend, whoever sent them.
//
// A router numbers its batches.  A router that misses one goes on with the next, since every record
// is a join, and asks for a snapshot: the sender of the batch, or a router that has heard it all.
//
// Threads: one.  Time is an argument.  Memory: taken by _create, and for each router that comes a
// window of keys and its load.
#pragma once

#include "prefix/prefix_tap.h"
#include "prefix/prefix_updates.h"
#include "replica/frame.h"

struct replica;

enum {
    replica_peer_max = 31,
    replica_pool_max = 64,
    replica_refresh_ms = 1000, // everything that has no batch of its own is told again so often
};

// The sum of what other routers have on a backend.
struct replica_load {
    uint32_t requests;
    uint32_t sequences;
    uint64_t queued_tokens;
    uint64_t context_tokens;
};

struct replica_sink {
    // A change of the index; `update->backend` is a slot, and now_s is set.
    void (*apply)(void *owner, const struct prefix_update *update);
    void (*load)(void *owner, uint32_t slot, const struct replica_load *others);
    // Other routers have sent requests there.
    void (*begun)(void *owner, uint32_t slot, uint64_t requests, uint64_t tokens);
    // Requests that arrive at other routers for the pool of that hash.
    void (*arrivals)(void *owner, uint64_t pool, float per_ms);
    // Another router has learned or was told this about it.
    void (*setting)(void *owner, uint32_t slot, enum setting_field field, uint64_t value);
    // Another router has measured these speeds of it; 0: it has not.
    void (*speed)(void *owner, uint32_t slot, float prefill_ms, float step_ms);
    // A frame to one router, or to all (`to` 0).  False: it was dropped, at least for one.
    bool (*send)(void *owner, uint64_t to, struct slice frame);
    // Bytes that may be sent to that router now.
    size_t (*room)(void *owner, uint64_t to);
};

struct replica_options {
    uint64_t router; // our id, not 0
    uint64_t space;  // of keys; see frame.h
    uint32_t backend_max;
    uint32_t window_bits;             // keys of a window, log 2
    uint32_t open_max;                // open predictions, a power of two
    uint32_t session_max;             // a power of two
    const struct prefix_index *index; // for snapshots; kept
    const struct replica_sink *sink;  // kept, as the owner
    void *owner;
};

// NULL when memory is short.
struct replica *replica_create(const struct replica_options *options);
void replica_destroy(struct replica **replica);

// The moment of the following calls: monotonic, as the seconds of the index; and by the wall.
void replica_set_now(struct replica *replica, uint64_t now_ms, uint64_t wall_ms);

// A backend of the fleet, before its notes.  `lives` as this process counts them.
void replica_set_backend(struct replica *replica, uint64_t identity, uint32_t slot, uint32_t lives);
// Backends that were not set since the last call have left the fleet.
void replica_end_backends(struct replica *replica);
// The same backend, which may have begun a new life.
void replica_set_lives(struct replica *replica, uint64_t identity, uint32_t lives);

// A note of our workers.
void replica_note(struct replica *replica, const struct prefix_note *note);
// Our load on a backend, and our arrivals; to be told if they changed.
void replica_set_load(struct replica *replica, uint64_t identity, const struct record_load *load);
void replica_set_arrivals(struct replica *replica, uint64_t pool, float per_ms);
// Speeds that we have measured since the last call; 0: none.
void replica_tell_speed(struct replica *replica, uint64_t identity, float prefill_ms,
                        float step_ms);
// An operator of this router has set its weight, or drains it.
void replica_set(struct replica *replica, uint64_t identity, enum setting_field field,
                 uint64_t value);

// Sends what has gathered, and goes on with snapshots.
void replica_pump(struct replica *replica);
// Whether it has work that waits for room in the queue to a router, and not for news.
bool replica_has_more(const struct replica *replica);

// From the link.
void replica_peer_came(struct replica *replica, uint64_t router);
void replica_peer_left(struct replica *replica, uint64_t router);
void replica_take(struct replica *replica, uint64_t router, struct slice frame);

struct replica_peer_status {
    uint64_t router;
    bool is_there;
    bool has_gap;      // some of its batches are missing
    uint64_t batches;  // taken
    uint64_t records;  // of these
    uint64_t gaps;     // runs of missing batches
    uint64_t heard_ms; // its last batch
    uint64_t lag_ms;   // how long its batches are on their way
    uint32_t requests; // in flight
};

struct replica_status {
    uint64_t notes; // from our workers
    uint64_t batches_sent;
    uint64_t bytes_sent;      // of batches, to each router
    uint64_t batches_dropped; // for at least one router
    uint64_t batches_taken;
    uint64_t repeated; // batches that had been taken already
    uint64_t gaps;
    uint64_t orphans;   // chains that were cut for want of earlier keys
    uint64_t malformed; // frames
    uint64_t foreign;   // frames of another space of keys
    uint64_t eras;      // ends of lives, seen or heard
    uint64_t snapshots_asked;
    uint64_t snapshots_taken;
    uint64_t snapshots_given;
    uint64_t snapshot_ms;      // how long the last one took to come
    uint64_t snapshot_at_ms;   // when it had come; 0: never
    uint64_t snapshot_records; // of it
    uint32_t open_predictions;
    bool is_joining; // asks for its first snapshot, or waits for it
    size_t memory;   // bytes, for the state of other routers
    uint32_t peer_count;
    struct replica_peer_status peers[replica_peer_max];
};
void replica_read_status(const struct replica *replica, struct replica_status *out);
