// SPDX-License-Identifier: Apache-2.0
//
// knowledge.h -- what all workers know together: who holds which prefix, and what requests are like.
//
// Slots of the fleet are used again, and a process that comes back has lost what it held.  Each slot
// therefore has an owner here, the backend and the life of it that its entries in the index are about:
// whoever finds another one in the slot takes it over, and what the index says is forgotten.
//
// Threads: any, each with a sender number of its own for the mail.
// Memory: taken by knowledge_create, but for the index that of the caller if there is some.
#pragma once

#include "fleet/backend.h"
#include "fleet/fleet.h"
#include "fleet/traffic.h"
#include "prefix/prefix_ledger.h"
#include "prefix/prefix_mail.h"

struct knowledge;

struct knowledge_options {
    void *block;   // for the index, of `memory` bytes in cache lines, and the caller's; may be NULL
    size_t memory; // of the index
    void *ledger_block;   // likewise for the ledger
    size_t ledger_memory; // 0: no engine tells what it holds, and there is none
    uint32_t ttl_s;
    uint32_t backend_count_max;
    uint32_t sender_count;
};

// NULL when memory is short.
struct knowledge *knowledge_create(const struct knowledge_options *options);
void knowledge_destroy(struct knowledge **knowledge);

// As it was created: slots are below it, whatever a configuration says since.
uint32_t knowledge_backend_count_max(const struct knowledge *knowledge);

const struct prefix_index *knowledge_index(const struct knowledge *knowledge);
// What engines tell of themselves; NULL: there is none.  Its one writer is who listens to them.
struct prefix_ledger *knowledge_ledger(const struct knowledge *knowledge);

struct traffic *knowledge_traffic(struct knowledge *knowledge, uint32_t pool);

// Whether the index speaks of this backend when it names its slot.  If not, it will from now on.
bool knowledge_owns(struct knowledge *knowledge, uint32_t sender, const struct backend *backend);

// The backend has, or will have, these blocks.
void knowledge_store(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                     const struct prefix_letter *letter);

// It will not have those behind the first `from` after all, unless it had them before.
void knowledge_withdraw(struct knowledge *knowledge, uint32_t sender, const struct backend *backend,
                        const struct prefix_letter *letter);

// The key under which the index keeps the backend that served a session last.
uint64_t knowledge_session_block(uint64_t session_key);

// The session of that block has gone from the slot to another backend.  Ages of
// different backends cannot be compared, so a session that was left in two slots would be found in the
// idler one.
void knowledge_move_session(struct knowledge *knowledge, uint32_t sender, uint64_t block,
                            uint32_t slot);

// How many tokens its cache is believed to hold, as told or learned; 0: no bound is known.
uint32_t knowledge_capacity(const struct knowledge *knowledge, const struct backend *backend);

// The engine said how much of a prompt it had cached, and we had believed something.
struct knowledge_truth {
    uint32_t believed_tokens;
    uint32_t cached_tokens;
    uint32_t slack_tokens; // differences up to this mean nothing
    uint32_t age;          // of what was believed, in new tokens (prefix_index.h)
};
void knowledge_learn(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     const struct knowledge_truth *truth);

// The engine's events had told of so many tokens of a prompt, and it said how many were cached: when that
// is far less again and again, its cache was emptied and it did not say so.  What is believed is forgotten,
// and whoever listens to the events is told to begin anew.
void knowledge_audit(struct knowledge *knowledge, uint32_t sender, struct backend *backend,
                     uint32_t told_tokens, uint32_t cached_tokens);

struct knowledge_status {
    struct prefix_usage index;
    uint64_t letters_lost;
};
void knowledge_status(const struct knowledge *knowledge, struct knowledge_status *out);
