// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define ADVICE "route this model by text"

static const char *refusal_of_normalizer(const char *normalizer)
{
    return fixture_refusal(
        &(struct fixture_parts){.normalizer = normalizer, .pre_tokenizer = FIXTURE_LIKE_GPT2});
}

static const char *refusal_of_pre_tokenizer(const char *pre_tokenizer)
{
    return fixture_refusal(&(struct fixture_parts){.pre_tokenizer = pre_tokenizer});
}

TEST(normalizers_that_are_not_implemented_are_refused_by_name)
{
    static const char *const names[] = {"BertNormalizer", "ByteLevel",  "Lowercase", "NFD",
                                        "NFKC",           "NFKD",       "Nmt",       "Strip",
                                        "StripAccents",   "Precompiled"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char json[64];
        char expected[128];
        snprintf(json, sizeof(json), "{\"type\":\"%s\"}", names[i]);
        snprintf(expected, sizeof(expected), "normalizer %s is not supported: " ADVICE, names[i]);
        CHECK_STR(refusal_of_normalizer(json), expected);
    }
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Surprise\"}"),
              "normalizer Surprise is not known: " ADVICE);
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                                    "{\"type\":\"Lowercase\"}]}"),
              "normalizer Lowercase is not supported: " ADVICE);
    CHECK_STR(refusal_of_normalizer("{}"), "normalizer  is not known: " ADVICE);
    CHECK_STR(refusal_of_normalizer("[]"), "normalizer is not an object");
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Sequence\"}"), "normalizer Sequence has no list");
}

TEST(normalization_form_c_and_an_empty_list_are_known)
{
    CHECK_STR(refusal_of_normalizer("{\"type\":\"NFC\"}"), "");
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Sequence\",\"normalizers\":[]}"), "");
    CHECK_STR(
        refusal_of_normalizer("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Sequence\","
                              "\"normalizers\":[{\"type\":\"NFC\"}]}]}"),
        "");
}

TEST(spaces_are_replaced_by_one_character_alone_and_not_with_bytes)
{
    CHECK_STR(refusal_of_normalizer(FIXTURE_REPLACE),
              "normalizer Replace or Prepend with ByteLevel is not supported: " ADVICE);
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                                    "\"content\":\"b\"}"),
              "normalizer Replace of anything but a space by U+2581 is not supported: " ADVICE);
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" \"},"
                                    "\"content\":\"\xe2\x96\x81\"}"),
              "normalizer Replace of anything but a space by U+2581 is not supported: " ADVICE);
    CHECK_STR(refusal_of_normalizer("{\"type\":\"Prepend\",\"prepend\":\" \"}"),
              "normalizer Prepend of anything but U+2581 is not supported: " ADVICE);
}

TEST(pre_tokenizers_that_are_not_implemented_are_refused_by_name)
{
    static const char *const names[] = {"BertPreTokenizer", "CharDelimiterSplit", "FixedLength",
                                        "Punctuation",      "UnicodeScripts",     "Whitespace",
                                        "WhitespaceSplit"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char json[64];
        char expected[128];
        snprintf(json, sizeof(json), "{\"type\":\"%s\"}", names[i]);
        snprintf(expected, sizeof(expected), "pre_tokenizer %s is not supported: " ADVICE,
                 names[i]);
        CHECK_STR(refusal_of_pre_tokenizer(json), expected);
    }
    CHECK_STR(refusal_of_pre_tokenizer("{\"type\":\"Surprise\"}"),
              "pre_tokenizer Surprise is not known: " ADVICE);
}

TEST(a_pattern_that_is_not_known_is_shown)
{
    CHECK_STR(refusal_of_pre_tokenizer("{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_SPLIT(
                  "\\\\w+|"
                  "012345678901234567890"
                  "123456789012345678901"
                  "234567890123456789012"
                  "3") "," FIXTURE_BYTE_LEVEL "]}"),
              "pre_tokenizer Split by a Regex that is not known: " ADVICE
              "; it begins with \\w+|01234567890123456789012345678901234567890123456789012345");
}

#define SPLIT_WITH(pattern, behavior, invert)                                                      \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":" pattern           \
    ",\"behavior\":\"" behavior "\",\"invert\":" invert "}," FIXTURE_BYTE_LEVEL "]}"
#define LLAMA3 "{\"Regex\":\"" FIXTURE_LLAMA3 "\"}"

TEST(unknown_behaviors_of_a_split_are_refused)
{
    CHECK_STR(refusal_of_pre_tokenizer(SPLIT_WITH(LLAMA3, "Isolated", "false")), "");
    CHECK_STR(refusal_of_pre_tokenizer(SPLIT_WITH(LLAMA3, "Isolated", "true")), "");
    CHECK_STR(refusal_of_pre_tokenizer(SPLIT_WITH(LLAMA3, "Removed", "true")), "");
    CHECK_STR(refusal_of_pre_tokenizer(SPLIT_WITH(LLAMA3, "Removed", "false")),
              "pre_tokenizer Split with behavior Removed is not supported: " ADVICE);
    CHECK_STR(
        refusal_of_pre_tokenizer(SPLIT_WITH(LLAMA3, "MergedWithNext", "true")),
        "pre_tokenizer Split with behavior MergedWithNext, inverted, is not supported: " ADVICE);
    CHECK_STR(
        refusal_of_pre_tokenizer(SPLIT_WITH("{\"String\":\" \"}", "Isolated", "false")),
        "pre_tokenizer Split by a string is not supported without a Replace of spaces: " ADVICE);
}

