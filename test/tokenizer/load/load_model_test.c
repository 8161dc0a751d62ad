// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define BYTES .pre_tokenizer = FIXTURE_LIKE_GPT2

static const char *refusal_of_model(const char *model)
{
    return fixture_refusal(&(struct fixture_parts){BYTES, .model = model});
}

TEST(other_models_are_refused_by_name)
{
    CHECK_STR(refusal_of_model("\"type\":\"Unigram\","),
              "model Unigram is not supported: route this model by text");
    CHECK_STR(refusal_of_model("\"type\":\"WordPiece\","),
              "model WordPiece is not supported: route this model by text");
    CHECK_STR(refusal_of_model("\"type\":\"WordLevel\","),
              "model WordLevel is not supported: route this model by text");
    CHECK_STR(refusal_of_model("\"type\":null,"),
              "model null is not supported: route this model by text");
}

TEST(old_files_do_not_say_that_they_are_bpe)
{
    CHECK_STR(refusal_of_model("\"unk_token\":null,"), "");
}

TEST(dropout_is_refused_unless_it_is_zero)
{
    CHECK_STR(refusal_of_model("\"dropout\":null,"), "");
    CHECK_STR(refusal_of_model("\"dropout\":0.0,"), "");
    CHECK_STR(refusal_of_model("\"dropout\":0.1,"),
              "model BPE with dropout is not supported: its ids are random");
}

TEST(prefixes_and_suffixes_of_words_are_refused_unless_empty)
{
    CHECK_STR(refusal_of_model("\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\","),
              "");
    CHECK_STR(
        refusal_of_model("\"continuing_subword_prefix\":\"##\","),
        "model BPE with continuing_subword_prefix is not supported: route this model by text");
    CHECK_STR(refusal_of_model("\"end_of_word_suffix\":\"</w>\","),
              "model BPE with end_of_word_suffix is not supported: route this model by text");
}

TEST(an_unknown_token_must_be_a_word)
{
    CHECK_STR(refusal_of_model("\"unk_token\":\"<unk>\","),
              "the model's unk_token is not in its vocabulary");
    CHECK_STR(refusal_of_model("\"unk_token\":7,"), "unk_token is not a string");
    CHECK_STR(refusal_of_model("\"fuse_unk\":7,"), "fuse_unk is neither true nor false");
}

static const char *refusal_of_words(const char *words)
{
    return fixture_refusal(&(struct fixture_parts){BYTES, .more_words = words});
}

TEST(words_have_one_id_each_and_ids_one_word)
{
    CHECK_STR(refusal_of_words(",\"xy\":300"), "");
    CHECK_STR(refusal_of_words(",\"he\":300"), "the vocabulary has \"he\" twice");
    CHECK_STR(refusal_of_words(",\"xy\":256"), "two words have the id 256");
    CHECK_STR(refusal_of_words(",\"xy\":-1"),
              "the id of \"xy\" is not a whole number below 2097152");
    CHECK_STR(refusal_of_words(",\"xy\":2097152"),
              "the id of \"xy\" is not a whole number below 2097152");
    CHECK_STR(refusal_of_words(",\"xy\":\"a\""),
              "the id of \"xy\" is not a whole number below 2097152");
    CHECK_STR(refusal_of_words(",\"\\ud800\":300"),
              "a word of the vocabulary has half a surrogate pair");
}

static const char *refusal_of_merges(const char *merges)
{
    return fixture_refusal(
        &(struct fixture_parts){BYTES, .more_words = ",\"xy\":300", .more_merges = merges});
}

TEST(a_merge_is_two_words_whose_sum_is_a_word)
{
    CHECK_STR(refusal_of_merges(",\"x y\""), "");
    CHECK_STR(refusal_of_merges(",[\"x\",\"y\"]"), "");
    CHECK_STR(refusal_of_merges(",\"xy\""), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",\"x y z\""), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",\"\""), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",[\"x\"]"), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",[\"x\",\"y\",\"z\"]"), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",[\"x\",7]"), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",7"), "merge 9 is not two words");
    CHECK_STR(refusal_of_merges(",\"y x\""), "merge 9 has a word that is not in the vocabulary");
    CHECK_STR(refusal_of_merges(",\"yy x\""), "merge 9 has a word that is not in the vocabulary");
}

TEST(a_line_with_the_version_is_not_a_merge)
{
    CHECK_STR(refusal_of_merges(",\"#version: 0.2\",\"x y\""), "");
}

TEST(escapes_in_words_and_merges_mean_their_characters)
{
    const struct fixture_parts parts = {
        BYTES,
        .more_words = ",\"\\u0078y\":300",
        .more_merges = ",\"x\\u0020\\u0079\"",
    };
    CHECK_STR(fixture_ids_of(&parts, "xyy"), "300 121");
}

TEST(the_last_of_two_equal_merges_counts)
{
    // "ab" then "bc", and "ab" again: "bc" is now before it.
    const struct fixture_parts parts = {
        BYTES,
        .more_words = ",\"ab\":300,\"bc\":301",
        .more_merges = ",\"a b\",\"b c\",\"a b\"",
    };
    CHECK_STR(fixture_ids_of(&parts, "abc"), "97 301");
}

TEST(merges_may_stand_before_the_words)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    const char *file = "{\"model\":{\"merges\":[\"x y\"],\"vocab\":{\"x\":0,\"y\":1,\"xy\":2,"
                       "\"<u>\":3},\"unk_token\":\"<u>\"},\"normalizer\":" FIXTURE_REPLACE "}";
    CHECK_EQ(tokenizer_load(slice_str(file), &tokenizer, &error), STATUS_OK);
    CHECK_STR(fixture_ids(tokenizer, "xyxz"), "2 0 3");
    tokenizer_destroy(&tokenizer);
}

TEST(a_model_without_words_or_merges_is_refused)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    const char *no_merges = "{\"model\":{\"vocab\":{\"x\":0}}}";
    const char *no_words = "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}";
    CHECK_EQ(tokenizer_load(slice_str(no_merges), &tokenizer, &error), STATUS_MALFORMED);
    CHECK_STR(error.text, "the model has no merges: only BPE is supported");
    CHECK_EQ(tokenizer_load(slice_str(no_words), &tokenizer, &error), STATUS_MALFORMED);
    CHECK_STR(error.text, "the model has no vocab: only BPE is supported");
}
