// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_table.h"

#include "base/base.h"

#include <stdlib.h>

static int compare_ranks(const void *left, const void *right)
{
    const struct bpe_merge *a = *(const struct bpe_merge *const *)left;
    const struct bpe_merge *b = *(const struct bpe_merge *const *)right;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static bool are_ranks_sorted(const struct bpe_merge *merges, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (merges[i].rank < merges[i - 1].rank) {
            return false;
        }
    }
    return true;
}

// A pair that is there already gets the new order.
static void table_put(struct bpe_table *table, const struct bpe_merge *merge, uint32_t order)
{
    ASSERT(merge->left < bpe_token_max && merge->right < bpe_token_max);
    uint64_t pair = bpe_table_pair(merge->left, merge->right);
    uint64_t hash = bpe_table_hash(pair);
    uint32_t at = bpe_table_home(table, hash);
    while (table->slots[at] != UINT64_MAX && table->slots[at] >> bpe_order_bits != pair) {
        at = (at + 1) & table->mask;
    }
    table->slots[at] = pair << bpe_order_bits | order;
    *bpe_table_filter(table, hash) |= UINT64_C(1) << (hash >> 32 & 63);
}

// The merges in the order of their ranks: `sorted`.  `orders[i]` is that of merge i.
static void table_number_orders(struct bpe_table *table, const struct bpe_merge *merges,
                                uint32_t count, const struct bpe_merge **sorted, uint32_t *orders)
{
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = &merges[i];
    }
    if (!are_ranks_sorted(merges, count)) {
        qsort(sorted, count, sizeof(const struct bpe_merge *), compare_ranks);
    }
    for (uint32_t i = 0; i < count; i++) {
        bool is_new = i == 0 || sorted[i]->rank != sorted[i - 1]->rank;
        ASSERT(is_new || sorted[i]->merged == sorted[i - 1]->merged);
        table->order_count += is_new;
        orders[sorted[i] - merges] = table->order_count - 1;
        table->merged[table->order_count - 1] = sorted[i]->merged;
    }
}

static bool table_fill(struct bpe_table *table, const struct bpe_merge *merges, uint32_t count)
{
    const struct bpe_merge **sorted = malloc(sizeof(const struct bpe_merge *) * (count + 1));
    uint32_t *orders = calloc(count + 1, sizeof(uint32_t));
    bool has_memory = sorted != NULL && orders != NULL;
    if (has_memory) {
        table_number_orders(table, merges, count, sorted, orders);
    }
    for (uint32_t i = 0; has_memory && i < count; i++) {
        table_put(table, &merges[i], orders[i]); // in the order of the list: the last counts
    }
    free(orders);
    free(sorted);
    return has_memory;
}

bool bpe_table_init(struct bpe_table *table, const struct bpe_merge *merges, uint32_t count)
{
    ASSERT(count <= bpe_merge_max);
    // Between a third and two thirds are in use.
    uint32_t bits = 4;
    while ((1U << bits) < count + count / 2) {
        bits++;
    }
    *table = (struct bpe_table){
        .mask = (1U << bits) - 1,
        .shift = 64 - bits,
        .slots = malloc(sizeof(uint64_t) << bits),
        .filter = calloc(1U << bpe_filter_bits, sizeof(uint64_t)),
        .merged = malloc(sizeof(uint32_t) * (count + 1)),
    };
    if (table->slots == NULL || table->filter == NULL || table->merged == NULL) {
        return false;
    }
    memset(table->slots, 0xff, sizeof(uint64_t) << bits);
    bool is_filled = table_fill(table, merges, count);
    ASSERT(table->order_count <= count);
    return is_filled;
}

void bpe_table_fini(struct bpe_table *table)
{
    free(table->slots);
    free(table->filter);
    free(table->merged);
    *table = (struct bpe_table){0};
}

size_t bpe_table_memory(const struct bpe_table *table)
{
    return ((size_t)table->mask + 1 + (1U << bpe_filter_bits)) * sizeof(uint64_t) +
           table->order_count * sizeof(uint32_t);
}