TEST(bytes_come_last_and_once)
{
    const char *combination = "this combination of pre_tokenizers is not supported: " ADVICE;
    CHECK_STR(
        refusal_of_pre_tokenizer("{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_BYTE_LEVEL
                                 "," FIXTURE_BYTE_LEVEL "]}"),
        combination);
    CHECK_STR(
        refusal_of_pre_tokenizer("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                                 "\"individual_digits\":true}," FIXTURE_BYTE_LEVEL "]}"),
        combination);
    CHECK_STR(
        refusal_of_pre_tokenizer("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                                 "\"individual_digits\":false}," FIXTURE_LIKE_GPT2 "]}"),
        "pre_tokenizer Digits without individual_digits is not supported: " ADVICE);
    CHECK_STR(
        refusal_of_pre_tokenizer("{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_SPLIT(
            FIXTURE_LLAMA3) "," FIXTURE_LIKE_GPT2 "]}"),
        "ByteLevel with use_regex or add_prefix_space after a Split is not supported: " ADVICE);
    const char *bare = "a pre_tokenizer without ByteLevel, Metaspace or a Replace of spaces is not "
                       "supported: " ADVICE;
    CHECK_STR(refusal_of_pre_tokenizer(FIXTURE_SPLIT(FIXTURE_LLAMA3)), bare);
    CHECK_STR(refusal_of_pre_tokenizer(NULL), bare);
}

TEST(digits_stand_alone_before_bytes)
{
    const struct fixture_parts parts = {
        .pre_tokenizer = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
                         "\"individual_digits\":true}," FIXTURE_LIKE_GPT2 "]}"};
    CHECK_STR(fixture_ids_of(&parts, "he11"), "256 49 49");
}

TEST(old_files_of_byte_level_split)
{
    const struct fixture_parts parts = {.pre_tokenizer =
                                            "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
                                        .more_words = ",\"!w\":300",
                                        .more_merges = ",\"! w\""};
    CHECK_STR(fixture_ids_of(&parts, "!w"), "33 119");
}

TEST(metaspace_has_two_spellings)
{
    static const struct {
        const char *fields;
        const char *ids; // of "a b"
    } samples[] = {
        {"\"prepend_scheme\":\"always\",\"split\":false", "287 259 261"},
        {"\"prepend_scheme\":\"first\",\"split\":false", "287 259 261"},
        {"\"prepend_scheme\":\"never\",\"split\":false", "260 259 261"},
        {"\"add_prefix_space\":true", "287 259 261"},
        {"\"add_prefix_space\":false", "260 259 261"},
        {"\"prepend_scheme\":\"first\",\"add_prefix_space\":true", "287 259 261"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char json[256];
        snprintf(json, sizeof(json), "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",%s}",
                 samples[i].fields);
        const struct fixture_parts parts = {.pre_tokenizer = json, .is_sentence_piece = true};
        CHECK_STR(fixture_ids_of(&parts, "a b"), samples[i].ids);
    }
}

static const char *refusal_of_metaspace(const char *fields)
{
    char json[256];
    snprintf(json, sizeof(json), "{\"type\":\"Metaspace\",%s}", fields);
    return fixture_refusal(
        &(struct fixture_parts){.pre_tokenizer = json, .is_sentence_piece = true});
}

TEST(metaspace_that_is_not_clear_is_refused)
{
    CHECK_STR(refusal_of_metaspace("\"replacement\":\"_\",\"prepend_scheme\":\"first\""),
              "Metaspace with a replacement other than U+2581 is not supported: " ADVICE);
    CHECK_STR(refusal_of_metaspace("\"replacement\":\"\xe2\x96\x81\""),
              "Metaspace has no prepend_scheme that is known");
    CHECK_STR(refusal_of_metaspace("\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"last\""),
              "Metaspace has no prepend_scheme that is known");
    CHECK_STR(refusal_of_metaspace("\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"never\","
                                   "\"add_prefix_space\":true"),
              "Metaspace has an add_prefix_space that is not its prepend_scheme");
}

TEST(a_split_by_spaces_cuts_nothing_where_none_are_left)
{
    const struct fixture_parts parts = {
        .normalizer = FIXTURE_REPLACE,
        .pre_tokenizer = "{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":"
                         "\"MergedWithPrevious\",\"invert\":false}",
        .is_sentence_piece = true};
    CHECK_STR(fixture_ids_of(&parts, "o  xo x"), "274 288 283 293");
}

TEST(metaspace_after_a_replace_is_refused)
{
    const struct fixture_parts parts = {
        .normalizer = FIXTURE_REPLACE,
        .pre_tokenizer = FIXTURE_METASPACE("first", "false"),
        .is_sentence_piece = true,
    };
    CHECK_STR(fixture_refusal(&parts),
              "a pre_tokenizer without ByteLevel, Metaspace or a Replace of spaces is not "
              "supported: " ADVICE);
}
