// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_cuts.h"

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"

static struct bpe_cuts cuts;
static struct bpe_symbols symbols;

static void make(struct vocab *vocab)
{
    ASSERT(bpe_symbols_init(&symbols, &vocab->options));
    ASSERT(bpe_cuts_init(&cuts, &vocab->options, &symbols));
}

static void drop(struct vocab *vocab)
{
    bpe_cuts_fini(&cuts);
    bpe_symbols_fini(&symbols);
    free(vocab);
}

static bool between(const char *first, const char *second)
{
    unsigned size;
    return bpe_cuts_between(&cuts, utf8_read((const uint8_t *)first, &size),
                            utf8_read((const uint8_t *)second, &size));
}

TEST(no_cut_where_a_merge_could_join)
{
    struct vocab *vocab = vocab_create();
    vocab_add_bytes(vocab);
    vocab_merge(vocab, "a", "b");
    vocab_merge(vocab, "xab", "中c");
    make(vocab);
    CHECK(!between("a", "b"));
    CHECK(between("b", "a"));
    CHECK(!between("b", "中"));
    CHECK(between("b", "国"));
    CHECK(between("中", "c"));
    CHECK(between("x", "a"));
    drop(vocab);
}

TEST(no_cut_where_a_merge_could_join_part_of_a_character)
{
    // E4 B8 AD 中, E4 B8 AE 丮, E5 9B BD 国, C3 A9 é
    struct vocab *vocab = vocab_create();
    vocab_add_bytes(vocab);
    vocab_merge(vocab, "a", "\xe4");
    vocab_merge(vocab, "b", "\xe4\xb8");
    vocab_merge(vocab, "\xad", "c");
    vocab_merge(vocab, "\xb8\xae", "d");
    vocab_merge(vocab, "\xa9", "\xe5");
    make(vocab);
    CHECK(!between("a", "中"));
    CHECK(between("a", "国"));
    CHECK(!between("b", "丮"));
    CHECK(between("b", "国"));
    CHECK(!between("中", "c"));
    CHECK(!between("丮", "d"));
    CHECK(between("国", "c"));
    CHECK(between("国", "d"));
    CHECK(!between("é", "国"));
    CHECK(between("é", "中"));
    CHECK(between("a", "a"));
    drop(vocab);
}

TEST(a_mark_and_a_space_have_the_same_cuts)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", byte);
        vocab->options.byte_ids[byte] = vocab_add(vocab, slice_str(name));
    }
    vocab_merge(vocab, "▁", "a");
    vocab_merge(vocab, "b", "▁");
    make(vocab);
    CHECK(!between(" ", "a") && !between("▁", "a"));
    CHECK(!between("b", " ") && !between("b", "▁"));
    CHECK(between("a", " ") && between("a", "▁"));
    CHECK(between("😀", " ") && between("é", "😀"));
    drop(vocab);
}

TEST(no_cut_beside_a_character_that_vanishes)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    vocab_merge(vocab, "a", "b");
    vocab_add(vocab, slice_str("é"));
    make(vocab);
    CHECK(between("b", "a") && between("é", "a") && between("b", "é"));
    CHECK(!between("a", "c") && !between("c", "a") && !between("c", "c"));
    CHECK(!between("a", "è") && !between("😀", "a"));
    drop(vocab);
}

TEST(no_cut_at_all_where_byte_tokens_merge)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    vocab_add(vocab, slice_str("▁"));
    for (uint32_t byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", byte);
        vocab->options.byte_ids[byte] = vocab_add(vocab, slice_str(name));
    }
    vocab_merge(vocab, "a", "<0xC3>");
    make(vocab);
    CHECK(!between("b", "a"));
    drop(vocab);
}

TEST(a_text_is_cut_at_every_cut_and_nowhere_else)
{
    struct vocab *vocab = vocab_create();
    vocab_add_bytes(vocab);
    vocab_merge(vocab, "a", "中");
    make(vocab);
    const uint8_t *text = (const uint8_t *)"aa中😀é";
    CHECK_EQ(bpe_cuts_next(&cuts, text, 0, 11), 1);
    CHECK_EQ(bpe_cuts_next(&cuts, text, 1, 11), 11);
    CHECK_EQ(bpe_cuts_next(&cuts, text, 1, 5), 5);
    drop(vocab);
}
