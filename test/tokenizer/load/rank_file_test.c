// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

static void add_base64(struct text *out, struct slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.size; i += 3) {
        uint32_t bits = (uint32_t)bytes.bytes[i] << 16;
        bits |= i + 1 < bytes.size ? (uint32_t)bytes.bytes[i + 1] << 8 : 0;
        bits |= i + 2 < bytes.size ? bytes.bytes[i + 2] : 0;
        text_add_format(out, "%c%c%c%c", digits[bits >> 18], digits[bits >> 12 & 63],
                        i + 1 < bytes.size ? digits[bits >> 6 & 63] : '=',
                        i + 2 < bytes.size ? digits[bits & 63] : '=');
    }
}

static void add_token(struct text *out, const char *token, unsigned rank)
{
    add_base64(out, slice_str(token));
    text_add_format(out, " %u\n", rank);
}

// All bytes, then these tokens; the ranks of the bytes are their values.
static struct slice file_of(const char *const *tokens, size_t count)
{
    static uint8_t space[1 << 14];
    struct text out = text_over(space, sizeof(space));
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t value = (uint8_t)byte;
        add_base64(&out, slice_of(&value, 1));
        text_add_format(&out, " %u\n", byte);
    }
    for (size_t i = 0; i < count; i++) {
        add_token(&out, tokens[i], 256 + (unsigned)i);
    }
    ASSERT(!out.overflow);
    return text_slice(&out);
}

static const char *refusal_of(struct tokenizer_ranks ranks)
{
    static struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_load_ranks(&ranks, &tokenizer, &error);
    ASSERT((status == STATUS_OK) == (tokenizer != NULL));
    tokenizer_destroy(&tokenizer);
    return error.text;
}

static struct tokenizer *load(const struct tokenizer_ranks *ranks)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_load_ranks(ranks, &tokenizer, &error);
    ASSERT(status == STATUS_OK);
    return tokenizer;
}

TEST(the_lowest_rank_of_a_sum_merges_first_and_the_leftmost_of_equals)
{
    static const char *const tokens[] = {"bc", "ab", "abc", "cd", "aa"};
    struct tokenizer *tokenizer =
        load(&(struct tokenizer_ranks){.file = file_of(tokens, 5), .pattern = "gpt2"});
    CHECK_STR(fixture_ids(tokenizer, "abc"), "258");
    CHECK_STR(fixture_ids(tokenizer, "abcd"), "258 100"); // bc, then a bc; cd is later
    CHECK_STR(fixture_ids(tokenizer, "aaa"), "260 97");
    tokenizer_destroy(&tokenizer);
}

TEST(a_piece_that_is_a_token_is_that_token)
{
    // No two tokens make "xyz", and yet it is one.
    static const char *const tokens[] = {"xyz"};
    struct tokenizer *tokenizer =
        load(&(struct tokenizer_ranks){.file = file_of(tokens, 1), .pattern = "gpt2"});
    CHECK_STR(fixture_ids(tokenizer, "xyz"), "256");
    CHECK_STR(fixture_ids(tokenizer, "xyzx"), "120 121 122 120");
    tokenizer_destroy(&tokenizer);
}

TEST(special_tokens_have_the_ids_they_are_given)
{
    static const struct tokenizer_special specials[] = {
        {{(const uint8_t *)"<|a|>", 5}, 1000},
        {{(const uint8_t *)"<|b|>", 5}, 999},
    };
    struct tokenizer *tokenizer = load(&(struct tokenizer_ranks){
        .file = file_of(NULL, 0), .pattern = "o200k", .specials = specials, .special_count = 2});
    CHECK_STR(fixture_ids(tokenizer, "x<|b|><|a|>"), "120 999 1000");
    CHECK_EQ(tokenizer_id_count(tokenizer), 1001);
    tokenizer_destroy(&tokenizer);
}

