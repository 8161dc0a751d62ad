// SPDX-License-Identifier: Apache-2.0
//
// kv_feeder.h -- the thread that receives the KV events of engines.
//
//     engine, rank 0   PUB ----.                                      .--> ledger, read by workers
//     engine, rank 1   PUB ----+--> SUB sockets --> follower of each -+
//     engine           ROUTER <--- DEALER, when messages are missing  '--> backend->shared.events
//     admin API        pushed events, polled events ------------------->
//
// The feeder follows the fleet by its view: it subscribes to every backend with an address for
// events, and purges backends that were removed.  Engines may be absent, restart or send malformed
// messages: ZeroMQ reconnects by itself, and the follower knows what to forget.
//
// Engines that connect to us share a bound socket.  A message there belongs to the backend with the
// longest topic prefix that matches; or, if topics are kv@HOST:PORT@MODEL, to the backend at that
// address.  If the server has ranks, the batch names the rank.
//
// Each socket holds a bounded number of messages of bounded size.  A message that is lost because
// of that is a gap like any other.
//
// Threads: its own, which announces itself to `reclaim` several times a second; the calls below are
// the keeper's.  Memory: that of the followers.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "feed/kv/kv_board.h"

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
    bool is_set;             // see kv_holdings.h
    const char *const *bind; // addresses that engines connect to; topics tell the engines apart
    uint32_t bind_count;     // at most kv_feeder_bind_max
};

// IO: `error` says why.
enum status kv_feeder_start(const struct kv_feeder_options *options, struct kv_feeder **out,
                            char error[kv_feeder_error_size]);

// Ends the thread, which then leaves `reclaim`.  Clears the caller's pointer, which may be NULL.
void kv_feeder_stop(struct kv_feeder **feeder);

// The fleet has changed.
void kv_feeder_wake(struct kv_feeder *feeder);

// The address of a bound socket, by position in `bind`, with the port that it got.
const char *kv_feeder_address(const struct kv_feeder *feeder, uint32_t position);

// Events of a backend in JSON, pushed or polled (kv_json.h); copied.  EXHAUSTED: the queue is full.
// CLOSED: no such backend.
enum status kv_feeder_push(struct kv_feeder *feeder, uint64_t backend_id, struct slice json);

// As of a moment ago.  False: the feeder does not follow that backend.
bool kv_feeder_status(struct kv_feeder *feeder, uint64_t backend_id, struct kv_feed_status *out);

// Messages at bound sockets whose topic matched no backend, since the start.
uint64_t kv_feeder_stray_count(const struct kv_feeder *feeder);
