// SPDX-License-Identifier: Apache-2.0
//
// kv_names.h -- which block an engine means by a hash.
//
// Engines name blocks by hashes of their own, seeded at random; our keys are made of the tokens.
// For each rank of an engine a table leads from a name and its tier to the place of the block in
// the ledger.  It counts copies, since an engine that holds a block twice reports two stores and
// two removals.
//
//     line, 64 bytes   [ 5 names, 48 bits of each | their 5 places | their copies ]
//
// A name is in one of two lines, which its bits point at; a new one goes to the emptier line.  If
// both are full, one of their names moves to its other line.  So finding, adding and removing
// look at two lines, however long the table has been in use.  Open addressing would need chains
// of full lines, which grow with every removal or must be mended by it.
//
// The lines of a name are near each other and in the order of names, so growing is one sweep.  A
// table that is full to seven ninths grows by an eighth: a name takes 16.5 to 18.5 bytes, once
// there are some thousands.
//
// Of a name 48 bits are kept.  In a table of 150,000 names one lookup in 1.9 thousand million
// finds another name, and takes one block for another.  Copies are counted to 65,535; a block
// that had as many stays until it is cleared.
//
// Threads: one owner.  Memory: grows with the names, up to a bound that all tables share.  While
// a table grows there are two of it.
#pragma once

#include "prefix/prefix_ledger.h"

#include <stdbool.h>

// The memory of all tables of a thread.  Large tables are made of slabs, which other tables can
// reuse.  Lookups jump about: with small pages, most of their time goes to address translation.
struct kv_names_budget {
    size_t limit; // bytes
    size_t used;
    void *block; // of `limit` bytes, in cache lines, for slabs; the caller's; NULL: from the heap

    // The tables' own.
    void *free;
    size_t fresh; // bytes of the block that were ever taken
};

struct kv_names;

// Keeps `budget`.  NULL when memory is short.
struct kv_names *kv_names_create(struct kv_names_budget *budget);
void kv_names_destroy(struct kv_names **names);

// Names in all tiers.
uint64_t kv_names_count(const struct kv_names *names);

// The place of a block, or 0.
uint32_t kv_names_find(const struct kv_names *names, uint64_t hash, enum prefix_tier tier);

struct kv_names_added {
    uint32_t before; // the place that the name had; 0: there was no such name
    bool is_full;    // it was not taken, since the budget is spent
};

// One copy more of the block at `place`, which is not 0.  If the name had another place, that
// place and its copies are forgotten.
struct kv_names_added kv_names_add(struct kv_names *names, uint64_t hash, enum prefix_tier tier,
                                   uint32_t place);

enum { kv_names_one_less = -1 };

struct kv_names_gone {
    uint32_t place; // 0: the name is unknown
    bool is_last;   // no copy is left, and the name is forgotten
};

// `copies_left` copies are left, or one less than before: kv_names_one_less.
struct kv_names_gone kv_names_remove(struct kv_names *names, uint64_t hash, enum prefix_tier tier,
                                     int64_t copies_left);

// Prefetches names that will be looked up soon.
void kv_names_prefetch(const struct kv_names *names, const uint64_t *hashes, uint32_t count,
                       enum prefix_tier tier);

// The same for names that will be added, once that memory has come: if their lines are full,
// others are needed.
void kv_names_prefetch_room(const struct kv_names *names, const uint64_t *hashes, uint32_t count,
                            enum prefix_tier tier);

// Calls `visit` with the place of every name of a tier, in no order.
void kv_names_each(const struct kv_names *names, enum prefix_tier tier,
                   void (*visit)(void *owner, uint32_t place), void *owner);

// Forgets all names of a tier, and gives their memory back.
void kv_names_clear(struct kv_names *names, enum prefix_tier tier);
