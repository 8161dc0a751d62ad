// SPDX-License-Identifier: Apache-2.0
//
// kv_feeder.h -- the thread that listens to what engines say of their KV caches.
//
//     engine, rank 0   PUB ----.                                        .--> ledger, read by workers
//     engine, rank 1   PUB ----+--> SUB sockets --> follower of each ---+
//     engine           ROUTER <--- DEALER, when messages are missing    '--> backend->shared.events
//     admin API        pushed events, polled events ------------------->
//
// It follows the fleet by its view: who has an address for events is subscribed to, who leaves is
// purged.  An engine that is not there yet, goes away, comes back or speaks nonsense is a normal day: ZeroMQ
// connects again by itself, and the follower knows what to forget.
//
// Engines that connect to us share a socket.  A message there belongs to the backend whose topic its own
// begins with, the longest one; or, where topics are kv@HOST:PORT@MODEL, to the one at that address.  Of
// several ranks it is the one that the batch names.
//
// Nothing waits without bound: each socket holds a bounded number of messages, of bounded size, and
// what is lost because of that is a gap like any other.
//
// Threads: one of its own, which announces itself to `reclaim` several times a second; the calls below
// are the keeper's.  Memory: what followers need, see there.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "kvevent/kv_follower.h"

struct fleet;
struct kv_feeder;
struct reclaim;

enum {
    kv_feeder_error_size = 256,
    kv_feeder_address_size = 256,
    kv_feeder_bind_max = 16,
};

struct kv_feeder_options {
    struct fleet *fleet; // all kept
    struct reclaim *reclaim;
    uint32_t reader;              // our number there
    struct prefix_ledger *ledger; // of which it is the writer
    size_t names_memory;
    bool is_set; // see kv_holdings.h
    const char *const
        *bind; // addresses where engines that connect find us; their topics tell them apart
    uint32_t bind_count; // at most kv_feeder_bind_max
};

// IO: `error` says why.
enum status kv_feeder_start(const struct kv_feeder_options *options, struct kv_feeder **out,
                            char error[kv_feeder_error_size]);

// Ends the thread, which leaves `reclaim`.  Clears the caller's pointer, which may be NULL.
void kv_feeder_stop(struct kv_feeder **feeder);

// The fleet has changed.
void kv_feeder_wake(struct kv_feeder *feeder);

// Where engines find us, by position in `bind`, with the port that it got.
const char *kv_feeder_address(const struct kv_feeder *feeder, uint32_t position);

// Events of a backend in JSON, pushed or polled (kv_json.h); copied.  EXHAUSTED: too many wait already.
// CLOSED: there is no such backend.
enum status kv_feeder_push(struct kv_feeder *feeder, uint64_t backend_id, struct slice json);

struct kv_feed_status {
    enum kv_follower_state state;
    bool is_connected;
    uint64_t next_number;
    uint64_t block_count;
    uint32_t block_tokens;
    uint32_t orphan_count;
    uint64_t last_ms; // since the last message; UINT64_MAX: there was none
    uint64_t lag_ms;  // of the last one, from its making to its coming; UINT64_MAX: not known
    struct kv_follower_counts follower;
    struct kv_holdings_counts holdings;
};

// As it was a moment ago.  False: nobody listens to that backend.
bool kv_feeder_status(struct kv_feeder *feeder, uint64_t backend_id, struct kv_feed_status *out);

// Messages of shared sockets that belonged to no backend, ever.
uint64_t kv_feeder_stray_count(const struct kv_feeder *feeder);
