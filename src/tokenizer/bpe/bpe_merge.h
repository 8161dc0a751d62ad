// SPDX-License-Identifier: Apache-2.0
//
// bpe_merge.h -- merges symbols until no two neighbours may merge.
//
// With few symbols, a scan of all of them finds the next merge.  With many, symbols are linked to
// their neighbours, and places where a merge is possible wait in a list for each order:
//
//     orders in use      1 . . 4 . 6        bit tree; the least one is taken
//     waiting                  4: 17 9 30   list of places
//     taken                       9 17 30   bit tree of places; leftmost first
//
// A merge that becomes possible is put in the list of its order; if that is the order just taken,
// among the places; and if it is a lower one, in a heap that goes before all others.  Lower orders
// are rare, so places are hardly ever compared, and the time is n log n whatever the text.
//
// Memory: reserved for a piece of the longest size; pages that no piece needed were never touched.
#pragma once

#include "tokenizer/bpe/bpe_table.h"

struct bpe_room;

// Room to merge `symbol_max` symbols.  NULL when out of memory.
struct bpe_room *bpe_room_create(uint32_t order_count, uint32_t symbol_max);
void bpe_room_destroy(struct bpe_room **room);

// In place; returns how many are left.
uint32_t bpe_merge(const struct bpe_table *table, struct bpe_room *room, uint32_t *ids,
                   uint32_t count);
