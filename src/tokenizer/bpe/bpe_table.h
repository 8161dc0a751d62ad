// SPDX-License-Identifier: Apache-2.0
//
// bpe_table.h -- which pairs of tokens merge, in what order, and into what.
//
// Ranks become orders: 0 for the lowest rank in use, 1 for the next, without gaps.  A slot is one
// word, so that a lookup costs one cache line:
//
//     [ left 21 | right 21 | order 22 ]      all ones: empty
//
// The token that an order leads to is in an array of its own, which only a merge reads.  Most pairs
// do not merge: a filter of one bit for each hash answers for them, and stays in the cache where
// the slots do not.  (It takes the time for 1 MiB of random letters to a quarter.)
#pragma once

#include "base/slice.h"
#include "tokenizer/bpe/bpe.h"

enum {
    bpe_order_bits = 22,
    bpe_filter_bits = 16,                       // words of 64 bits: half a megabyte
    bpe_order_none = (1 << bpe_order_bits) - 1, // the pair does not merge
};

struct bpe_table {
    uint64_t *slots;
    uint32_t *merged; // by order
    uint64_t *filter; // a pair whose bit is 0 does not merge
    uint32_t mask;
    uint32_t shift;
    uint32_t order_count;
};

// Of a pair that is listed twice the last counts.  False when out of memory; call bpe_table_fini in
// any case.
bool bpe_table_init(struct bpe_table *table, const struct bpe_merge *merges, uint32_t count);
void bpe_table_fini(struct bpe_table *table);
size_t bpe_table_memory(const struct bpe_table *table);

static inline uint64_t bpe_table_pair(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 21 | right;
}

static inline uint64_t bpe_table_hash(uint64_t pair)
{
    return pair * 0x9e3779b97f4a7c15;
}

static inline uint32_t bpe_table_home(const struct bpe_table *table, uint64_t hash)
{
    return (uint32_t)(hash >> table->shift);
}

static inline uint64_t *bpe_table_filter(const struct bpe_table *table, uint64_t hash)
{
    return &table->filter[hash >> (64 - bpe_filter_bits)];
}

// bpe_order_none when they do not merge.
static inline uint32_t bpe_table_order(const struct bpe_table *table, uint32_t left, uint32_t right)
{
    uint64_t pair = bpe_table_pair(left, right);
    uint64_t hash = bpe_table_hash(pair);
    if ((*bpe_table_filter(table, hash) >> (hash >> 32 & 63) & 1) == 0) {
        return bpe_order_none;
    }
    for (uint32_t at = bpe_table_home(table, hash);; at++) {
        uint64_t slot = table->slots[at & table->mask];
        // An empty slot has bpe_order_none where the order is.
        if (slot >> bpe_order_bits == pair || slot == UINT64_MAX) {
            return slot & bpe_order_none;
        }
    }
}

static inline void bpe_table_prefetch(const struct bpe_table *table, uint32_t left, uint32_t right)
{
    uint64_t hash = bpe_table_hash(bpe_table_pair(left, right));
    __builtin_prefetch(bpe_table_filter(table, hash));
    __builtin_prefetch(&table->slots[bpe_table_home(table, hash)]);
}
