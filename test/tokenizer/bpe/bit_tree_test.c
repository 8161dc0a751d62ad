// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bit_tree.h"

#include "base/rng.h"
#include "test.h"

TEST(the_least_of_any_set_is_found)
{
    enum { size = 300000 };
    static bool has[size];
    struct bit_tree tree;
    CHECK(bit_tree_init(&tree, size));
    CHECK(bit_tree_is_empty(&tree));
    struct rng rng = {.state = 1};
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t number = rng_below(&rng, rng_below(&rng, 2) == 0 ? 100 : size);
        has[number] = true;
        bit_tree_add(&tree, number);
        if (rng_below(&rng, 2) == 0) {
            number = rng_below(&rng, 200);
            has[number] = false;
            bit_tree_remove(&tree, number);
        }
        uint32_t least = 0;
        while (least < size && !has[least]) {
            least++;
        }
        CHECK_EQ(bit_tree_is_empty(&tree), least == size);
        CHECK_EQ(least == size ? size : bit_tree_least(&tree), least);
    }
    for (uint32_t last = 0; !bit_tree_is_empty(&tree);) {
        uint32_t least = bit_tree_least(&tree);
        CHECK(least >= last && has[least] && bit_tree_has(&tree, least));
        bit_tree_remove(&tree, least);
        CHECK(!bit_tree_has(&tree, least));
        last = least;
    }
    bit_tree_fini(&tree);
}

TEST(the_last_number_is_as_good_as_the_first)
{
    for (uint32_t size = 1; size <= bit_tree_size_max; size *= 64) {
        struct bit_tree tree;
        CHECK(bit_tree_init(&tree, size));
        bit_tree_add(&tree, size - 1);
        CHECK_EQ(bit_tree_least(&tree), size - 1);
        bit_tree_remove(&tree, size - 1);
        CHECK(bit_tree_is_empty(&tree));
        bit_tree_fini(&tree);
    }
}
