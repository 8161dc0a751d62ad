// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_table.h"

#include "base/rng.h"
#include "test.h"

TEST(orders_are_those_of_ranks_without_gaps)
{
    const struct bpe_merge merges[] = {
        {.left = 1, .right = 2, .merged = 10, .rank = 900},
        {.left = 2, .right = 1, .merged = 11, .rank = 5},
        {.left = 0, .right = 0, .merged = 12, .rank = UINT32_MAX},
        {.left = 3, .right = 1, .merged = 11, .rank = 5},
    };
    struct bpe_table table;
    CHECK(bpe_table_init(&table, merges, ARRAY_COUNT(merges)));
    CHECK_EQ(table.order_count, 3);
    CHECK_EQ(bpe_table_order(&table, 2, 1), 0);
    CHECK_EQ(bpe_table_order(&table, 3, 1), 0);
    CHECK_EQ(bpe_table_order(&table, 1, 2), 1);
    CHECK_EQ(bpe_table_order(&table, 0, 0), 2);
    CHECK_EQ(bpe_table_order(&table, 1, 1), bpe_order_none);
    CHECK_EQ(table.merged[0], 11);
    CHECK_EQ(table.merged[1], 10);
    CHECK_EQ(table.merged[2], 12);
    bpe_table_fini(&table);
}

TEST(of_a_pair_that_is_listed_twice_the_last_one_counts)
{
    const struct bpe_merge merges[] = {
        {.left = 1, .right = 2, .merged = 10, .rank = 0},
        {.left = 2, .right = 3, .merged = 11, .rank = 1},
        {.left = 1, .right = 2, .merged = 10, .rank = 2},
    };
    struct bpe_table table;
    CHECK(bpe_table_init(&table, merges, ARRAY_COUNT(merges)));
    CHECK(bpe_table_order(&table, 1, 2) > bpe_table_order(&table, 2, 3));
    bpe_table_fini(&table);
}

TEST(without_merges_nothing_merges)
{
    struct bpe_table table;
    CHECK(bpe_table_init(&table, NULL, 0));
    CHECK_EQ(bpe_table_order(&table, 0, 0), bpe_order_none);
    CHECK_EQ(bpe_table_order(&table, bpe_token_max - 1, bpe_token_max - 1), bpe_order_none);
    bpe_table_fini(&table);
}

TEST(every_pair_of_many_is_found_and_no_other)
{
    enum { side = 300 };
    static struct bpe_merge merges[side * side];
    static uint32_t orders[side * side];
    struct rng rng = {.state = 3};
    uint32_t count = 0;
    for (uint32_t pair = 0; pair < side * side; pair++) {
        orders[pair] = bpe_order_none;
        if (rng_below(&rng, 2) == 0) {
            orders[pair] = count;
            merges[count] = (struct bpe_merge){.left = bpe_token_max - 1 - pair / side,
                                               .right = bpe_token_max - 1 - pair % side,
                                               .merged = count,
                                               .rank = count};
            count++;
        }
    }
    struct bpe_table table;
    CHECK(bpe_table_init(&table, merges, count));
    for (uint32_t pair = 0; pair < side * side; pair++) {
        CHECK_EQ(bpe_table_order(&table, bpe_token_max - 1 - pair / side,
                                 bpe_token_max - 1 - pair % side),
                 orders[pair]);
    }
    bpe_table_fini(&table);
}
