// SPDX-License-Identifier: Apache-2.0
//
// knowledge.h -- knowledge that all workers share: which backend holds which prefix, how large the
// caches are, and what the traffic of each pool is like.
//
// Slots of the fleet are reused, and a restarted engine has lost its cache.  Each slot therefore
// has an owner here: the backend, and the life of it, that the slot's entries in the index belong
// to.  A worker that finds another owner takes the slot over, and the index forgets the slot's
// entries.
//
// Threads: any; each has its own sender number for index updates.
// Memory: taken by knowledge_create, except for the blocks that the caller provides.
#pragma once

#include "fleet/backend.h"
#include "fleet/fleet.h"
#include "fleet/traffic.h"
#include "prefix/prefix_ledger.h"
#include "prefix/prefix_tap.h"
#include "prefix/prefix_updates.h"

struct knowledge;

struct knowledge_options {
    void *block;          // the caller's, for the index, aligned to cache lines; NULL: allocate
    size_t memory;        // bytes of the index
    void *ledger_block;   // likewise for the ledger
    size_t ledger_memory; // 0: no engine sends KV events; do without a ledger
    uint32_t ttl_s;
    uint32_t backend_count_max;
    uint32_t sender_count;
    bool is_tapped; // notes of what is learned are kept for a reader: knowledge_tap
};

// NULL when out of memory.
struct knowledge *knowledge_create(const struct knowledge_options *options);
void knowledge_destroy(struct knowledge **knowledge);

// Set by knowledge_create; a reload does not change it.  Slots are below it.
uint32_t knowledge_backend_count_max(const struct knowledge *knowledge);

const struct prefix_index *knowledge_index(const struct knowledge *knowledge);
// The blocks that engines report by KV events; NULL without such engines.  The feeder thread is its
// only writer.
struct prefix_ledger *knowledge_ledger(const struct knowledge *knowledge);

// Notes of all that its senders learn; NULL: not tapped.
struct prefix_tap *knowledge_tap(const struct knowledge *knowledge);

// A number for the `prediction` of an update, which ties its end to it; 0 without a tap.
uint64_t knowledge_number(struct knowledge *knowledge, uint32_t sender);

// The thread that reads the tap brings in what other routers have learned.  It waits while another
// thread writes to the index, and leaves no note.  `update` names the slot.
void knowledge_merge(struct knowledge *knowledge, uint32_t sender,
                     const struct prefix_update *update, void (*pause)(void));

struct traffic *knowledge_traffic(struct knowledge *knowledge, uint32_t pool);

// Whether the slot's entries in the index belong to this backend.  If not, the backend takes the
// slot over, and the index forgets those entries.
bool knowledge_owns(struct knowledge *knowledge, uint32_t sender, const struct backend *backend);

// The backend holds, or will hold, the blocks of the update.
void knowledge_store(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                     const struct prefix_update *update);

// Undoes a prediction: the backend will not hold the blocks from `from` on, unless it held them
// before.
void knowledge_withdraw(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                        const struct prefix_update *update);

// The index stores the backend that served a session last under this key.
uint64_t knowledge_session_block(uint64_t session_key);

// The session of the update's one block lives at the backend now, and no longer at slot `before`
// (UINT32_MAX: nowhere).  Ages of different backends cannot be compared: a session with two holders
// would be found at the idler one.
void knowledge_move_session(struct knowledge *knowledge, uint32_t sender,
                            const struct backend *backend, const struct prefix_update *update,
                            uint32_t before);

// The backend's cache size in tokens, as reported or learned; 0: unknown.
uint32_t knowledge_capacity(const struct knowledge *knowledge, const struct backend *backend);

// Another router has learned it; a size that the engine reports takes precedence.
void knowledge_set_learned_capacity(struct knowledge *knowledge, const struct backend *backend,
                                    uint32_t tokens);

// The engine has reported the cached tokens of a prompt, which we compare with our prediction.
struct knowledge_truth {
    uint32_t believed_tokens;
    uint32_t cached_tokens;
    uint32_t slack_tokens; // smaller differences are noise
    uint32_t age;          // of the believed blocks, in new tokens (prefix_index.h)
};
void knowledge_learn(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     const struct knowledge_truth *truth);

// Compares the tokens of a prompt that KV events had reported with the cached tokens of the
// response.  If several responses in a row have far fewer, the engine emptied its cache without an
// event: the index forgets the backend, and the feeder starts over with its events.  If several
// have far more than `expected_tokens`, of blocks reported and on their way, and none between them
// has what was reported, events do not tell what is stored: the feeder starts over, and the belief
// of the index counts meanwhile.
struct knowledge_report {
    uint32_t reported_tokens;
    uint32_t expected_tokens;
    uint32_t cached_tokens;
};
void knowledge_audit(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     const struct knowledge_report *report);

struct knowledge_status {
    struct prefix_usage index;
    uint64_t letters_lost; // index updates dropped because a queue was full
};
void knowledge_status(const struct knowledge *knowledge, struct knowledge_status *out);
