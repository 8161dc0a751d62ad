// SPDX-License-Identifier: Apache-2.0
//
// kv_follower.h -- follows the numbered messages of one publisher, so that each message is
// applied once and a missing one is noticed.
//
// Every message before `next` was applied or cannot be had any more.  A publisher counts from 0,
// or from 1, so first contact is a gap at 0:
//
//     number == next      applied
//     number >  next      messages are missing: a replay from `next` is requested; this one waits
//     number <  next      seen live before: another process, and all holdings are forgotten
//                         seen only in a recent replay: a duplicate
//     reconnect           may be the same process or another: treated as another one
//
//     replay from `next`  begins there           nothing was lost
//                         begins later           the engine dropped some: forget all
//                         skips, stops or stalls requested again, ever later; then given up
//
// Messages that come during a replay wait in a bounded queue; those that overflow it are a gap.
// Replays cost the engine time, so they are spaced: by four times the duration of the last one if
// it brought what was missing, else by twice the last pause.
//
// A lost last message leaves no gap.  So after a silence a follower asks once whether there was
// more; the response is mostly empty.
//
// A follower is live when it knows all blocks that the engine holds, and learning until then.  It
// knows them all if it has seen the first number, 0 or 1, or that the engine has not published yet;
// or if the engine has since stored its whole capacity without a block whose parent is unknown.
// While messages are missing it stays live for kv_late_ms: the state of a moment ago is nearer to
// the truth than a guess.
//
// Pure: the caller receives messages, passes the time, and does what kv_follower_next_action says.
// Threads: the ledger's writer.  Memory: that of the queue, as messages wait.
#pragma once

#include "kvevent/kv_holdings.h"

enum {
    kv_waiting_max = 4096,           // messages during a replay
    kv_waiting_bytes_max = 32 << 20, // of all of them
    kv_replay_idle_ms = 2000,        // a replay fails after this silence
    kv_replay_whole_ms = 120000,     // or after this time in all
    kv_replay_pause_min_ms = 50,     // between two replays, if the first was complete at once
    kv_replay_pause_ms = 1000,       // otherwise; doubled after each failure
    kv_replay_pause_max_ms = 30000,
    kv_replay_attempts = 3, // in a row without progress; then the gap is accepted
    kv_late_ms = 500,       // a follower stays live this long while messages are missing
    kv_settle_ms = 100,     // a subscription takes effect a moment after the connection
    kv_drained_ms = 2000,   // after a replay its messages may still come live for this long
    kv_quiet_ms = 2000,     // after this silence it asks whether a message was lost
};

enum kv_follower_state {
    KV_SILENT,   // no message has come yet
    KV_LEARNING, // the engine may hold more blocks than are known, or fewer
    KV_LIVE,
};

#define KV_FOLLOWER_COUNTS(X)                                                                      \
    X(messages, "messages")                                                                        \
    X(replayed, "messages received by replay")                                                     \
    X(duplicates, "duplicate messages")                                                            \
    X(gaps, "gaps in the message numbers")                                                         \
    X(lost, "messages missing live, before any replay")                                            \
    X(restarts, "restarts of the numbers, and reconnects")                                         \
    X(replays, "replays requested")                                                                \
    X(replays_failed, "replays without progress")                                                  \
    X(purges, "times that all holdings were forgotten")                                            \
    X(overflows, "times that the queue behind a replay was full")                                  \
    X(malformed, "messages that are not a batch, or have no number")

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

// Purges.  Clears the caller's pointer, which may be NULL.
void kv_follower_destroy(struct kv_follower **follower);

struct kv_numbered {
    uint64_t number;
    struct slice payload;
};

// Messages from the live socket and from the replay socket.
void kv_follower_live(struct kv_follower *follower, const struct kv_numbered *message,
                      uint64_t now_ms);
void kv_follower_replayed(struct kv_follower *follower, const struct kv_numbered *message,
                          uint64_t now_ms);
void kv_follower_replay_ended(struct kv_follower *follower, uint64_t now_ms);

// A message could not be split into its frames.
void kv_follower_malformed(struct kv_follower *follower);

// The next notices are those of events `first` to `last`, as engines that are polled number
// them.  Events missing before them cannot be had any more.  The numbers count for nothing where
// the engine publishes messages, which have numbers of their own.
void kv_follower_begin_polled(struct kv_follower *follower, uint64_t first, uint64_t last);

// A notice that came without a message, as pushed and polled ones do.
void kv_follower_apply(struct kv_follower *follower, const struct kv_notice *notice,
                       uint64_t now_ms);

// The live socket has a new connection, or has lost it.
void kv_follower_connected(struct kv_follower *follower, uint64_t now_ms);
void kv_follower_disconnected(struct kv_follower *follower);

// The process has restarted, as another source shows: forgets all, then as first contact.
void kv_follower_restarted(struct kv_follower *follower, uint64_t now_ms);

// Responses have shown repeatedly that the engine does not hold the blocks of its events: forgets
// all, and learns from the next events.
void kv_follower_distrust(struct kv_follower *follower);

// The caller's next action; call it after each of the functions above, and at `until_ms`.
struct kv_follower_action {
    bool wants_replay; // from `from`, on a fresh connection; set once
    bool drops_replay; // close the one under way; set once
    uint64_t from;
    uint64_t until_ms; // UINT64_MAX: nothing to wait for
};
struct kv_follower_action kv_follower_next_action(struct kv_follower *follower, uint64_t now_ms);

enum kv_follower_state kv_follower_state(const struct kv_follower *follower);

// The capacity of the engine's cache, which can end learning; 0: unknown.
void kv_follower_set_capacity(struct kv_follower *follower, uint64_t tokens);

struct kv_holdings *kv_follower_holdings(const struct kv_follower *follower);
double
kv_follower_seconds(const struct kv_follower *follower); // as kv_reader_seconds, of the last batch
uint64_t kv_follower_next(const struct kv_follower *follower); // the number that is expected

// The first number of the messages that were all applied; 0: from the start.
uint64_t kv_follower_since(const struct kv_follower *follower);

const struct kv_follower_counts *kv_follower_counts(const struct kv_follower *follower);
