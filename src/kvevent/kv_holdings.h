// SPDX-License-Identifier: Apache-2.0
//
// kv_holdings.h -- what one rank of an engine holds, kept true to its events.
//
//     notice --> names: which blocks?  --> our own keys over their tokens --> ledger: who holds what
//
// Keys are chained over the tokens that events carry, so it does not matter how an engine hashes, with
// what seed, or which one it is; its hashes only say what comes behind what and what goes.
//
// A block whose parent was never told is an orphan (kv_orphans.h): it is kept aside and finds its place
// when the parent comes.  Nothing is ever put where it might not belong.
//
// What is looked at: stores whose tokens are ids, of groups whose presence decides a hit, and of several
// such groups the first that was told; removals of that group.  A block has as many tokens as the first one
// that was told: vLLM also tells blocks that are not full yet, which are smaller, and connectors their own
// larger pieces.  If one that is not full was told first, the first larger one on the GPU shows it: then what
// was held is forgotten, and the larger size holds.
//
// Two names may mean the same block, if an engine began to hash anew and we did not notice.  The block is
// held until both are gone.  A name that is said of another block leaves the one it had.
//
// Removals come one by one, and each waits for memory twice: they are put together until something
// else comes, or kv_holdings_settle.
//
// Threads: the ledger's writer.  Memory: the names', and the orphans' as they come; both bounded.
#pragma once

#include "base/slice.h"
#include "kvevent/kv_names.h"
#include "kvevent/kv_notice.h"

// Counted since it was created, whatever was purged.
#define KV_HOLDINGS_COUNTS(X)                                                                      \
    X(stored, "blocks that were told to be stored")                                                \
    X(removed, "blocks that were told to be gone")                                                 \
    X(cleared, "times that everything was told to be gone")                                        \
    X(orphans, "events whose parent was not known")                                                \
    X(adopted, "of those, the ones whose parent came")                                             \
    X(orphans_lost, "of those, the ones that were too many or waited too long")                    \
    X(unknown_removals, "removals of blocks that were not known")                                  \
    X(ignored, "events of groups, sizes or kinds that are not looked at")                          \
    X(unknown_kinds, "events of a kind that is not known")                                         \
    X(malformed, "events that make no sense")                                                      \
    X(refused, "blocks that found no memory")

struct kv_holdings_counts {
#define X(name, help) uint64_t name;
    KV_HOLDINGS_COUNTS(X)
#undef X
};

struct kv_holdings_options {
    struct prefix_ledger *ledger;   // kept, as the budget
    struct kv_names_budget *budget; // of names
    uint32_t backend;               // its number in the ledger
    bool is_set; // the engine tells a block once, however many copies it has of it
};

struct kv_holdings;

// NULL when memory is short.
struct kv_holdings *kv_holdings_create(const struct kv_holdings_options *options);

// Purges.
void kv_holdings_destroy(struct kv_holdings **holdings);

// Does what the notice says; removals at the latest when kv_holdings_settle is called, which the caller does
// after the last notice of a batch.
void kv_holdings_apply(struct kv_holdings *holdings, const struct kv_notice *notice,
                       uint64_t now_ms);
void kv_holdings_settle(struct kv_holdings *holdings);

// A kv_prefetch_fn, whose owner is a struct kv_holdings: fetches what storing these blocks will need.
void kv_holdings_prefetch(void *holdings, const uint64_t *hashes, uint32_t count);

// Nothing is held: the ledger no longer speaks of this backend, and orphans, group and size are forgotten.
void kv_holdings_purge(struct kv_holdings *holdings);

// Tokens of a block, as the events say; 0: not told yet.
uint32_t kv_holdings_block_tokens(const struct kv_holdings *holdings);

// Tokens told to be stored on the GPU since the last purge: an engine that has stored as many as it can
// hold has nothing left that was not told.
uint64_t kv_holdings_tokens_stored(const struct kv_holdings *holdings);

uint64_t kv_holdings_block_count(const struct kv_holdings *holdings);  // now, tiers counted apart
uint32_t kv_holdings_orphan_count(const struct kv_holdings *holdings); // events, now
const struct kv_holdings_counts *kv_holdings_counts(const struct kv_holdings *holdings);
