// SPDX-License-Identifier: Apache-2.0
//
// The joints between the parts; what each part does by itself has tests of its own.

#include "base/rng.h"
#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define MARK "\xe2\x96\x81"

TEST(invalid_utf8_is_refused)
{
    const struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_GPT2};
    CHECK_STR(fixture_ids_of(&parts, "hello \xff"), status_text(STATUS_MALFORMED));
    CHECK_STR(fixture_ids_of(&parts, "\xed\xa0\x80"), status_text(STATUS_MALFORMED));
    CHECK_STR(fixture_ids_of(&parts, ""), "");
}

TEST(gaps_know_nothing_of_each_other)
{
    const struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN),
    };
    CHECK_STR(fixture_ids_of(&parts, "he<a>llo"), "256 265 257 111");
    // White space at the end of a gap is one piece, though a word follows the token.
    CHECK_STR(fixture_ids_of(&parts, "x  <a>wo"), "120 262 265 119 111");
    CHECK_STR(fixture_ids_of(&parts, "x  wo"), "120 32 261");
    CHECK_STR(fixture_ids_of(&parts, "<a><a>"), "265 265");
}

TEST(the_longest_of_added_tokens_counts)
{
    const struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .added = FIXTURE_ADDED(265, "<a", FIXTURE_PLAIN) "," //
        FIXTURE_ADDED(266, "<a>", FIXTURE_PLAIN),
    };
    CHECK_STR(fixture_ids_of(&parts, "<a><ab"), "266 265 98");
}

TEST(flags_of_added_tokens_reach_the_search)
{
    struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_GPT2};
    parts.added = FIXTURE_ADDED(265, "[M]", FIXTURE_FLAGS(false, true, false, false));
    CHECK_STR(fixture_ids_of(&parts, "x  [M] x"), "120 265 32 120");
    parts.added = FIXTURE_ADDED(265, "[M]", FIXTURE_FLAGS(false, false, true, false));
    CHECK_STR(fixture_ids_of(&parts, "x [M]  x"), "120 32 265 120");
    parts.added = FIXTURE_ADDED(265, "MM", FIXTURE_FLAGS(true, false, false, false));
    CHECK_STR(fixture_ids_of(&parts, "xMM MM"), "120 77 77 32 265");
    // Of what the normalizer leaves, too.
    parts.added = FIXTURE_ADDED(265, "[M]", FIXTURE_FLAGS(false, true, true, true));
    CHECK_STR(fixture_ids_of(&parts, "x  [M]  x"), "120 265 120");
}

TEST(tokens_in_normalized_text_come_after_those_in_the_text_itself)
{
    const struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .added = FIXTURE_ADDED(265, "<long>", FIXTURE_NORMALIZED) "," //
        FIXTURE_ADDED(266, "ng", FIXTURE_PLAIN),
    };
    CHECK_STR(fixture_ids_of(&parts, "<long>"), "60 108 111 266 62");
}

TEST(normalization_comes_before_the_second_search)
{
    const struct fixture_parts parts = {
        .normalizer = "{\"type\":\"NFC\"}",
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .added = FIXTURE_ADDED(265, "<e\xcc\x81>", FIXTURE_NORMALIZED) "," //
        FIXTURE_ADDED(266, "[e\xcc\x81]", FIXTURE_PLAIN),
    };
    CHECK_STR(fixture_ids_of(&parts, "<\xc3\xa9><e\xcc\x81>"), "265 265");
    CHECK_STR(fixture_ids_of(&parts, "[\xc3\xa9][e\xcc\x81]"), "91 195 169 93 266");
    CHECK_STR(fixture_ids_of(&parts, "e\xcc\x81"), "195 169");
}

TEST(a_prefix_space_is_put_before_every_gap_without_one)
{
    const struct fixture_parts parts = {
        .pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true}",
        .added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN) "," //
        FIXTURE_ADDED(266, "<n>", FIXTURE_NORMALIZED),
    };
    CHECK_STR(fixture_ids_of(&parts, "wo"), "261");
    CHECK_STR(fixture_ids_of(&parts, " wo"), "261");
    CHECK_STR(fixture_ids_of(&parts, "wo<a>wo<n>wo<a>"), "261 265 261 266 261 265");
}

TEST(prepend_is_for_every_gap_and_never_asks)
{
    const struct fixture_parts parts = {
        .normalizer = FIXTURE_LIKE_LLAMA2,
        .added = FIXTURE_ADDED(1, "<s>", FIXTURE_PLAIN),
        .is_sentence_piece = true,
    };
    CHECK_STR(fixture_ids_of(&parts, "hell"), "292");
    CHECK_STR(fixture_ids_of(&parts, " b"), "288 261");
    CHECK_STR(fixture_ids_of(&parts, "a<s>a<s>"), "287 1 287 1");
    CHECK_STR(fixture_ids_of(&parts, MARK "b"), "288 261");
    CHECK_STR(fixture_ids_of(&parts, ""), "");
}

