// SPDX-License-Identifier: Apache-2.0

#include "dialect/dialect.h"

#include "test.h"
#include "tiny_dialect.h"

static const char *shapes_text(uint32_t shapes)
{
    static char line[512];
    struct text out = text_over(line, sizeof(line) - 1);
    dialect_add_shapes(shapes, &out);
    line[out.size] = '\0';
    return line;
}

TEST(a_dialect_without_certification_has_no_shapes)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){0});
    CHECK_EQ(dialect_shapes(dialect), 0);
    CHECK_STR(dialect->chat_error, "");
    dialect_destroy(&dialect);
    CHECK(dialect == NULL);
}

TEST(one_that_is_trusted_may_be_used_for_everything)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){.is_trusted = true});
    CHECK_EQ(dialect_shapes(dialect), (1u << chat_shape_count) - 1);
    dialect_destroy(&dialect);
}

TEST(speaks_for_the_models_that_are_named_or_for_all)
{
    const char *models[] = {"a", "b"};
    struct dialect *some =
        tiny_dialect((struct dialect_options){.models = models, .model_count = 2});
    struct dialect *all = tiny_dialect((struct dialect_options){0});
    CHECK(dialect_speaks_for(some, slice_str("a")));
    CHECK(dialect_speaks_for(some, slice_str("b")));
    CHECK(!dialect_speaks_for(some, slice_str("c")));
    CHECK(!dialect_speaks_for(some, slice_str("")));
    CHECK(dialect_speaks_for(all, slice_str("c")));
    dialect_destroy(&some);
    dialect_destroy(&all);
}

TEST(a_response_with_our_token_count_confirms)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){.is_trusted = true});
    uint32_t revoked = 0;
    CHECK(!dialect_check(dialect, CHAT_PLAIN_SHAPE, 7, 7, &revoked));
    CHECK_EQ(atomic_load(&dialect->shared.confirmed_count), 1);
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 0);
    CHECK_EQ(dialect_shapes(dialect), (1u << chat_shape_count) - 1);
    dialect_destroy(&dialect);
}

TEST(a_response_with_another_token_count_revokes_the_features_of_the_request)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){.is_trusted = true});
    uint32_t revoked = 0;
    uint32_t shape = CHAT_PLAIN_SHAPE | CHAT_SYSTEM_SHAPE | CHAT_TOOLS_SHAPE;

    CHECK(dialect_check(dialect, shape, 7, 8, &revoked));
    CHECK_STR(shapes_text(revoked), "system,tools");
    CHECK((dialect_shapes(dialect) & CHAT_PLAIN_SHAPE) != 0);
    CHECK((dialect_shapes(dialect) & CHAT_TOOLS_SHAPE) == 0);
    // A feature is revoked once.
    CHECK(!dialect_check(dialect, shape, 7, 8, &revoked));
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 2);
    dialect_destroy(&dialect);
}

TEST(a_plain_request_that_is_counted_otherwise_takes_away_all_chats)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){.is_trusted = true});
    uint32_t revoked = 0;
    CHECK(dialect_check(dialect, CHAT_PLAIN_SHAPE, 1, 2, &revoked));
    CHECK_STR(shapes_text(revoked), "plain");
    CHECK((dialect_shapes(dialect) & CHAT_PLAIN_SHAPE) == 0);
    CHECK((dialect_shapes(dialect) & CHAT_COMPLETION_SHAPE) != 0);
    dialect_destroy(&dialect);
}

TEST(a_template_that_is_refused_leaves_completions)
{
    struct dialect *dialect =
        tiny_dialect((struct dialect_options){.template = slice_str("{% include 'other' %}")});
    CHECK(dialect->chat.template == NULL);
    CHECK(strstr(dialect->chat_error, "include") != NULL);
    CHECK(dialect->tokenizer != NULL);
    dialect_destroy(&dialect);
}

TEST(a_tokenizer_that_is_refused_is_named)
{
    struct dialect *dialect = NULL;
    char error[dialect_error_size] = "";
    struct dialect_options options = {
        .name = "x",
        .tokenizer = slice_str("{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\"}}")};
    CHECK_EQ(dialect_create(&options, &dialect, error), STATUS_MALFORMED);
    CHECK(dialect == NULL);
    CHECK(strstr(error, "Unigram") != NULL);
}

TEST(the_configuration_brings_template_and_tokens)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){
        .config = slice_str("{\"bos_token\":\"<s>\",\"chat_template\":\"{{ bos_token }}\"}")});
    CHECK(dialect->chat.template != NULL);
    CHECK_EQ(dialect->chat.rules.token_count, 1);
    CHECK(slice_is(dialect->chat.rules.tokens[0].name, "bos_token"));
    CHECK(slice_is(dialect->chat.rules.tokens[0].text, "<s>"));
    dialect_destroy(&dialect);
}

TEST(a_template_for_requests_with_tools_is_kept_apart)
{
    struct dialect *dialect = tiny_dialect((struct dialect_options){
        .config = slice_str("{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
                            "{\"name\":\"tool_use\",\"template\":\"t\"}]}")});
    CHECK(dialect->chat.template != NULL);
    CHECK(dialect->tool_chat.template != NULL);
    dialect_destroy(&dialect);
}

TEST(content_is_a_list_where_the_template_or_the_operator_says_so)
{
    const struct slice loops = slice_str("{% for m in messages %}{% for p in m.content %}"
                                         "{{ p.text }}{% endfor %}{% endfor %}");
    const struct slice words = slice_str("{# image #}{{ messages[0].content }}");
    const struct {
        struct slice template;
        enum dialect_engine engine;
        enum dialect_content content;
        bool is_list;
    } cases[] = {
        {loops, DIALECT_VLLM, DIALECT_CONTENT_AUTO, true},
        {words, DIALECT_VLLM, DIALECT_CONTENT_AUTO, false},
        {words, DIALECT_SGLANG, DIALECT_CONTENT_AUTO, true},
        {loops, DIALECT_VLLM, DIALECT_CONTENT_TEXT, false},
        {words, DIALECT_VLLM, DIALECT_CONTENT_PARTS, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct dialect *dialect = tiny_dialect((struct dialect_options){
            .template = cases[i].template, .engine = cases[i].engine, .content = cases[i].content});
        CHECK_EQ(dialect->chat.rules.content_is_list, cases[i].is_list);
        dialect_destroy(&dialect);
    }
}
