// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/tokenizer_fixture.h"

#define BYTES .pre_tokenizer = FIXTURE_LIKE_GPT2
#define ADDED                                                                                      \
    .added = FIXTURE_ADDED(265, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(266, "</s>", FIXTURE_PLAIN)
#define SPECIAL(name) "{\"SpecialToken\":{\"id\":\"" name "\",\"type_id\":0}}"
#define TEXT_A "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define TEMPLATE(single)                                                                           \
    "{\"type\":\"TemplateProcessing\",\"single\":[" single                                         \
    "],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[265],\"tokens\":[]},"      \
    "\"</s>\":{\"id\":\"</s>\",\"ids\":[266,266],\"tokens\":[]},"                                  \
    "\"<x>\":{\"id\":\"<x>\",\"ids\":[999],\"tokens\":[]}}}"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false}"
#define SEQUENCE(list) "{\"type\":\"Sequence\",\"processors\":[" list "]}"

static const char *ids_with(const char *post_processor, const char *text)
{
    struct tokenizer *tokenizer =
        fixture_load(&(struct fixture_parts){BYTES, ADDED, .post_processor = post_processor});
    const char *ids = fixture_encode(
        tokenizer, &(struct tokenizer_input){.text = slice_str(text), .adds_special = true});
    tokenizer_destroy(&tokenizer);
    return ids;
}

static const char *refusal_of(const char *post_processor)
{
    return fixture_refusal(&(struct fixture_parts){BYTES, ADDED, .post_processor = post_processor});
}

TEST(a_template_puts_ids_around_a_text)
{
    CHECK_STR(ids_with(TEMPLATE(SPECIAL("<s>") "," TEXT_A), "hello"), "265 259");
    CHECK_STR(ids_with(TEMPLATE(SPECIAL("<s>") "," TEXT_A "," SPECIAL("</s>")), "hello"),
              "265 259 266 266");
    CHECK_STR(ids_with(TEMPLATE(TEXT_A), ""), "");
}

TEST(a_text_that_begins_with_the_special_token_gets_a_second_one)
{
    CHECK_STR(ids_with(TEMPLATE(SPECIAL("<s>") "," TEXT_A), "<s>hello"), "265 265 259");
}

TEST(nothing_is_put_unless_asked_for)
{
    const struct fixture_parts parts = {BYTES, ADDED,
                                        .post_processor = TEMPLATE(SPECIAL("<s>") "," TEXT_A)};
    CHECK_STR(fixture_ids_of(&parts, "hello"), "259");
}

TEST(processors_of_berts_kind_have_two_names)
{
    CHECK_STR(ids_with("{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",266],\"cls\":[\"<s>\","
                       "265],\"trim_offsets\":true,\"add_prefix_space\":true}",
                       "hello"),
              "265 259 266");
    CHECK_STR(ids_with("{\"type\":\"BertProcessing\",\"sep\":[\"</s>\",266],\"cls\":[\"<s>\",265]}",
                       "hello"),
              "265 259 266");
    CHECK_STR(refusal_of("{\"type\":\"BertProcessing\",\"sep\":[\"</s>\",266]}"),
              "a post_processor of BERT's kind has no cls or no sep");
}

TEST(byte_level_adds_nothing)
{
    CHECK_STR(ids_with(BYTE_LEVEL, "hello"), "259");
}

TEST(several_wrap_each_other)
{
    CHECK_STR(ids_with(SEQUENCE(BYTE_LEVEL "," TEMPLATE(SPECIAL("<s>") "," TEXT_A)), "hello"),
              "265 259");
    CHECK_STR(ids_with(SEQUENCE(TEMPLATE(SPECIAL("<s>") "," TEXT_A) "," //
                                TEMPLATE(SPECIAL("</s>") "," TEXT_A)),
                       "hello"),
              "266 266 265 259");
    CHECK_STR(ids_with(SEQUENCE(""), "hello"), "259");
}

TEST(unknown_post_processors_are_refused_by_name)
{
    CHECK_STR(refusal_of("{\"type\":\"Surprise\"}"),
              "post_processor Surprise is not supported: route this model by text");
    CHECK_STR(refusal_of(SEQUENCE("{\"type\":\"Surprise\"}")),
              "post_processor Surprise is not supported: route this model by text");
    CHECK_STR(refusal_of("7"), "the post_processor is not an object");
    CHECK_STR(refusal_of("\"a\""), "the post_processor is not an object");
    CHECK_STR(refusal_of(SEQUENCE("\"a\"")), "a post_processor is not an object");
}

TEST(a_template_has_one_text_and_knows_its_names)
{
    const char *text = "TemplateProcessing with a text other than one A is not supported";
    CHECK_STR(refusal_of(TEMPLATE(SPECIAL("<s>"))), text);
    CHECK_STR(refusal_of(TEMPLATE(TEXT_A "," TEXT_A)), text);
    CHECK_STR(refusal_of(TEMPLATE("{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}")), text);
    CHECK_STR(refusal_of(TEMPLATE(SPECIAL("<y>") "," TEXT_A)),
              "TemplateProcessing has no ids for \"<y>\"");
    CHECK_STR(refusal_of(TEMPLATE(SPECIAL("<x>") "," TEXT_A)),
              "the post_processor has an id that does not exist");
    CHECK_STR(refusal_of("{\"type\":\"TemplateProcessing\"}"),
              "TemplateProcessing has no single or no special_tokens");
}

TEST(so_many_ids_are_refused)
{
    CHECK_STR(
        refusal_of(TEMPLATE(SPECIAL("</s>") "," SPECIAL("</s>") "," SPECIAL("</s>") "," SPECIAL(
            "</s>") "," SPECIAL("</s>") "," SPECIAL("</s>") "," SPECIAL("</s>") "," //
                            SPECIAL("</s>") "," SPECIAL("</s>") "," TEXT_A)),
        "a post_processor that adds more than 16 ids is not supported");
}
