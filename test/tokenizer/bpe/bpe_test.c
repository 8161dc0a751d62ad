// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe.h"

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"
#include "tokenizer/tokenizer.h"

// The ids of one piece, as texts of tokens with a bar between them.
static const char *encode_with(struct vocab *vocab, const char *text, bool extra_space)
{
    static char out[512];
    struct bpe *bpe = bpe_create(&vocab->options);
    struct bpe_scratch *scratch = bpe_scratch_create(bpe);
    uint32_t ids[512];
    uint32_t end = (uint32_t)strlen(text);
    size_t count = bpe_encode(
        bpe, scratch,
        &(struct bpe_pieces){
            .text = slice_str(text), .ends = &end, .count = 1, .extra_space = extra_space},
        ids);
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice token = vocab->tokens[ids[i]];
        size += (size_t)snprintf(out + size, sizeof(out) - size, "%s%.*s", i == 0 ? "" : "|",
                                 (int)token.size, (const char *)token.bytes);
    }
    out[size] = '\0';
    bpe_scratch_destroy(&scratch);
    bpe_destroy(&bpe);
    return out;
}

static const char *encode(struct vocab *vocab, const char *text)
{
    return encode_with(vocab, text, false);
}

TEST(lower_ranks_merge_first)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "b", "c");
    vocab_merge(vocab, "a", "b");
    CHECK_STR(encode(vocab, "abc"), "a|bc");
    free(vocab);
}

TEST(of_equals_the_leftmost_merges_first)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "a");
    CHECK_STR(encode(vocab, "aaaaa"), "aa|aa|a");
    free(vocab);
}

TEST(ranks_belong_to_pairs_and_not_to_tokens)
{
    // "aaaa" is made of "aaa" and "a" late, and of "aa" and "aa" never.
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "a");
    vocab_merge(vocab, "aa", "a");
    vocab_merge(vocab, "b", "a");
    vocab_merge(vocab, "aaa", "a");
    vocab_merge(vocab, "a", "aaa");
    CHECK_STR(encode(vocab, "aaaa"), "aa|aa");
    CHECK_STR(encode(vocab, "aaa"), "aaa");
    CHECK_STR(encode(vocab, "baaa"), "b|aaa");
    free(vocab);
}

TEST(of_a_pair_that_is_listed_twice_the_last_counts)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "b");
    vocab_merge(vocab, "b", "c");
    CHECK_STR(encode(vocab, "abc"), "ab|c");
    vocab_merge(vocab, "a", "b");
    CHECK_STR(encode(vocab, "abc"), "a|bc");
    free(vocab);
}

TEST(ranks_need_no_order_in_the_list)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "b");
    vocab_merge(vocab, "b", "c");
    vocab->merges[0].rank = 7;
    vocab->merges[1].rank = 3;
    CHECK_STR(encode(vocab, "abc"), "a|bc");
    free(vocab);
}

TEST(pairs_that_become_one_token_may_have_one_rank)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "b");
    vocab_merge(vocab, "b", "c");
    vocab_merge(vocab, "ab", "c");
    vocab_merge(vocab, "a", "bc");
    vocab->merges[3].rank = vocab->merges[2].rank;
    CHECK_STR(encode(vocab, "abcabc"), "abc|abc");
    free(vocab);
}

TEST(a_token_that_no_merge_leads_to_is_found_only_if_merges_are_ignored)
{
    struct vocab *vocab = vocab_create();
    vocab_merge(vocab, "a", "b");
    vocab_add(vocab, slice_str("c"));
    vocab_add(vocab, slice_str("abc"));
    CHECK_STR(encode(vocab, "abc"), "ab|c");
    vocab->options.ignore_merges = true;
    CHECK_STR(encode(vocab, "abc"), "abc");
    CHECK_STR(encode(vocab, "abcc"), "ab|c|c");
    CHECK_STR(encode(vocab, "cabc"), "c|ab|c");
    free(vocab);
}

TEST(a_part_of_a_long_piece_is_not_a_whole_piece)
{
    // Nothing merges across "xc", so that the piece may be cut around "abc" but is still one.
    struct vocab *vocab = vocab_create();
    vocab_add_bytes(vocab);
    vocab_merge(vocab, "a", "b");
    vocab_add(vocab, slice_str("abc"));
    vocab->options.ignore_merges = true;
    CHECK_STR(encode(vocab, "xxxxxxxxxxxxabcxabcxxxxxxx"),
              "x|x|x|x|x|x|x|x|x|x|x|x|ab|c|x|ab|c|x|x|x|x|x|x|x");
    CHECK_STR(encode(vocab, "abc"), "abc");
    free(vocab);
}

static struct vocab *character_vocab(void)
{
    struct vocab *vocab = vocab_create();
    vocab->options.by_character = true;
    vocab_merge(vocab, "▁", "a");
    vocab_merge(vocab, "é", "a");
    vocab_add(vocab, slice_str("b"));
    return vocab;
}

static void add_byte_tokens(struct vocab *vocab)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof(name), "<0x%02X>", byte);
        vocab->options.byte_ids[byte] = vocab_add(vocab, slice_str(name));
    }
}

