// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe_merge.h"

#include "test.h"
#include "tokenizer/bpe_fixture.h"

enum { count_max = 400 };

// Ranks of one letter: the i-th merge is of tokens i letters long, in an order that is not theirs.
static struct vocab *letters(struct rng *rng)
{
    struct vocab *vocab = vocab_create();
    vocab_add(vocab, slice_str("a"));
    vocab_merge(vocab, "a", "a");
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t left = rng_below(rng, vocab->options.token_count);
        uint32_t right = rng_below(rng, vocab->options.token_count);
        if (vocab->tokens[left].size + vocab->tokens[right].size < 40) {
            vocab_merge_ids(vocab, left, right);
        }
    }
    return vocab;
}

TEST(many_symbols_merge_as_few_do_whatever_the_order_of_ranks)
{
    struct rng rng = {.state = 2};
    uint32_t expected[count_max];
    uint32_t ids[count_max];
    for (uint32_t round = 0; round < 200; round++) {
        struct vocab *vocab = letters(&rng);
        struct bpe_table table;
        CHECK(bpe_table_init(&table, vocab->merges, vocab->options.merge_count));
        struct bpe_room *room = bpe_room_create(table.order_count, count_max);
        for (uint32_t count = 0; count <= count_max; count += 1 + rng_below(&rng, 40)) {
            for (uint32_t i = 0; i < count; i++) {
                ids[i] = expected[i] = rng_below(&rng, 8) == 0 ? rng_below(&rng, 5) : 0;
            }
            size_t wanted = naive_merge(vocab, expected, count);
            CHECK_EQ(bpe_merge(&table, room, ids, count), wanted);
            CHECK(memcmp(ids, expected, wanted * sizeof(ids[0])) == 0);
        }
        bpe_room_destroy(&room);
        bpe_table_fini(&table);
        free(vocab);
    }
}
