// SPDX-License-Identifier: Apache-2.0
//
// kv_holdings.h -- the blocks that one rank of an engine holds, kept up to date by its events.
//
//     notice --> names: which blocks?  --> our own keys over their tokens --> ledger
//
// Keys are chained over the tokens that events carry, so the engine's hash function and seed do
// not matter; its hashes only name parents and removed blocks.
//
// A block whose parent is unknown is an orphan (kv_orphans.h): it is kept aside and finds its
// place when the parent comes.  No block is put where it might not belong.
//
// Applied are stores whose tokens are ids, of groups with full attention (of several such groups
// the first), and removals of that group.  All blocks have the size of the first one.  Events of
// other sizes are ignored: vLLM reports blocks that are not full, which are smaller, and
// connectors report larger pieces.  If the first block was not full, the first larger one on the
// GPU shows it: all holdings are forgotten, and the larger size counts.
//
// Two names may mean the same block, if an engine has changed its hash seed unnoticed.  The block
// is held until both names are removed.  A name that comes to mean another block leaves the one
// it had.
//
// Removals come one by one, and each waits for memory twice.  They are collected until another
// event comes, or kv_holdings_settle.
//
// Threads: the ledger's writer.  Memory: that of names and orphans; both are bounded.
#pragma once

#include "base/slice.h"
#include "kvevent/kv_names.h"
#include "kvevent/kv_notice.h"

// Counted since creation; a purge resets none of them.
#define KV_HOLDINGS_COUNTS(X)                                                                      \
    X(stored, "blocks reported as stored")                                                         \
    X(removed, "blocks reported as removed")                                                       \
    X(cleared, "times that the cache was reported as cleared")                                     \
    X(orphans, "events whose parent was unknown")                                                  \
    X(adopted, "orphans whose parent came")                                                        \
    X(orphans_lost, "orphans dropped: too many, or too old")                                       \
    X(unknown_removals, "removals of unknown blocks")                                              \
    X(ignored, "events of groups, sizes or kinds that do not decide hits")                         \
    X(unknown_kinds, "events of an unknown kind")                                                  \
    X(malformed, "malformed events")                                                               \
    X(refused, "blocks refused: out of memory")

struct kv_holdings_counts {
#define X(name, help) uint64_t name;
    KV_HOLDINGS_COUNTS(X)
#undef X
};

struct kv_holdings_options {
    struct prefix_ledger *ledger;   // kept, as the budget
    struct kv_names_budget *budget; // of names
    uint32_t backend;               // its number in the ledger
    bool is_set;                    // the engine reports a block once, however many copies it has
};

struct kv_holdings;

// NULL when memory is short.
struct kv_holdings *kv_holdings_create(const struct kv_holdings_options *options);

// Purges.
void kv_holdings_destroy(struct kv_holdings **holdings);

// Applies the notice.  Removals may wait for kv_holdings_settle, which the caller calls after the
// last notice of a batch.
void kv_holdings_apply(struct kv_holdings *holdings, const struct kv_notice *notice,
                       uint64_t now_ms);
void kv_holdings_settle(struct kv_holdings *holdings);

// A kv_prefetch_fn, whose owner is a struct kv_holdings: prefetches the names of blocks that will
// be stored.
void kv_holdings_prefetch(void *holdings, const uint64_t *hashes, uint32_t count);

// Removes all blocks of this backend from the ledger; forgets orphans, group and block size.
void kv_holdings_purge(struct kv_holdings *holdings);

// Tokens of a block; 0: unknown.
uint32_t kv_holdings_block_tokens(const struct kv_holdings *holdings);

// Tokens reported as stored on the GPU since the last purge.  An engine that has stored its whole
// capacity holds no block older than those.
uint64_t kv_holdings_tokens_stored(const struct kv_holdings *holdings);

uint64_t kv_holdings_block_count(const struct kv_holdings *holdings);  // now, tiers counted apart
uint32_t kv_holdings_orphan_count(const struct kv_holdings *holdings); // events, now
const struct kv_holdings_counts *kv_holdings_counts(const struct kv_holdings *holdings);
