// SPDX-License-Identifier: Apache-2.0

#include "dialect/tokenizer_config.h"

#include "base/text.h"
#include "test.h"

#include <stdlib.h>

// Tokens and templates that were read, or the status of the refusal.
static const char *shown(enum status status, struct tokenizer_config *config)
{
    static char space[4096];
    struct text text = text_over(space, sizeof(space) - 1);

    if (status != STATUS_OK) {
        ASSERT(config->memory == NULL);
        return status_text(status);
    }
    for (uint32_t i = 0; i < config->token_count; i++) {
        text_add(&text, config->tokens[i].name);
        text_add_str(&text, "=");
        text_add(&text, config->tokens[i].text);
        text_add_str(&text, " ");
    }
    text_add_str(&text, "[");
    text_add(&text, config->template);
    text_add_str(&text, "][");
    text_add(&text, config->tool_template);
    text_add_str(&text, "]");
    tokenizer_config_free(config);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *config_of(const char *json)
{
    struct tokenizer_config config = {0};
    return shown(tokenizer_config_read(slice_str(json), &config), &config);
}

static const char malformed[] = "input does not follow its format";
static const char too_large[] = "input exceeds a configured limit";

TEST(a_token_is_a_text_or_an_object_around_one)
{
    CHECK_STR(
        config_of("{\"bos_token\":\"<s>\",\"eos_token\":{\"__type\":\"AddedToken\",\"content\":"
                  "\"</s>\",\"lstrip\":false}}"),
        "bos_token=<s> eos_token=</s> [][]");
}

TEST(null_and_empty_tokens_do_not_become_variables)
{
    CHECK_STR(config_of("{\"bos_token\":null,\"pad_token\":\"\",\"unk_token\":\"u\"}"),
              "unk_token=u [][]");
}

TEST(all_seven_names_are_known_and_no_others)
{
    CHECK_STR(
        config_of("{\"mask_token\":\"m\",\"cls_token\":\"c\",\"pad_token\":\"p\",\"sep_token\":"
                  "\"s\",\"unk_token\":\"u\",\"eos_token\":\"e\",\"bos_token\":\"b\","
                  "\"image_token\":\"i\",\"model_max_length\":1000000000000000019884624838656}"),
        "mask_token=m cls_token=c pad_token=p sep_token=s unk_token=u eos_token=e bos_token=b "
        "[][]");
}

TEST(tokens_that_a_model_names_itself_are_variables_too)
{
    CHECK_STR(
        config_of("{\"extra_special_tokens\":{\"boi_token\":\"<i>\",\"eoi_token\":{\"content\":"
                  "\"</i>\"}},\"bos_token\":\"<s>\"}"),
        "boi_token=<i> eoi_token=</i> bos_token=<s> [][]");
    CHECK_STR(
        config_of("{\"extra_special_tokens\":[\"<i>\"],\"additional_special_tokens\":[\"<j>\"]}"),
        "[][]");
}

TEST(one_template_is_the_default_one)
{
    CHECK_STR(config_of("{\"chat_template\":\"{{ bos_token }}\\n\\u00e9\\ud83d\\ude00\"}"),
              "[{{ bos_token }}\n\xc3\xa9\xf0\x9f\x98\x80][]");
    CHECK_STR(config_of("{\"chat_template\":null}"), "[][]");
}

TEST(templates_in_a_list_go_by_their_names)
{
    CHECK_STR(config_of("{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},{\"name\":"
                        "\"rag\",\"template\":\"R\"},{\"template\":\"D\",\"name\":\"default\"}]}"),
              "[D][T]");
    CHECK_STR(config_of("{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"}]}"), "[][]");
}

TEST(of_duplicate_members_the_last_counts)
{
    CHECK_STR(config_of("{\"bos_token\":\"a\",\"eos_token\":\"e\",\"bos_\\u0074oken\":\"b\","
                        "\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"}],"
                        "\"chat_template\":\"D\"}"),
              "bos_token=b eos_token=e [D][]");
}

TEST(the_result_does_not_point_into_the_file)
{
    char json[] = "{\"bos_token\":\"<s>\",\"chat_template\":\"{{ x }}\"}";
    struct tokenizer_config config;
    CHECK_EQ(tokenizer_config_read(slice_str(json), &config), STATUS_OK);
    memset(json, '#', sizeof(json));
    CHECK_STR(shown(STATUS_OK, &config), "bos_token=<s> [{{ x }}][]");
    tokenizer_config_free(&config); // nothing happens
}

TEST(other_files_are_refused)
{
    static const char *const texts[] = {
        "",
        "[]",
        "\"chat_template\"",
        "{\"chat_template\":\"x\"",
        "{\"chat_template\":7}",
        "{\"chat_template\":{\"default\":\"x\"}}",
        "{\"chat_template\":[\"x\"]}",
        "{\"chat_template\":[{\"name\":\"default\"}]}",
        "{\"chat_template\":[{\"template\":\"x\"}]}",
        "{\"chat_template\":\"\\ud83d\"}",
        "{\"bos_token\":\"\\udc00\"}",
        "{\"bos_token\":1}",
        "{\"bos_token\":[\"<s>\"]}",
        "{\"bos_token\":{}}",
        "{\"bos_token\":{\"content\":null}}",
        "{\"extra_special_tokens\":{\"x\":1}}",
        "{\"bos_token\":\"\xff\"}",
        "{} x",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (strcmp(config_of(texts[i]), malformed) != 0) {
            test_fail(__FILE__, __LINE__, "accepted: %s", texts[i]);
            return;
        }
    }
}

static const char *many_tokens(uint32_t count)
{
    static char json[4096];
    struct text text = text_over(json, sizeof(json) - 1);

    text_add_str(&text, "{\"extra_special_tokens\":{");
    for (uint32_t i = 0; i < count; i++) {
        text_add_format(&text, "%s\"t%u\":\"\"", i > 0 ? "," : "", (unsigned)i);
    }
    text_add_str(&text, "}}");
    ASSERT(!text.overflow);
    json[text.size] = '\0';
    return config_of(json);
}

TEST(tokens_have_a_limit)
{
    CHECK_STR(many_tokens(tokenizer_config_token_max), "[][]");
    CHECK_STR(many_tokens(tokenizer_config_token_max + 1), too_large);
}

TEST(added_tokens_of_any_number_are_passed_over)
{
    enum { count = 20000 };
    size_t capacity = (size_t)count * 64 + 256;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text text = text_over(space, capacity);
    struct tokenizer_config config = {0};

    text_add_str(&text, "{\"added_tokens_decoder\":{");
    for (unsigned i = 0; i < count; i++) {
        text_add_format(&text, "%s\"%u\":{\"content\":\"<unused%u>\",\"special\":false}",
                        i > 0 ? "," : "", i, i);
    }
    text_add_str(&text, "},\"bos_token\":\"<bos>\",\"chat_template\":\"{{ 1 }}\"}");
    ASSERT(!text.overflow);
    enum status status = tokenizer_config_read(text_slice(&text), &config);
    free(space);
    CHECK_STR(shown(status, &config), "bos_token=<bos> [{{ 1 }}][]");
}