TEST(a_normalized_token_has_the_space_that_prepend_gives_it)
{
    const struct fixture_parts parts = {
        .normalizer = FIXTURE_LIKE_LLAMA2,
        .added = FIXTURE_ADDED(2, "</s>", FIXTURE_NORMALIZED),
        .is_sentence_piece = true,
    };
    CHECK_STR(fixture_ids_of(&parts, "</s>"), "2");
    CHECK_STR(fixture_ids_of(&parts, "x</s>y"), "259 283 63 50 278 65 284");
    CHECK_STR(fixture_ids_of(&parts, "x </s>y"), "259 283 2 284");
    CHECK_STR(fixture_ids_of(&parts, "x" MARK "</s> </s>"), "259 283 2 2");
    CHECK_STR(fixture_ids_of(&parts, "x a"), "259 283 287");
}

TEST(metaspace_asks_whether_there_is_a_space)
{
    struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_METASPACE("always", "false"),
        .added = FIXTURE_ADDED(1, "<s>", FIXTURE_PLAIN) "," //
        FIXTURE_ADDED(2, "</s>", FIXTURE_NORMALIZED),
        .is_sentence_piece = true,
    };
    CHECK_STR(fixture_ids_of(&parts, "a<s>a</s>a"), "287 1 287 2 287");
    CHECK_STR(fixture_ids_of(&parts, " a<s>" MARK "a"), "287 1 287");
    parts.pre_tokenizer = FIXTURE_METASPACE("first", "false");
    CHECK_STR(fixture_ids_of(&parts, "a<s>a</s>a"), "287 1 260 2 260");
    CHECK_STR(fixture_ids_of(&parts, "<s>a"), "1 260");
    parts.pre_tokenizer = FIXTURE_METASPACE("never", "false");
    CHECK_STR(fixture_ids_of(&parts, "a<s>a"), "260 1 260");
}

TEST(metaspace_may_split_before_every_space)
{
    struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_METASPACE("always", "true"),
        .is_sentence_piece = true,
    };
    CHECK_STR(fixture_ids_of(&parts, "b  b"), "259 261 259 259 261");
    CHECK_STR(fixture_ids_of(&parts, "o x" MARK "a" MARK), "259 274 259 283 287 259");
    parts.pre_tokenizer = FIXTURE_METASPACE("always", "false");
    CHECK_STR(fixture_ids_of(&parts, "b  b"), "259 261 288 261");
    CHECK_STR(fixture_ids_of(&parts, "o x"), "259 293");
}

TEST(a_part_has_no_special_ids_at_its_cuts)
{
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .normalizer = FIXTURE_LIKE_LLAMA2,
        .post_processor = "{\"type\":\"BertProcessing\",\"sep\":[\"\",2],\"cls\":[\"\",1]}",
        .is_sentence_piece = true,
    });
    struct tokenizer_input input = {.text = slice_str("a"), .adds_special = true};
    CHECK_STR(fixture_encode(tokenizer, &input), "1 287 2");
    input.is_continued = true;
    CHECK_STR(fixture_encode(tokenizer, &input), "1 287");
    input.continues = true;
    CHECK_STR(fixture_encode(tokenizer, &input), "260");
    input.is_continued = false;
    CHECK_STR(fixture_encode(tokenizer, &input), "260 2");
    tokenizer_destroy(&tokenizer);
}

struct long_text {
    uint8_t *bytes;
    size_t size;
    uint32_t *ids;
    size_t capacity;
};

static struct long_text long_text_of(const char *unit, size_t count, const char *last)
{
    size_t unit_size = strlen(unit);
    size_t size = unit_size * count + strlen(last);
    struct long_text text = {.bytes = malloc(size), .size = size, .capacity = 3 * size + 16};
    text.ids = malloc(text.capacity * sizeof(*text.ids));
    ASSERT(text.bytes != NULL && text.ids != NULL);
    for (size_t i = 0; i < unit_size * count; i++) {
        text.bytes[i] = (uint8_t)unit[i % unit_size];
    }
    for (size_t i = unit_size * count; i < size; i++) {
        text.bytes[i] = (uint8_t)last[i - unit_size * count];
    }
    return text;
}

static void long_text_free(struct long_text *text)
{
    free(text->bytes);
    free(text->ids);
}

static enum status encode_long(const struct fixture_parts *parts, struct long_text *text,
                               size_t *count)
{
    struct tokenizer *tokenizer = fixture_load(parts);
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    const struct tokenizer_input input = {.text = slice_of(text->bytes, text->size)};
    ASSERT(scratch != NULL);
    enum status status =
        tokenizer_encode(tokenizer, scratch, &input, text->ids, text->capacity, count);
    tokenizer_scratch_destroy(&scratch);
    tokenizer_destroy(&tokenizer);
    return status;
}

