// SPDX-License-Identifier: Apache-2.0
//
// kv_names.h -- which block an engine means when it says a hash.
//
// Engines name blocks by hashes of their own, seeded at random; ours are made of the tokens.  One table for
// each rank of an engine leads from a name, and the tier it is said of, to the place of the block in the
// ledger, and counts its copies, since engines that hold a block twice say so twice and take it back
// twice.
//
//     line, 64 bytes   [ passed | name place copies | name place copies | ... 5 of them ]
//
// A name whose line is full goes to the next one that is not.  The table grows by an eighth when it is
// full to six sevenths, about, so that it is never much larger than what it holds: 15 to 17 bytes a name.
// Of a name 40 bits are kept beside those that choose its line.
//
// Threads: one owner.  Memory: grows with what is in it, up to a bound that all tables share.
#pragma once

#include "prefix/prefix_ledger.h"

#include <stdbool.h>

// What all tables of a thread may take together.
struct kv_names_budget {
    size_t limit; // bytes
    size_t used;
};

struct kv_names;

// Keeps `budget`.  NULL when memory is short.
struct kv_names *kv_names_create(struct kv_names_budget *budget);
void kv_names_destroy(struct kv_names **names);

uint64_t kv_names_count(const struct kv_names *names);
size_t kv_names_memory(const struct kv_names *names);

// The place of a block, or 0.
uint32_t kv_names_find(const struct kv_names *names, uint64_t hash, enum prefix_tier tier);

// One copy more of the block at `place`.  Returns the place that the name had before if that was another
// one, whose copies are forgotten; otherwise 0.  *is_full: it was not taken, since the budget is spent.
uint32_t kv_names_add(struct kv_names *names, uint64_t hash, enum prefix_tier tier, uint32_t place,
                      bool *is_full);

// What one copy less, or as many as `copies_left` says where that is not UINT32_MAX, leaves.
struct kv_names_gone {
    uint32_t place; // 0: the name is not known
    bool is_last;   // no copy is left, and the name is forgotten
};
struct kv_names_gone kv_names_remove(struct kv_names *names, uint64_t hash, enum prefix_tier tier,
                                     uint32_t copies_left);

// Fetches the memory of a name that is asked for soon.
void kv_names_expect(const struct kv_names *names, uint64_t hash, enum prefix_tier tier);

// Calls `visit` with every name's place and tier, in no order.
void kv_names_each(const struct kv_names *names,
                   void (*visit)(void *owner, uint32_t place, enum prefix_tier tier), void *owner);

// Forgets all names of a tier, or all of them: `tier` is prefix_tier_count.  Gives memory back.
void kv_names_clear(struct kv_names *names, enum prefix_tier tier);
