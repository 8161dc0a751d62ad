// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/tokenizer.h"

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

static const char *token_of(const struct tokenizer *tokenizer, uint32_t id)
{
    static char text[64];
    struct slice token = tokenizer_token(tokenizer, id);
    ASSERT(token.size < sizeof(text));
    if (token.size > 0) {
        memcpy(text, token.bytes, token.size);
    }
    text[token.size] = '\0';
    return text;
}

TEST(a_token_is_the_bytes_it_stands_for)
{
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .more_words = ",\"\xe2\x96\x81z\":300", // not in the alphabet
        .added = FIXTURE_ADDED(266, "<a\xc4\xa0>", FIXTURE_PLAIN),
    });
    CHECK_EQ(tokenizer_id_count(tokenizer), 301);
    CHECK_EQ(tokenizer_token(tokenizer, 0).size, 1);
    CHECK_EQ(tokenizer_token(tokenizer, 0xff).bytes[0], 0xff);
    CHECK_EQ(tokenizer_token(tokenizer, 0xad).bytes[0], 0xad);
    CHECK_STR(token_of(tokenizer, 259), "hello");
    CHECK_STR(token_of(tokenizer, 261), " wo");
    CHECK_STR(token_of(tokenizer, 263), "\n\n");
    CHECK_STR(token_of(tokenizer, 266), "<a\xc4\xa0>");
    CHECK_STR(token_of(tokenizer, 280), "");
    CHECK_STR(token_of(tokenizer, 300), "\xe2\x96\x81z");
    CHECK_STR(token_of(tokenizer, 301), "");
    tokenizer_destroy(&tokenizer);
}

TEST(with_characters_a_mark_is_a_space_and_a_named_byte_that_byte)
{
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .normalizer = FIXTURE_LIKE_LLAMA2,
        .is_sentence_piece = true,
        .more_words = ",\"<m\xe2\x96\x81>\":296,\"<0x0a>\":295",
        .added = FIXTURE_ADDED(296, "<m\xe2\x96\x81>", FIXTURE_PLAIN),
    });
    CHECK_STR(token_of(tokenizer, 3 + 0x41), "A");
    CHECK_STR(token_of(tokenizer, 295), "<0x0a>");
    CHECK_STR(token_of(tokenizer, 290), " he");
    CHECK_STR(token_of(tokenizer, 2), "</s>");
    CHECK_STR(token_of(tokenizer, 296), "<m\xe2\x96\x81>");
    tokenizer_destroy(&tokenizer);
}

TEST(a_fingerprint_changes_with_the_file_and_not_with_the_run)
{
    const struct fixture_parts one = {.pre_tokenizer = FIXTURE_LIKE_GPT2};
    const struct fixture_parts other = {.pre_tokenizer = FIXTURE_LIKE_LLAMA3};
    struct tokenizer *a = fixture_load(&one);
    struct tokenizer *b = fixture_load(&one);
    struct tokenizer *c = fixture_load(&other);
    CHECK(tokenizer_fingerprint(a) == tokenizer_fingerprint(b));
    CHECK(tokenizer_fingerprint(a) != tokenizer_fingerprint(c));
    tokenizer_destroy(&a);
    tokenizer_destroy(&b);
    tokenizer_destroy(&c);
}

TEST(memory_is_counted)
{
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .pre_tokenizer = FIXTURE_LIKE_GPT2, .added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN)});
    CHECK(tokenizer_memory(tokenizer) > 265 * sizeof(uint32_t));
    CHECK(tokenizer_memory(tokenizer) < 40000000);
    tokenizer_destroy(&tokenizer);
    CHECK(tokenizer == NULL);
    tokenizer_destroy(&tokenizer);
}

TEST(the_bound_covers_a_space_before_every_gap)
{
    struct tokenizer *tokenizer = fixture_load(&(struct fixture_parts){
        .normalizer = FIXTURE_LIKE_LLAMA2,
        .is_sentence_piece = true,
        .more_words = ",\"!\":295",
        .added = FIXTURE_ADDED(295, "!", FIXTURE_PLAIN),
    });
    CHECK_STR(fixture_ids(tokenizer, "b!b!b"), "259 261 295 259 261 295 259 261");
    CHECK(tokenizer_bound(tokenizer, 5) >= 8);
    tokenizer_destroy(&tokenizer);
}
