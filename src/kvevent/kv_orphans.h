// SPDX-License-Identifier: Apache-2.0
//
// kv_orphans.h -- stored blocks whose parent is unknown, until it comes.
//
//     orphan   parent a3:  a4 a5 a6        waits for a3
//     orphan   parent a5:  b6 b7           waits for a5, and hence for a3
//
// The event is kept as it was.  It is found by the name of its parent, and by the names of its
// own blocks, which may be removed before they are placed.  The oldest events make room for new
// ones.
//
// Threads: one owner.  Memory: a copy of each event, bounded by the numbers below.
#pragma once

#include "base/list.h"
#include "kvevent/kv_notice.h"

enum {
    kv_orphan_max = 4096,          // events kept aside
    kv_orphan_bytes_max = 4 << 20, // of all of them
    kv_orphan_age_ms = 30000,
};

struct kv_orphan_block {
    struct list_node by_hash;
    struct kv_orphan *orphan;
    uint32_t index; // in the notice
    bool is_gone;   // it was removed since
};

struct kv_orphan {
    struct kv_notice notice; // with memory of its own
    struct kv_orphan_block *blocks;
    struct kv_orphan *next; // the owner's, of one that was taken
    // The rest belongs to kv_orphans.c.
    struct list_node by_parent;
    struct kv_orphan *newer;
    struct kv_orphan *older;
    uint64_t stored_ms;
    size_t size;
};

struct kv_orphans;

// NULL when memory is short.
struct kv_orphans *kv_orphans_create(void);
void kv_orphans_destroy(struct kv_orphans **orphans);

uint32_t kv_orphans_count(const struct kv_orphans *orphans);

// Keeps a copy of an event that has a parent.  Returns how many events are dropped for it: older
// ones, or this one.
uint32_t kv_orphans_keep(struct kv_orphans *orphans, const struct kv_notice *notice,
                         uint64_t now_ms);

// An event that waits for this parent, now the caller's; NULL: no event does.
struct kv_orphan *kv_orphans_take(struct kv_orphans *orphans, uint64_t parent);
void kv_orphan_free(struct kv_orphan *orphan);

// One copy of the block is gone, or all of them.  False: no orphan has it.
bool kv_orphans_remove(struct kv_orphans *orphans, uint64_t hash, enum prefix_tier tier,
                       bool all_copies);

// Whether the oldest event has waited too long.
bool kv_orphans_are_due(const struct kv_orphans *orphans, uint64_t now_ms);

// Drops those that have, and returns how many.
uint32_t kv_orphans_expire(struct kv_orphans *orphans, uint64_t now_ms);

// Drops all events of a tier, or all of them: prefix_tier_count.
void kv_orphans_clear(struct kv_orphans *orphans, enum prefix_tier tier);
