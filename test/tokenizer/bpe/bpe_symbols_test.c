// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_symbols.h"

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"

TEST(every_character_is_found_on_its_page)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    const uint32_t characters[] = {0x01, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
    for (uint32_t i = 0; i < ARRAY_COUNT(characters); i++) {
        uint8_t bytes[4];
        CHECK_EQ(vocab_add(vocab, slice_of(bytes, utf8_write(characters[i], bytes))), i);
    }
    struct bpe_symbols symbols;
    CHECK(bpe_symbols_init(&symbols, &vocab->options));
    for (uint32_t i = 0; i < ARRAY_COUNT(characters); i++) {
        CHECK_EQ(bpe_symbols_of(&symbols, characters[i]), i);
    }
    CHECK_EQ(bpe_symbols_of(&symbols, 2), bpe_no_id);
    CHECK_EQ(bpe_symbols_of(&symbols, 0x10fffe), bpe_no_id);
    CHECK_EQ(bpe_symbols_of(&symbols, ' '), bpe_no_id);
    bpe_symbols_fini(&symbols);
    free(vocab);
}

TEST(more_pages_than_were_taken_at_first_are_taken)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    for (uint32_t i = 0; i < 1000; i++) {
        uint8_t bytes[4];
        vocab_add(vocab, slice_of(bytes, utf8_write(0x10000 + i * 128, bytes)));
    }
    struct bpe_symbols symbols;
    CHECK(bpe_symbols_init(&symbols, &vocab->options));
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ(bpe_symbols_of(&symbols, 0x10000 + i * 128), i);
    }
    bpe_symbols_fini(&symbols);
    free(vocab);
}

TEST(tokens_of_half_or_two_characters_are_not_symbols)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    vocab_add(vocab, slice_str("\xe4\xb8"));
    vocab_add(vocab, slice_str("\x81"));
    vocab_add(vocab, slice_str("ab"));
    vocab_add(vocab, slice_str("\xc1\x81"));
    struct bpe_symbols symbols;
    CHECK(bpe_symbols_init(&symbols, &vocab->options));
    for (uint32_t character = 0; character < 0x110000; character++) {
        CHECK_EQ(bpe_symbols_of(&symbols, character), bpe_no_id);
    }
    bpe_symbols_fini(&symbols);
    free(vocab);
}