TEST(a_space_is_a_mark_and_a_mark_is_a_space)
{
    struct vocab *vocab = character_vocab();
    CHECK_STR(encode(vocab, "b a▁a"), "b|▁a|▁a");
    CHECK_STR(encode_with(vocab, "ab", true), "▁a|b");
    CHECK_STR(encode_with(vocab, " ab", true), "▁|▁a|b");
    CHECK_STR(encode_with(vocab, "", true), "▁");
    free(vocab);
}

TEST(a_character_without_a_token_becomes_its_bytes)
{
    struct vocab *vocab = character_vocab();
    add_byte_tokens(vocab);
    CHECK_STR(encode(vocab, "éaèb"), "éa|<0xC3>|<0xA8>|b");
    CHECK_STR(encode(vocab, "😀"), "<0xF0>|<0x9F>|<0x98>|<0x80>");
    CHECK_STR(encode(vocab, "<0x41>"), "<0x3C>|<0x30>|<0x78>|<0x34>|<0x31>|<0x3E>");
    free(vocab);
}

TEST(a_character_without_a_token_is_unknown_if_bytes_have_no_ids)
{
    struct vocab *vocab = character_vocab();
    vocab->options.unknown_id = vocab_add(vocab, slice_str("<unk>"));
    CHECK_STR(encode(vocab, "èèa"), "<unk>|<unk>|a");
    vocab->options.fuse_unknown = true;
    CHECK_STR(encode(vocab, "èèaè"), "<unk>|a|<unk>");
    CHECK_STR(encode(vocab, "èèèèèèèèèèèèèèèèèèèèèèèèèèa"), "<unk>|a");
    free(vocab);
}

TEST(a_character_without_a_token_vanishes_without_an_unknown_id)
{
    struct vocab *vocab = character_vocab();
    CHECK_STR(encode(vocab, "éèa"), "éa");
    CHECK_STR(encode(vocab, "éèèèèèèèèèèèèèèèèèa"), "éa");
    CHECK_STR(encode(vocab, "èè"), "");
    free(vocab);
}

TEST(nothing_has_no_ids)
{
    struct vocab *vocab = vocab_create();
    CHECK_STR(encode(vocab, ""), "");
    vocab_merge(vocab, "a", "b");
    CHECK_STR(encode(vocab, ""), "");
    free(vocab);
}

// Some pieces of a text, cut between characters.
struct sample {
    uint8_t bytes[600];
    uint32_t ends[64];
    struct bpe_pieces pieces;
};

static void draw_sample(struct rng *rng, uint32_t kinds, bool by_character, struct sample *sample)
{
    size_t size_max = rng_below(rng, 4) == 0 ? sizeof(sample->bytes) : 60;
    struct slice text = any_text(rng, kinds, sample->bytes, size_max);
    uint32_t odds = 1 + rng_below(rng, 40);
    uint32_t count = 0;
    for (uint32_t i = 1; i <= text.size; i++) {
        bool may_end = i == text.size || (text.bytes[i] & 0xc0) != 0x80;
        if (may_end && (i == text.size || (count < 63 && rng_below(rng, odds) == 0))) {
            sample->ends[count++] = i;
        }
    }
    sample->pieces = (struct bpe_pieces){
        .text = text,
        .ends = sample->ends,
        .count = count,
        .extra_space = by_character && rng_below(rng, 2) == 0,
    };
}

static bool is_same(const uint32_t *a, size_t a_count, const uint32_t *b, size_t b_count)
{
    return a_count == b_count && memcmp(a, b, a_count * sizeof(a[0])) == 0;
}

// Whether the ids of some texts are those of the rules; each text twice, for the second time much
// of it is known.
static bool obeys(const struct vocab *vocab, struct rng *rng, uint32_t kinds)
{
    static uint32_t expected[3 * 600 + 3];
    static uint32_t ids[600 + 1];
    static struct sample sample;
    struct bpe *bpe = bpe_create(&vocab->options);
    struct bpe_scratch *scratch = bpe_scratch_create(bpe);
    bool is_right = true;
    for (uint32_t text = 0; text < 30; text++) {
        draw_sample(rng, kinds, vocab->options.by_character, &sample);
        size_t wanted = naive_encode(vocab, &sample.pieces, expected);
        for (uint32_t pass = 0; pass < 2; pass++) {
            size_t count = bpe_encode(bpe, scratch, &sample.pieces, ids);
            is_right = is_right && is_same(ids, count, expected, wanted);
        }
    }
    bpe_scratch_destroy(&scratch);
    bpe_destroy(&bpe);
    return is_right;
}

TEST(ids_are_those_of_the_rules_for_any_vocabulary_and_any_pieces)
{
    struct rng rng = {.state = 1};
    for (uint32_t round = 0; round < 150; round++) {
        uint32_t kinds = 1 + rng_below(&rng, character_kinds);
        struct vocab *vocab = any_vocab(&rng, kinds);
        CHECK(obeys(vocab, &rng, kinds));
        free(vocab);
    }
}
