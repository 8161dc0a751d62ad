// SPDX-License-Identifier: Apache-2.0
//
// kv_source.h -- one backend's KV events: its sockets, who follows them, and what is said of it.
//
//     SUB      [topic][number, 8 bytes][batch]  --> follower --> holdings --> ledger
//     DEALER   [..., number, batch]  read from the right, since some engines put the topic in front
//              [..., ff x 8, ""]     the end
//
// Of each turn it takes a bounded number of messages, so that no engine keeps the others waiting.
//
// A source without a socket of its own is fed by the caller: engines that connect to us share one, and
// pushed events have none.
//
// Threads: the ledger's writer.  Memory: the follower's.
#pragma once

#include "feed/kv/kv_socket.h"
#include "kvevent/kv_follower.h"

struct backend;
struct kv_json;
struct kv_source;

enum {
    kv_source_live_max = 64, // messages of one turn
    kv_source_replay_max = 256,
    kv_source_distrust_ms = 10000, // at most once in
    kv_source_address_size = 256,
};

struct kv_source_options {
    struct backend *backend; // kept, as all of these
    struct kv_sockets *sockets;
    struct kv_holdings_options holdings; // but for `backend`
    struct kv_reader *reader;
    const char
        *shared_address; // of the socket that it shares; NULL: it has its own, if it publishes
    void (*ready)(void *owner);
    void *owner;
};

// NULL when memory is short.
struct kv_source *kv_source_open(const struct kv_source_options *options);

// Purges; the backend is said to have no events.  Clears the caller's pointer, which may be NULL.
void kv_source_close(struct kv_source **source);

// Takes what has come, and does what the follower wants.  True: there may be more.
bool kv_source_work(struct kv_source *source, uint64_t now_ms);

// A message that came for it through a shared socket.
void kv_source_take(struct kv_source *source, const struct kv_frames *message, uint64_t now_ms);

// Looks at what others have seen of the backend, and at the time; a few times a second.
void kv_source_look(struct kv_source *source, uint64_t now_ms);

// A document of events in JSON (kv_json.h), pushed or polled: its part of it.
void kv_source_push(struct kv_source *source, struct kv_json *reader, struct slice document,
                    uint64_t now_ms);

const struct kv_follower *kv_source_follower(const struct kv_source *source);

bool kv_source_is_connected(const struct kv_source *source);

// From the making of the last message, as it says, to its coming; UINT64_MAX: not known.
uint64_t kv_source_lag_ms(const struct kv_source *source);

// Since the last message; UINT64_MAX: there was none.
uint64_t kv_source_silence_ms(const struct kv_source *source, uint64_t now_ms);
