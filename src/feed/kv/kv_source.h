// SPDX-License-Identifier: Apache-2.0
//
// kv_source.h -- the KV events of one backend: its sockets, its follower, and what the log says of
// it.
//
//     SUB      [topic][number, 8 bytes][batch]  --> follower --> holdings --> ledger
//     DEALER   [..., number, batch]  read from the right: some engines put the topic in front
//              [..., ff x 8, ""]     the end
//
// It takes a bounded number of messages a turn, so that no engine keeps the others waiting.
//
// The caller feeds a source without a socket of its own: engines that connect to us share one, and
// pushed events have none.
//
// Threads: the ledger's writer.  Memory: the follower's.
#pragma once

#include "feed/kv/kv_socket.h"
#include "kvevent/kv_follower.h"

struct backend;
struct kv_feed_status;
struct kv_json;
struct kv_source;

enum {
    kv_source_live_max = 64, // messages in one turn
    kv_source_replay_max = 256,
    kv_source_distrust_ms = 10000, // between two losses of trust
    kv_source_address_size = 256,
};

struct kv_source_options {
    struct backend *backend; // all of these are kept
    struct kv_sockets *sockets;
    struct kv_holdings_options holdings; // `backend` is filled in
    struct kv_reader *reader;
    const char *shared_address; // of a bound socket; NULL: it has its own, if it publishes
    void (*ready)(void *owner);
    void *owner;
};

// NULL when memory is short.
struct kv_source *kv_source_open(const struct kv_source_options *options);

// Purges the ledger; the backend's events become none.  Clears the caller's pointer, which may be
// NULL.
void kv_source_close(struct kv_source **source);

// Takes messages, and does what the follower wants.  True: there may be more.
bool kv_source_work(struct kv_source *source, uint64_t now_ms);

// Takes a message that came through a bound socket.
void kv_source_take(struct kv_source *source, const struct kv_frames *message, uint64_t now_ms);

// Checks what probes and responses have shown of the backend, and the time; call it a few times a
// second.
void kv_source_look(struct kv_source *source, uint64_t now_ms);

// Takes this backend's part of a JSON document (kv_json.h) that was pushed or polled.
void kv_source_push(struct kv_source *source, struct kv_json *reader, struct slice document,
                    uint64_t now_ms);

void kv_source_status(const struct kv_source *source, uint64_t now_ms, struct kv_feed_status *out);