TEST(specials_must_be_new)
{
    static const struct tokenizer_special twice[] = {
        {{(const uint8_t *)"<a>", 3}, 300},
        {{(const uint8_t *)"<a>", 3}, 301},
    };
    static const struct tokenizer_special empty[] = {{{NULL, 0}, 300}};
    static const struct tokenizer_special taken[] = {{{(const uint8_t *)"<a>", 3}, 10}};
    struct tokenizer_ranks ranks = {
        .file = file_of(NULL, 0), .pattern = "gpt2", .specials = twice, .special_count = 2};
    CHECK_STR(refusal_of(ranks), "special token \"<a>\" is listed twice");
    ranks.special_count = 1;
    ranks.specials = empty;
    CHECK_STR(refusal_of(ranks), "a special token is empty, too long or has no such id");
    ranks.specials = taken;
    CHECK_STR(refusal_of(ranks), "two words have the id 10");
}

TEST(patterns_that_no_file_of_ranks_has_are_refused)
{
    struct tokenizer_ranks ranks = {.file = file_of(NULL, 0), .pattern = "dsv3"};
    CHECK_STR(refusal_of(ranks), "pattern dsv3 is not known");
    ranks.pattern = "surprise";
    CHECK_STR(refusal_of(ranks), "pattern surprise is not known");
}

TEST(lines_are_a_token_and_a_rank)
{
    struct tokenizer_ranks ranks = {.pattern = "gpt2"};
    CHECK_STR(refusal_of(ranks), "the file of ranks is empty");
    ranks.file = slice_str("IQ==\n");
    CHECK_STR(refusal_of(ranks), "line 1 is not a token and its rank");
    static const char *const wrong[] = {"IQ== x",  "IQ= 1",        "I*== 1", " 1",     "=Q== 1",
                                        "IQ== -1", "IQ== 2097152", "==== 1", "I=== 1", "IQ==  1"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        ranks.file = slice_str(wrong[i]);
        CHECK_STR(refusal_of(ranks), "line 1 is not a token of at most 512 bytes and its rank");
    }
    ranks.file = slice_str("IQ== 0\r\n\nIQ== 1");
    CHECK_STR(refusal_of(ranks), "line 3 repeats a token");
    ranks.file = slice_str("IQ== 0\nIg== 0");
    CHECK_STR(refusal_of(ranks), "two words have the id 0");
}

static const char *ids_of_kimi(const char *unit, size_t count)
{
    size_t size = strlen(unit);
    char *text = malloc(size * count);
    ASSERT(text != NULL);
    for (size_t i = 0; i < size * count; i++) {
        text[i] = unit[i % size];
    }
    struct tokenizer *tokenizer =
        load(&(struct tokenizer_ranks){.file = file_of(NULL, 0), .pattern = "kimi"});
    uint32_t *ids = malloc(size * count * sizeof(*ids));
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    size_t got = 0;
    ASSERT(ids != NULL && scratch != NULL && !tokenizer_has_cuts(tokenizer));
    const struct tokenizer_input input = {.text = slice_of(text, size * count)};
    enum status status = tokenizer_encode(tokenizer, scratch, &input, ids, size * count, &got);
    ASSERT(status != STATUS_OK || got == size * count);
    tokenizer_scratch_destroy(&scratch);
    tokenizer_destroy(&tokenizer);
    free(ids);
    free(text);
    return status == STATUS_OK ? "" : status_text(status);
}

TEST(texts_that_kimis_program_cuts_are_refused)
{
    CHECK_STR(ids_of_kimi("abcd ", 80000), "");
    CHECK_STR(ids_of_kimi("abcd ", 80001), status_text(STATUS_TOO_LARGE));
    CHECK_STR(ids_of_kimi("\xc3\xa9 ", 200000), "");
    CHECK_STR(ids_of_kimi("x", 25000), "");
    CHECK_STR(ids_of_kimi("x", 25001), status_text(STATUS_TOO_LARGE));
    CHECK_STR(ids_of_kimi("\x1c", 25001), status_text(STATUS_TOO_LARGE));
}
