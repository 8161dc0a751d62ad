// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

TEST(a_word_outside_the_alphabet_is_never_reached)
{
    // Its merge is passed over, not refused.
    const struct fixture_parts parts = {
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .more_words = ",\"\xe2\x96\x81\":300,\"\xe2\x96\x81z\":301",
        .more_merges = ",\"\xe2\x96\x81 z\"",
    };
    CHECK_STR(fixture_ids_of(&parts, "\xe2\x96\x81z"), "226 150 129 122");
}

TEST(a_byte_level_vocabulary_has_every_byte)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    const char *json = "{\"pre_tokenizer\":" FIXTURE_LIKE_GPT2
                       ",\"model\":{\"vocab\":{\"\xc4\x80\":0},\"merges\":[]}}";
    CHECK_EQ(tokenizer_load(slice_str(json), &tokenizer, &error), STATUS_MALFORMED);
    CHECK_STR(error.text, "a byte-level vocabulary without the byte 0x01 is not supported: route "
                          "this model by text");
}

static const char *refusal_of_pieces(const char *vocabulary)
{
    static struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    uint8_t space[8192];
    struct text json = text_over(space, sizeof(space));
    text_add_format(&json, "{\"normalizer\":%s,\"model\":{\"byte_fallback\":true,\"vocab\":{%s",
                    FIXTURE_REPLACE, vocabulary);
    for (unsigned byte = 0; byte < 256; byte++) {
        if (byte != 9) {
            text_add_format(&json, ",\"<0x%02X>\":%u", byte, 100 + byte);
        }
    }
    text_add_str(&json, "},\"merges\":[]}}");
    ASSERT(!json.overflow);
    enum status status = tokenizer_load(text_slice(&json), &tokenizer, &error);
    ASSERT((status == STATUS_OK) == (tokenizer != NULL));
    tokenizer_destroy(&tokenizer);
    return error.text;
}

TEST(bytes_to_fall_back_to_are_all_there_or_cannot_be_needed)
{
    CHECK_STR(refusal_of_pieces("\"\xe2\x96\x81\":0"),
              "byte_fallback without the token <0x09> is not supported: route this model by text");
    CHECK_STR(refusal_of_pieces("\"\xe2\x96\x81\":0,\"\\t\":1"), "");
    CHECK_STR(refusal_of_pieces("\"a\":0,\"\\t\":1"),
              "byte_fallback without the token U+2581 is not supported: route this model by text");
}

TEST(a_whole_text_is_never_looked_up_as_a_word)
{
    const struct fixture_parts parts = {
        .normalizer = FIXTURE_REPLACE,
        .is_sentence_piece = true,
        .model = "\"ignore_merges\":true,",
    };
    CHECK_STR(fixture_refusal(&parts),
              "ignore_merges without ByteLevel is not supported: route this model by text");
    const struct fixture_parts plain = {.normalizer = FIXTURE_REPLACE, .is_sentence_piece = true};
    CHECK_STR(fixture_ids_of(&plain, "<0x0A>"), "63 51 283 51 68 65");
}

TEST(tokens_that_the_normalizer_makes_one_are_refused)
{
    const struct fixture_parts parts = {
        .normalizer = "{\"type\":\"NFC\"}",
        .pre_tokenizer = FIXTURE_LIKE_GPT2,
        .added = FIXTURE_ADDED(265, "<\xc3\xa9>", FIXTURE_NORMALIZED) "," //
        FIXTURE_ADDED(266, "<e\xcc\x81>", FIXTURE_NORMALIZED),
    };
    CHECK_STR(fixture_refusal(&parts),
              "two added tokens are \"<\xc3\xa9>\" when normalized: not supported");
}

static bool has_cuts(const struct fixture_parts *parts)
{
    struct tokenizer *tokenizer = fixture_load(parts);
    bool has = tokenizer_has_cuts(tokenizer);
    tokenizer_destroy(&tokenizer);
    return has;
}

TEST(a_token_that_looks_around_forbids_all_cuts)
{
    struct fixture_parts parts = {.pre_tokenizer = FIXTURE_LIKE_LLAMA3};
    CHECK(has_cuts(&parts));
    parts.added = FIXTURE_ADDED(265, "<a>", FIXTURE_PLAIN);
    CHECK(has_cuts(&parts));
    parts.added = FIXTURE_ADDED(265, "<a>", FIXTURE_FLAGS(true, false, false, false));
    CHECK(!has_cuts(&parts));
    parts.added = FIXTURE_ADDED(265, "<a>", FIXTURE_FLAGS(false, true, false, false));
    CHECK(!has_cuts(&parts));
    parts.added = FIXTURE_ADDED(265, "<a>", FIXTURE_FLAGS(false, false, true, true));
    CHECK(!has_cuts(&parts));
}

TEST(without_a_split_there_are_no_cuts_between_bytes)
{
    CHECK(!has_cuts(&(struct fixture_parts){.pre_tokenizer = FIXTURE_BYTE_LEVEL}));
}
