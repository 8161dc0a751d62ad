// SPDX-License-Identifier: Apache-2.0
//
// The engine is the certified dialect itself, or one that differs from it.

#include "dialect/certify.h"

#include "dialect/certify_suite.h"
#include "json/json.h"
#include "test.h"
#include "tiny_engine.h"

enum { space_size = 262144 };

static uint8_t question_space[space_size];
static uint8_t response_space[space_size];

// An engine with these paths.
struct engine {
    struct tiny_set tiny;
    const char *paths[4];
    uint16_t fails_with;
};

static struct engine engine;
static struct tiny_set own;
static struct certify certify;

static void set_up(struct dialect_options ours, struct dialect_options theirs)
{
    tiny_set_open(&own, tiny_dialect(ours));
    theirs.is_trusted = true;
    engine = (struct engine){0};
    tiny_set_open(&engine.tiny, tiny_dialect(theirs));
    engine.paths[0] = "/tokenize";
    certify_begin(&certify, own.set.dialects[0], own.reader, slice_str("m"), 1000000);
}

static void tear_down(void)
{
    tiny_set_close(&own);
    tiny_set_close(&engine.tiny);
}

static bool has_path(const char *path)
{
    for (size_t i = 0; i < ARRAY_COUNT(engine.paths) && engine.paths[i] != NULL; i++) {
        if (strcmp(engine.paths[i], path) == 0) {
            return true;
        }
    }
    return false;
}

// Runs all cases; false: the engine cannot be asked.
static bool examine(void)
{
    struct text space = text_over(question_space, space_size);
    struct certify_question question;

    while (certify_question(&certify, &space, &question)) {
        struct text response = text_over(response_space, space_size);
        uint16_t status = engine.fails_with;
        if (status == 0) {
            status = has_path(question.path) ? tiny_engine_respond(&engine.tiny, question.path,
                                                                   question.body, &response)
                                             : 404;
        }
        if (certify_response(&certify, status, text_slice(&response)) == CERTIFY_IMPOSSIBLE) {
            return false;
        }
    }
    return true;
}

TEST(an_engine_that_computes_the_same_vouches_for_every_feature)
{
    set_up((struct dialect_options){0}, (struct dialect_options){0});
    CHECK(examine());
    CHECK_EQ(certify.differed_count, 0);
    CHECK(certify.agreed_count >= 24);
    // The tiny template reads no variables, so vLLM passes none.
    uint32_t missing = ((1u << chat_shape_count) - 1) & ~certify_result(&certify);
    CHECK_EQ(missing, CHAT_KWARGS_SHAPE | CHAT_EFFORT_SHAPE | CHAT_DOCUMENTS_SHAPE);
    tear_down();
}

TEST(questions_name_the_model_and_are_json)
{
    struct text space = text_over(question_space, space_size);
    struct certify_question question;
    static const char *const name = "model";
    struct json_value model = {0};

    set_up((struct dialect_options){0}, (struct dialect_options){0});
    CHECK(certify_question(&certify, &space, &question));
    CHECK_STR(question.path, "/tokenize");
    CHECK_EQ(json_find(question.body, &name, 1, &model), STATUS_OK);
    CHECK(model.kind == JSON_STRING && json_string_is(model.raw, "m"));
    tear_down();
}

TEST(a_template_that_treats_one_feature_otherwise_costs_that_feature)
{
    static const char *const other =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if tools %}<tool>OTHER{{ tools | tojson }}{% endif %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    set_up((struct dialect_options){0}, (struct dialect_options){.template = slice_str(other)});
    CHECK(examine());
    CHECK(certify.differed_count > 0);
    uint32_t result = certify_result(&certify);
    CHECK((result & CHAT_TOOLS_SHAPE) == 0);
    CHECK((result & CHAT_PLAIN_SHAPE) != 0);
    CHECK((result & CHAT_SYSTEM_SHAPE) != 0);
    CHECK((result & CHAT_COMPLETION_SHAPE) != 0);
    CHECK(strstr(certify.why, "token ") != NULL);
    tear_down();
}

TEST(another_template_altogether_leaves_completions)
{
    set_up((struct dialect_options){0},
           (struct dialect_options){.template = slice_str("<s>" TINY_TEMPLATE)});
    CHECK(examine());
    CHECK_EQ(certify_result(&certify), CHAT_COMPLETION_SHAPE);
    tear_down();
}

TEST(an_engine_without_an_endpoint_cannot_be_asked)
{
    set_up((struct dialect_options){0}, (struct dialect_options){0});
    engine.paths[0] = NULL;
    CHECK(!examine());
    CHECK_EQ(certify_result(&certify), 0);
    CHECK_STR(certify.why, "/v1/chat/completions/render responds with status 404");
    tear_down();
}

TEST(another_way_is_found_where_the_first_does_not_exist)
{
    set_up((struct dialect_options){0}, (struct dialect_options){0});
    engine.paths[0] = "/v1/chat/completions/render";
    engine.paths[1] = "/v1/completions/render";
    CHECK(examine());
    CHECK_EQ(certify.differed_count, 0);
    CHECK((certify_result(&certify) & CHAT_TOOLS_SHAPE) != 0);
    CHECK((certify_result(&certify) & CHAT_COMPLETION_SHAPE) != 0);
    tear_down();
}

