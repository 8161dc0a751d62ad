// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

static const char *refusal_of(const char *json)
{
    static struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_load(slice_str(json), &tokenizer, &error);
    ASSERT(status == STATUS_MALFORMED && tokenizer == NULL);
    return error.text;
}

TEST(files_that_are_not_json_are_refused)
{
    CHECK_STR(refusal_of(""), "not JSON, or nested too deep");
    CHECK_STR(refusal_of("{"), "not JSON, or nested too deep");
    CHECK_STR(refusal_of("{\"model\":{\"vocab\":{\"a\":0"), "not JSON, or nested too deep");
    CHECK_STR(refusal_of("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}x"),
              "not JSON, or nested too deep");
}

TEST(json_without_a_model_is_refused)
{
    CHECK_STR(refusal_of("7"), "not a tokenizer.json: it has no model with words");
    CHECK_STR(refusal_of("{}"), "not a tokenizer.json: it has no model with words");
    CHECK_STR(refusal_of("{\"model\":7}"), "not a tokenizer.json: it has no model with words");
    CHECK_STR(refusal_of("{\"model\":{\"vocab\":{},\"merges\":[]}}"),
              "not a tokenizer.json: it has no model with words");
    CHECK_STR(refusal_of("{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},"
                         "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
              "the file has two models");
}

TEST(another_version_is_refused)
{
    CHECK_STR(refusal_of("{\"version\":\"2.0\",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
              "version is not \"1.0\"");
}

TEST(every_truncated_file_is_refused)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    struct slice json = fixture_json(&(struct fixture_parts){.pre_tokenizer = FIXTURE_LIKE_GPT2});
    for (size_t size = 0; size < json.size; size++) {
        CHECK_EQ(tokenizer_load(slice_of(json.bytes, size), &tokenizer, &error), STATUS_MALFORMED);
        CHECK(tokenizer == NULL && error.text[0] != '\0');
    }
    CHECK_EQ(tokenizer_load(json, &tokenizer, &error), STATUS_OK);
    tokenizer_destroy(&tokenizer);
}

TEST(truncation_and_padding_are_not_read)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    const char *json =
        "{\"truncation\":{\"max_length\":1},\"padding\":{\"strategy\":{\"Fixed\":9}},"
        "\"normalizer\":" FIXTURE_REPLACE ",\"model\":{\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    CHECK_EQ(tokenizer_load(slice_str(json), &tokenizer, &error), STATUS_OK);
    CHECK_STR(fixture_ids(tokenizer, "ab"), "0 1");
    tokenizer_destroy(&tokenizer);
}
