// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_vocab.h"

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"

TEST(tokens_of_their_own_and_others_are_found_apart)
{
    struct vocab *small = vocab_create();
    vocab_add(small, slice_str("a"));
    vocab_add(small, slice_str(" ab"));
    vocab_add(small, slice_str(""));
    for (uint32_t has_odd = 0; has_odd < 2; has_odd++) {
        struct bpe_vocab vocab;
        CHECK(bpe_vocab_init(&vocab, &small->options));
        bpe_vocab_set_own(&vocab, 0);
        CHECK(bpe_vocab_index(&vocab, has_odd));
        CHECK_EQ(bpe_vocab_find(&vocab, slice_str("a")), 0);
        CHECK_EQ(bpe_vocab_find(&vocab, slice_str(" ab")), bpe_no_id);
        CHECK_EQ(bpe_vocab_find(&vocab, slice_str("b")), bpe_no_id);
        CHECK(bpe_vocab_is_own(&vocab, 0) && !bpe_vocab_is_own(&vocab, 1));
        CHECK_EQ(vocab.odd.count, has_odd);
        CHECK_EQ(bpe_vocab_find_odd(&vocab, slice_str(" ab")), has_odd ? 1 : bpe_no_id);
        CHECK_EQ(bpe_vocab_find_odd(&vocab, slice_str("a")), bpe_no_id);
        CHECK_EQ(bpe_vocab_find_odd(&vocab, slice_str(" ab ")), bpe_no_id);
        bpe_vocab_fini(&vocab);
    }
    free(small);
}

TEST(a_mark_is_a_space_in_a_text_and_a_space_in_a_token_is_nothing)
{
    struct vocab *small = vocab_create();
    small->options.by_character = true;
    vocab_add(small, slice_str("▁a▁"));
    vocab_add(small, slice_str(" a"));
    vocab_add(small, slice_str("\xe2\x96"));
    vocab_add(small, slice_str("a b"));
    struct bpe_vocab vocab;
    CHECK(bpe_vocab_init(&vocab, &small->options));
    CHECK(slice_is(bpe_vocab_text(&vocab, 0), " a "));
    CHECK_EQ(bpe_vocab_text(&vocab, 1).size, 0);
    CHECK_EQ(bpe_vocab_text(&vocab, 3).size, 0);
    CHECK(slice_is(bpe_vocab_text(&vocab, 2), "\xe2\x96"));
    CHECK(bpe_vocab_index(&vocab, true));
    CHECK_EQ(bpe_vocab_find_odd(&vocab, slice_str(" a ")), 0);
    CHECK_EQ(bpe_vocab_find_odd(&vocab, slice_str(" a")), bpe_no_id);
    bpe_vocab_fini(&vocab);
    free(small);
}
