// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_merge.h"

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"

enum { count_max = 900 };

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

// Whether symbols drawn at random merge as the rules say.
static bool is_merged(const struct vocab *vocab, const struct bpe_table *table,
                      struct bpe_room *room, struct rng *rng, uint32_t count)
{
    static uint32_t expected[count_max];
    static uint32_t ids[count_max];
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = expected[i] = rng_below(rng, 8) == 0 ? rng_below(rng, 5) : 0;
    }
    size_t wanted = naive_merge(vocab, expected, count);
    return bpe_merge(table, room, ids, count) == wanted &&
           memcmp(ids, expected, wanted * sizeof(ids[0])) == 0;
}

static bool is_merged_at_any_count(struct rng *rng, uint32_t count_first, uint32_t step)
{
    struct vocab *vocab = letters(rng);
    struct bpe_table table;
    ASSERT(bpe_table_init(&table, vocab->merges, vocab->options.merge_count));
    struct bpe_room *room = bpe_room_create(table.order_count, count_max);
    bool is_same = true;
    for (uint32_t count = count_first; is_same && count <= count_max;
         count += 1 + rng_below(rng, step)) {
        is_same = is_merged(vocab, &table, room, rng, count);
    }
    bpe_room_destroy(&room);
    bpe_table_fini(&table);
    free(vocab);
    return is_same;
}

TEST(many_symbols_merge_as_few_do_for_any_order_of_ranks)
{
    struct rng rng = {.state = 2};
    for (uint32_t round = 0; round < 40; round++) {
        CHECK(is_merged_at_any_count(&rng, rng_below(&rng, 40), 200));
    }
}

TEST(very_many_symbols_wait_in_lists_and_merge_the_same)
{
    struct rng rng = {.state = 3};
    for (uint32_t round = 0; round < 10; round++) {
        CHECK(is_merged_at_any_count(&rng, 513 + rng_below(&rng, 100), 300));
    }
}
