// SPDX-License-Identifier: Apache-2.0
//
// owner_table_internal.h -- maps prefixes to the backends that own them, for policies that remember
// owners.
//
// A set-associative cache of fixed size, empty when zeroed.  A key belongs to one set of eight
// entries in the order of their last use.  A lookup or a store moves an entry to the front; a store
// into a full set evicts the last.
//
//     set   [ k7 ][ k2 ][ k9 ][ k4 ][ k1 ][ k8 ][ k3 ][ k6 ]
//            ^ used last                               ^ evicted when the next key is stored
//
// Owners are identities, not slots: a slot is reused by another backend, which must not inherit the
// prefixes of the old one.  Owner 0 marks a free entry, so a backend whose name hashes to 0 owns
// nothing.
#pragma once

#include "base/base.h"
#include "policy/policy.h"

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
    // Keys are hashes; the product also spreads the small numbers that tests use as keys.
    return table->sets[(key * 0x9e3779b97f4a7c15) >> (64 - owner_set_bits)];
}

// The position of the key in its set, or owner_ways.  Key 0 may find a free entry.
static inline uint32_t owner_table_way(const struct owner_entry *set, uint64_t key)
{
    for (uint32_t way = 0; way < owner_ways; way++) {
        if (set[way].key == key) {
            return way;
        }
    }
    return owner_ways;
}

// 0: unknown.
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

// The index of the target with that identity; target_count: not among the targets.
static inline uint32_t owner_target(const struct policy_input *in, uint64_t identity)
{
    uint32_t i = 0;
    while (i < in->target_count && in->targets[i].identity != identity) {
        i++;
    }
    return i;
}

// Replaces the owner of the key, if it has one.
static inline void owner_table_store(struct owner_table *table, uint64_t key, uint64_t owner)
{
    struct owner_entry *set = owner_table_set(table, key);
    uint32_t way = owner_table_way(set, key);
    uint32_t moved = way < owner_ways ? way : owner_ways - 1;
    memmove(&set[1], &set[0], moved * sizeof(*set));
    set[0] = (struct owner_entry){.key = key, .owner = owner};
}
