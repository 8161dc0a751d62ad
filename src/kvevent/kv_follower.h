// SPDX-License-Identifier: Apache-2.0
//
// kv_follower.h -- follows the numbered messages of one publisher, so that what it says is neither missed
// nor believed twice.
//
//     first     number 0              live at once: nothing came before
//               a later one           replay from 0, as far as the engine remembers
//     gap       replay from the one that is missing; if it cannot be had, everything is forgotten
//     back      a number that was there before: another process, everything is forgotten
//     reconnect likewise: there is no telling whether it is the same process
//
// Messages that come during a replay wait, in a bounded queue, and go behind it; what overflows is a
// gap.  Replays cost the engine time: they are spaced, and given up when they bring nothing.
//
// A follower is live when it knows all that the engine holds, and learning as long as there may be more:
// until it has seen number 0, or the engine has stored as much as it can hold since.
//
// Pure: the caller receives messages, says what time it is, and does what is asked of it.  Threads: the
// ledger's writer.  Memory: the queue's, as messages wait.
#pragma once

#include "kvevent/kv_holdings.h"

enum {
    kv_waiting_max = 4096,           // messages during a replay
    kv_waiting_bytes_max = 32 << 20, // of all of them
    kv_replay_idle_ms = 2000,        // a replay that is silent for so long has failed
    kv_replay_whole_ms = 120000,     // or that takes so long in all
    kv_replay_pause_ms = 1000, // between two of one publisher; twice as long after each that failed
    kv_replay_pause_max_ms = 30000,
    kv_replay_attempts = 3, // in a row without progress, then it goes on without
};

enum kv_follower_state {
    KV_SILENT,   // nothing has come yet
    KV_LEARNING, // there may be more than what is known
    KV_LIVE,
};

#define KV_FOLLOWER_COUNTS(X)                                                                      \
    X(messages, "messages")                                                                        \
    X(duplicates, "messages that were known already")                                              \
    X(gaps, "times that messages were missing")                                                    \
    X(restarts, "times that the numbers began again, or the connection")                           \
    X(replays, "replays asked for")                                                                \
    X(replays_failed, "replays that did not bring what was missing")                               \
    X(purges, "times that everything was forgotten")                                               \
    X(overflows, "times that too much came during a replay")                                       \
    X(malformed, "messages that were no batch, or had no number")

struct kv_follower_counts {
#define X(name, help) uint64_t name;
    KV_FOLLOWER_COUNTS(X)
#undef X
};

struct kv_follower_options {
    struct kv_holdings_options holdings;
    struct kv_reader *reader; // kept; may be shared with others of the thread
    bool has_replay;
};

struct kv_follower;

// NULL when memory is short.
struct kv_follower *kv_follower_create(const struct kv_follower_options *options);
void kv_follower_destroy(struct kv_follower **follower);

struct kv_numbered {
    uint64_t number;
    struct slice payload;
};

// What came from the live socket, and from the replay socket.
void kv_follower_live(struct kv_follower *follower, const struct kv_numbered *message,
                      uint64_t now_ms);
void kv_follower_replayed(struct kv_follower *follower, const struct kv_numbered *message,
                          uint64_t now_ms);
void kv_follower_replay_ended(struct kv_follower *follower, uint64_t now_ms);

// The live socket has a connection, or a new one; and it has none.
void kv_follower_connected(struct kv_follower *follower, uint64_t now_ms);
void kv_follower_disconnected(struct kv_follower *follower, uint64_t now_ms);

// The engine was seen to lose its cache, or to have been wrong about it again and again: forgets all, and
// learns it anew.
void kv_follower_distrust(struct kv_follower *follower, uint64_t now_ms);

// What the caller has to do now; asked after each of the calls above, and when `until_ms` has come.
struct kv_follower_wish {
    bool wants_replay; // from `from`, on a fresh connection; said once
    bool drops_replay; // the one under way is of no use any more; said once
    uint64_t from;
    uint64_t until_ms; // UINT64_MAX: nothing to wait for
};
struct kv_follower_wish kv_follower_wish(struct kv_follower *follower, uint64_t now_ms);

enum kv_follower_state kv_follower_state(const struct kv_follower *follower);

// How much the engine's cache holds, where that is known, which ends learning.
void kv_follower_set_capacity(struct kv_follower *follower, uint64_t tokens);

struct kv_holdings *kv_follower_holdings(const struct kv_follower *follower);
uint64_t kv_follower_next(const struct kv_follower *follower); // the number that is expected
const struct kv_follower_counts *kv_follower_counts(const struct kv_follower *follower);