TEST(cases_that_tokenize_ignores_a_member_of_go_to_render)
{
    static const char *const template = "{% for m in messages %}{{ m.content }}{% endfor %}"
                                        "{{ reasoning_effort }}{{ documents | tojson }}";
    struct dialect_options options = {.template = slice_str(template)};
    set_up(options, options);
    engine.paths[1] = "/v1/chat/completions/render";
    CHECK(examine());
    CHECK_EQ(certify.differed_count, 0);
    CHECK((certify_result(&certify) & CHAT_EFFORT_SHAPE) != 0);
    CHECK((certify_result(&certify) & CHAT_DOCUMENTS_SHAPE) != 0);
    tear_down();
    set_up(options, options); // without that endpoint they stay undecided
    CHECK(examine());
    CHECK((certify_result(&certify) & CHAT_EFFORT_SHAPE) == 0);
    CHECK((certify_result(&certify) & CHAT_PLAIN_SHAPE) != 0);
    tear_down();
}

TEST(llama_cpp_is_asked_for_the_text_and_then_for_its_ids)
{
    struct dialect_options plain = {.engine = DIALECT_PLAIN};
    set_up(plain, plain);
    engine.paths[0] = "/apply-template";
    engine.paths[1] = NULL;
    // Its /tokenize knows neither messages nor prompt.
    certify.way = 2;
    engine.paths[1] = "/tokenize";
    CHECK(examine());
    CHECK((certify_result(&certify) & CHAT_PLAIN_SHAPE) != 0);
    tear_down();
}

TEST(a_case_that_the_engine_refuses_is_skipped)
{
    set_up((struct dialect_options){0}, (struct dialect_options){0});
    engine.fails_with = 400;
    CHECK(examine());
    CHECK_EQ(certify.agreed_count + certify.differed_count, 0);
    CHECK_EQ(certify.skipped_count, certify_case_count());
    CHECK_EQ(certify_result(&certify), 0);
    tear_down();
}

TEST(a_response_without_a_list_of_ids_never_agrees)
{
    static const char *const responses[] = {
        "", "{}", "[]", "{\"tokens\":7}", "{\"tokens\":[", "{\"tokens\":[1,\"x\"]}"};
    for (size_t i = 0; i < ARRAY_COUNT(responses); i++) {
        struct text space = text_over(question_space, space_size);
        struct certify_question question;
        set_up((struct dialect_options){0}, (struct dialect_options){0});
        CHECK(certify_question(&certify, &space, &question));
        CHECK(certify_response(&certify, 200, slice_str(responses[i])) != CERTIFY_AGREED);
        tear_down();
    }
}

// A text that this tokenizer splits differently, in a plain chat.
TEST(a_plain_chat_that_differs_costs_all_chats)
{
    struct text space = text_over(question_space, space_size);
    struct certify_question question;

    set_up((struct dialect_options){0}, (struct dialect_options){0});
    uint32_t plain_count = 0;
    while (certify_question(&certify, &space, &question)) {
        struct text response = text_over(response_space, space_size);
        bool is_plain = certify.ours.shape == CHAT_PLAIN_SHAPE;
        uint16_t status = tiny_engine_respond(&engine.tiny, "/tokenize", question.body, &response);
        plain_count += is_plain;
        struct slice body = is_plain && plain_count == 2 ? slice_str("{\"tokens\":[1,2,3]}")
                                                         : text_slice(&response);
        certify_response(&certify, status, body);
    }
    CHECK(plain_count > 2);
    CHECK_EQ(certify.differed_count, 1);
    CHECK_EQ(certify_result(&certify) & CHAT_PLAIN_SHAPE, 0);
    CHECK((certify_result(&certify) & CHAT_COMPLETION_SHAPE) != 0);
    tear_down();
}

TEST(an_engine_without_time_says_nothing_about_the_case)
{
    static const uint16_t statuses[] = {429, 502, 503, 504};
    for (size_t i = 0; i < ARRAY_COUNT(statuses); i++) {
        set_up((struct dialect_options){0}, (struct dialect_options){0});
        engine.fails_with = statuses[i];
        CHECK(!examine());
        CHECK_EQ(certify.skipped_count, 0);
        CHECK_EQ(certify_result(&certify), 0);
        tear_down();
    }
}

TEST(an_engine_that_stops_returning_ids_differs_and_the_reason_says_so)
{
    struct text space = text_over(question_space, space_size);
    struct text response = text_over(response_space, space_size);
    struct certify_question question;

    set_up((struct dialect_options){0}, (struct dialect_options){0});
    CHECK(certify_question(&certify, &space, &question));
    CHECK_EQ(tiny_engine_respond(&engine.tiny, question.path, question.body, &response), 200);
    CHECK_EQ(certify_response(&certify, 200, text_slice(&response)), CERTIFY_AGREED);
    CHECK(certify_question(&certify, &space, &question));
    CHECK_EQ(certify_response(&certify, 200, slice_str("{\"detail\":\"x\"}")), CERTIFY_DIFFERED);
    CHECK_STR(certify.why, "the engine does not respond with ids");
    tear_down();
}
