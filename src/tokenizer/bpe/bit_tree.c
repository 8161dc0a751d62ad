// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bit_tree.h"

#include "base/base.h"

#include <stdlib.h>

bool bit_tree_init(struct bit_tree *tree, uint32_t size)
{
    ASSERT(size >= 1 && size <= bit_tree_size_max);
    *tree = (struct bit_tree){0};
    for (unsigned level = 0; level < bit_tree_levels; level++) {
        size = (size + 63) / 64;
        tree->levels[level] = calloc(size, sizeof(uint64_t));
        if (tree->levels[level] == NULL) {
            return false;
        }
    }
    return true;
}

void bit_tree_fini(struct bit_tree *tree)
{
    for (unsigned level = 0; level < bit_tree_levels; level++) {
        free(tree->levels[level]);
    }
    *tree = (struct bit_tree){0};
}