TEST(a_long_gap_is_the_sum_of_its_parts_even_if_it_is_copied)
{
    static const struct {
        struct fixture_parts parts;
        const char *unit;
        size_t ids_of_unit;
        size_t ids_of_last;
    } samples[] = {
        {{.pre_tokenizer = FIXTURE_LIKE_LLAMA3}, "hello world\n", 6, 1},
        {{.pre_tokenizer = FIXTURE_LIKE_GPT2}, "x y", 3, 1},
        {{.normalizer = "{\"type\":\"NFC\"}", .pre_tokenizer = FIXTURE_LIKE_LLAMA3},
         "he\xcc\x81 \xe0\xa5\x98 wo\n",
         12,
         1},
        {{.normalizer = "{\"type\":\"NFC\"}",
          .pre_tokenizer = FIXTURE_LIKE_LLAMA3,
          .added = FIXTURE_ADDED(265, "<n>", FIXTURE_NORMALIZED)},
         "he\xcc\x81 <n> wo\n",
         7,
         1},
        {{.normalizer = FIXTURE_REPLACE, .is_sentence_piece = true}, "a b a", 4, 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        enum { count = 60000 };
        struct long_text text = long_text_of(samples[i].unit, count, "!");
        size_t got = 0;
        CHECK_EQ(encode_long(&samples[i].parts, &text, &got), STATUS_OK);
        CHECK_EQ(got, samples[i].ids_of_unit * count + samples[i].ids_of_last);
        long_text_free(&text);
    }
}

TEST(a_piece_that_is_too_long_is_refused)
{
    const struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_GPT2};
    size_t count = 0;
    struct long_text most = long_text_of("x", tokenizer_piece_max, "");
    CHECK_EQ(encode_long(&parts, &most, &count), STATUS_OK);
    CHECK_EQ(count, tokenizer_piece_max);
    long_text_free(&most);
    struct long_text more = long_text_of("x", tokenizer_piece_max + 1, "");
    CHECK_EQ(encode_long(&parts, &more, &count), STATUS_TOO_LARGE);
    long_text_free(&more);
    struct long_text words = long_text_of("x ", tokenizer_piece_max, "");
    CHECK_EQ(encode_long(&parts, &words, &count), STATUS_OK);
    long_text_free(&words);
}

TEST(between_characters_a_gap_is_refused_only_where_nothing_can_be_cut)
{
    const struct fixture_parts parts = {.normalizer = FIXTURE_REPLACE, .is_sentence_piece = true};
    size_t count = 0;
    struct long_text cut = long_text_of("ab", tokenizer_piece_max, "");
    CHECK_EQ(encode_long(&parts, &cut, &count), STATUS_OK);
    CHECK_EQ(count, 2 * (size_t)tokenizer_piece_max);
    long_text_free(&cut);
    struct long_text most = long_text_of("l", tokenizer_piece_max, "");
    CHECK_EQ(encode_long(&parts, &most, &count), STATUS_OK);
    CHECK_EQ(count, tokenizer_piece_max / 2);
    long_text_free(&most);
    struct long_text more = long_text_of("l", tokenizer_piece_max + 1, "");
    CHECK_EQ(encode_long(&parts, &more, &count), STATUS_TOO_LARGE);
    long_text_free(&more);
}

TEST(any_capacity_that_holds_the_ids_is_enough)
{
    static const char text[] = "hello hello wo <a>hell  \n\n 1111 \xc3\xa9 <a>";
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .pre_tokenizer = FIXTURE_LIKE_LLAMA3,
        .added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN),
    });
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    const struct tokenizer_input input = {.text = slice_str(text)};
    uint32_t ids[128];
    uint32_t other_ids[128];
    size_t count = 0;

    CHECK_EQ(tokenizer_encode(tokenizer, scratch, &input, ids, ARRAY_COUNT(ids), &count),
             STATUS_OK);
    for (size_t capacity = 0; capacity < ARRAY_COUNT(ids); capacity++) {
        size_t other_count = 77;
        enum status status =
            tokenizer_encode(tokenizer, scratch, &input, other_ids, capacity, &other_count);
        CHECK_EQ(status, capacity < count ? STATUS_TOO_LARGE : STATUS_OK);
        CHECK_EQ(other_count, capacity < count ? 77 : count);
        CHECK(capacity < count || memcmp(ids, other_ids, count * sizeof(*ids)) == 0);
    }
    tokenizer_scratch_destroy(&scratch);
    tokenizer_destroy(&tokenizer);
}
