// SPDX-License-Identifier: Apache-2.0
//
// kv_follower.h -- follows the numbered messages of one publisher, so that what it says is neither missed
// nor believed twice.
//
// Everything before `next` is known, or will never be.  A publisher counts from 0, so first contact is a
// gap at 0 and nothing else:
//
//     number == next      applied
//     number >  next      missing ones are asked for: a replay from `next`; this one waits behind it
//     number <  next      seen live before: another process, and everything is forgotten
//                         seen in a replay only, moments ago: the same message once more
//     reconnect           may be the same process or another: treated as another one
//
//     replay from `next`  begins there                  nothing was lost
//                         begins later                  the engine forgot: so do we, and learn from there
//                         skips some, stops, is silent  asked again, later and later; then given up
//
// Messages that come during a replay wait, in a bounded queue; what overflows is a gap.  Replays cost the
// engine time: they are spaced, by four times as long as the last took when it brought what was asked for, twice as
// long as before after each that brought nothing.
//
// A last message that is lost leaves no gap.  So after a silence a follower asks once whether there was
// more; the answer is empty as a rule.
//
// A follower is live when it knows all that the engine holds, and learning until then.  It knows all once it
// has seen number 0, or that the engine has not published yet; or once the engine has stored its whole capacity
// since, without a block whose parent is unknown.  While messages are missing it stays live for kv_late_ms: the
// state of a moment ago is nearer to the truth than a guess.
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
    kv_replay_pause_min_ms = 50, // between two of one publisher, if the first was answered at once
    kv_replay_pause_ms = 1000,   // otherwise; twice as long after each that failed
    kv_replay_pause_max_ms = 30000,
    kv_replay_attempts = 3, // in a row without progress, then it goes on without
    kv_late_ms = 500,       // so long it stays live while something is missing
    kv_settle_ms = 100,     // a subscription takes effect a moment after the connection
    kv_drained_ms = 2000,   // so long after a replay its messages may still come live
    kv_quiet_ms = 2000,     // a silence after which it asks whether something was lost
};

enum kv_follower_state {
    KV_SILENT,   // nothing has come yet
    KV_LEARNING, // there may be more than what is known, or less
    KV_LIVE,
};

#define KV_FOLLOWER_COUNTS(X)                                                                      \
    X(messages, "messages")                                                                        \
    X(replayed, "messages that came by a replay")                                                  \
    X(duplicates, "messages that were known already")                                              \
    X(gaps, "times that messages were missing")                                                    \
    X(lost, "messages that were missing at first")                                                 \
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

// Purges.  Clears the caller's pointer, which may be NULL.
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

// What came had not the form of a message: it may have been one.
void kv_follower_malformed(struct kv_follower *follower);

// The notices that come next are those of events `first` to `last`, as engines that are polled number them.
// What is missing before them cannot be had.
void kv_follower_span(struct kv_follower *follower, uint64_t first, uint64_t last);

// A notice that came without a message, as pushed and polled ones do.
void kv_follower_note(struct kv_follower *follower, const struct kv_notice *notice,
                      uint64_t now_ms);

// The live socket has a connection, or a new one; and it has none.
void kv_follower_connected(struct kv_follower *follower, uint64_t now_ms);
void kv_follower_disconnected(struct kv_follower *follower, uint64_t now_ms);

// Another process is there, as others have seen: forgets all, then as first contact.
void kv_follower_restarted(struct kv_follower *follower, uint64_t now_ms);

// The engine has shown again and again that it does not hold what it tells: forgets all, and learns from
// what it tells from now on.
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

// How much the engine's cache holds, where that is known, which ends learning; 0: not known.
void kv_follower_set_capacity(struct kv_follower *follower, uint64_t tokens);

struct kv_holdings *kv_follower_holdings(const struct kv_follower *follower);
double
kv_follower_seconds(const struct kv_follower *follower); // as kv_reader_seconds, of the last batch
uint64_t kv_follower_next(const struct kv_follower *follower); // the number that is expected

// From which number on everything was told; 0: from the beginning.
uint64_t kv_follower_since(const struct kv_follower *follower);

const struct kv_follower_counts *kv_follower_counts(const struct kv_follower *follower);
