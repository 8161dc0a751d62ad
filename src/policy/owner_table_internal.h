// SPDX-License-Identifier: Apache-2.0
//
// owner_table_internal.h -- which backend a prefix was given to, for the policies that remember one.
//
// A cache of fixed size, empty when zeroed.  A key belongs to one set of eight entries, which lie in
// the order of their last use: what is asked for or stored moves to the front, and what falls off
// the end is forgotten.
//
//     set   [ k7 ][ k2 ][ k9 ][ k4 ][ k1 ][ k8 ][ k3 ][ k6 ]
//            ^ used last                               ^ forgotten when the next key is stored
//
// Owners are identities, not slots: a slot is given to another backend one day, and then the old
// one's prefixes would follow it.  No owner is 0, which marks what is free; a backend whose name
// hashes to 0 owns nothing.
#pragma once

#include "base/base.h"

#include <stdint.h>
#include <string.h>

// 65,536 entries, 1 MiB.
enum { owner_set_bits = 13, owner_ways = 8 };

struct owner_entry {
    uint64_t key;
    uint64_t owner; // 0: free
};

struct owner_table {
    struct owner_entry sets[1 << owner_set_bits][owner_ways];
};

static inline struct owner_entry *owner_table_set(struct owner_table *table, uint64_t key)
{
    // Keys are hashes already; the product spreads those of tests and of other makers as well.
    return table->sets[(key * 0x9e3779b97f4a7c15) >> (64 - owner_set_bits)];
}

// The place of the key in its set, or owner_ways.  A free one will do for the key 0.
static inline uint32_t owner_table_way(const struct owner_entry *set, uint64_t key)
{
    for (uint32_t way = 0; way < owner_ways; way++) {
        if (set[way].key == key) {
            return way;
        }
    }
    return owner_ways;
}

// Returns 0 when no owner is known.
static inline uint64_t owner_table_find(struct owner_table *table, uint64_t key)
{
    struct owner_entry *set = owner_table_set(table, key);
    uint32_t way = owner_table_way(set, key);
    if (way == owner_ways) {
        return 0;
    }
    struct owner_entry found = set[way];
    memmove(&set[1], &set[0], way * sizeof(*set));
    set[0] = found;
    return found.owner;
}

// Replaces the owner that the key had.
static inline void owner_table_store(struct owner_table *table, uint64_t key, uint64_t owner)
{
    struct owner_entry *set = owner_table_set(table, key);
    uint32_t way = owner_table_way(set, key);
    uint32_t moved = way < owner_ways ? way : owner_ways - 1;
    memmove(&set[1], &set[0], moved * sizeof(*set));
    set[0] = (struct owner_entry){.key = key, .owner = owner};
}
