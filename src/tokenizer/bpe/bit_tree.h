// SPDX-License-Identifier: Apache-2.0
//
// bit_tree.h -- a set of small numbers that finds its least member in four steps.
//
// A bit for each number, and above each word one bit that says whether the word has any:
//
//     level 3                [ 1 ]
//     level 2          [ 1 0 1 ... ]
//     level 1    [ 0 1 ][ ... ][ 1 1 ]
//     level 0    a bit for each number
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    bit_tree_levels = 4,
    bit_tree_size_max = 1 << 24, // 64 to the power of the levels
};

struct bit_tree {
    uint64_t *levels[bit_tree_levels]; // the last has one word
};

// An empty set for numbers below `size`.  False when out of memory; call bit_tree_fini in any case.
bool bit_tree_init(struct bit_tree *tree, uint32_t size);
void bit_tree_fini(struct bit_tree *tree);

static inline bool bit_tree_is_empty(const struct bit_tree *tree)
{
    return tree->levels[bit_tree_levels - 1][0] == 0;
}

static inline bool bit_tree_has(const struct bit_tree *tree, uint32_t number)
{
    return (tree->levels[0][number >> 6] >> (number & 63) & 1) != 0;
}

static inline void bit_tree_add(struct bit_tree *tree, uint32_t number)
{
    for (unsigned level = 0; level < bit_tree_levels; level++) {
        uint64_t *word = &tree->levels[level][number >> 6];
        uint64_t before = *word;
        *word |= UINT64_C(1) << (number & 63);
        if (before != 0) {
            return; // the levels above have their bits
        }
        number >>= 6;
    }
}

static inline void bit_tree_remove(struct bit_tree *tree, uint32_t number)
{
    for (unsigned level = 0; level < bit_tree_levels; level++) {
        uint64_t *word = &tree->levels[level][number >> 6];
        *word &= ~(UINT64_C(1) << (number & 63));
        if (*word != 0) {
            return;
        }
        number >>= 6;
    }
}

// The set is not empty.
static inline uint32_t bit_tree_least(const struct bit_tree *tree)
{
    uint32_t number = 0;
    for (unsigned level = bit_tree_levels; level-- > 0;) {
        number = number << 6 | (uint32_t)__builtin_ctzll(tree->levels[level][number]);
    }
    return number;
}
