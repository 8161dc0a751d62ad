// SPDX-License-Identifier: Apache-2.0
//
// prefix_ledger.h -- which backend holds which block of prompts, by the engines' KV events.
//
// The index (prefix_index.h) is a belief: blocks that we sent are there until they are too old.
// The ledger is a record: a block enters and leaves with its engine's events.  Blocks do not
// expire.  A full ledger refuses new blocks and keeps the old ones.
//
//     run A  k0 .. k15   holders: 3 (all on the GPU), 7 (0..11, 13..15; 14 and 15 in host memory)
//       |--> run B  k16 .. k20   holders: 3
//       '--> run C  k8'.. k12'   holders: 7      begins behind k7
//
// A run is up to 16 blocks that follow each other, found by its first key; it is freed when no
// backend holds any of its blocks.  A block does not move while it is held: its place is a number
// by which it is left, and by which others are entered behind it.  Each key has one place, the same
// for all backends and tiers.  A place is valid while some backend holds its block.
//
// Threads: one writer; any number of readers, who take no lock and never wait, as in
// prefix_index.h.
//
// Memory: all of it is taken by _create.
#pragma once

#include "prefix/prefix_index.h"

#include <stdbool.h>

struct prefix_ledger;

struct prefix_ledger_limits {
    void *block;   // of `memory` bytes, in cache lines; the caller's; NULL: from the heap
    size_t memory; // bytes, all of it; more than 53 GB are not used
    uint32_t backend_count_max; // at most 65,535
};

// NULL when memory is short.
struct prefix_ledger *prefix_ledger_create(const struct prefix_ledger_limits *limits);
void prefix_ledger_destroy(struct prefix_ledger **ledger);

// Where a backend keeps a block, from fast to slow.  A block may be in several.
enum prefix_tier { PREFIX_GPU, PREFIX_HOST, PREFIX_DISK, prefix_tier_count };

struct prefix_entry {
    const uint64_t *keys; // of blocks that follow each other
    uint32_t key_count;
    uint32_t after; // place of the block before the first, which must be held; 0: a prompt begins
    uint32_t backend;
    enum prefix_tier tier;
    uint64_t
        *before; // if not NULL: gets a bit for each of the first 64 that was held there already
};

// Writer only.  The backend holds these blocks; it may have held some of them before.  Fills
// `places` and returns how many were entered, from the first on: fewer than all when memory is
// short.  No place is 0.
uint32_t prefix_ledger_enter(struct prefix_ledger *ledger, const struct prefix_entry *entry,
                             uint32_t *places);

// Writer only.  The backend, which holds the block at that place, holds it in this tier too.
// Returns whether it did already.
bool prefix_ledger_hold(struct prefix_ledger *ledger, uint32_t place, uint32_t backend,
                        enum prefix_tier tier);

// Writer only.  The backend no longer holds the block at that place in that tier.  Holding is a
// set: a block that was entered several times is left once.  Does nothing at a place that no
// backend holds.
void prefix_ledger_leave(struct prefix_ledger *ledger, uint32_t place, uint32_t backend,
                         enum prefix_tier tier);

// The same for many places; faster if places of one run are next to each other, in any order.
void prefix_ledger_leave_all(struct prefix_ledger *ledger, const uint32_t *places, uint32_t count,
                             uint32_t backend, enum prefix_tier tier);

// Any thread.  Whether the backend evicted this block.  Only for a block that it does not hold now.
// The ledger remembers recent evictions alone: 65,536 of them if it is large, fewer if it is small.
bool prefix_ledger_is_evicted(const struct prefix_ledger *ledger, uint64_t key, uint32_t backend);

// Any thread.  The backend has computed an evicted block again: forget the eviction.
void prefix_ledger_note_computed(struct prefix_ledger *ledger, uint64_t key, uint32_t backend);

// Writer only.  The key of a held block.
uint64_t prefix_ledger_key(const struct prefix_ledger *ledger, uint32_t place);

// Any thread.  As prefix_index_match; of each hit's blocks `host` and `disk` say how many are no
// faster than that, and all are confirmed.
uint32_t prefix_ledger_match(const struct prefix_ledger *ledger, const uint64_t *keys,
                             uint32_t key_count, struct prefix_hit *hits, uint32_t hit_max);

// Any thread.  Prefetches the bucket of a key that will be entered or matched soon.
void prefix_ledger_prefetch(const struct prefix_ledger *ledger, uint64_t key);

// Writer only.  Prefetches the run of a block that will be left, or entered behind, soon.
void prefix_ledger_prefetch_place(const struct prefix_ledger *ledger, uint32_t place);

// Writer only.  The next step of prefetching, for blocks that may be the last of their runs.
void prefix_ledger_prefetch_ends(const struct prefix_ledger *ledger, const uint32_t *places,
                                 uint32_t count);

struct prefix_ledger_usage {
    size_t memory; // what runs and holders take now
    size_t limit;  // what they can take
    uint64_t run_count;
    uint64_t refused; // blocks that did not fit, since the start
};

// Any thread.
void prefix_ledger_usage(const struct prefix_ledger *ledger, struct prefix_ledger_usage *out);
