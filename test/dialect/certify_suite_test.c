// SPDX-License-Identifier: Apache-2.0

#include "dialect/certify_suite.h"

#include "chat_scene.h"
#include "json/json.h"
#include "test.h"

// Cases of the suite that an engine's rules refuse.
static bool is_refused_on_purpose(enum dialect_engine engine, const char *name)
{
    static const struct {
        enum dialect_engine engine;
        const char *name;
    } refused[] = {
        // SGLang's /tokenize obeys it, its chats do not.
        {DIALECT_SGLANG, "no generation prompt"},
        {DIALECT_SGLANG, "no generation prompt after turns"},
        // Only vLLM and SGLang know an effort.
        {DIALECT_PLAIN, "no effort"},
        {DIALECT_PLAIN, "low effort"},
        {DIALECT_PLAIN, "high effort"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(refused); i++) {
        if (refused[i].engine == engine && strcmp(refused[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

// The request of a case, with a model.
static struct slice body_of(const struct certify_case *row)
{
    static char body[1 << 14];
    struct text text = text_over(body, sizeof(body));
    text_add_str(&text, "{\"model\":\"m\",");
    text_add_str(&text, row->members);
    text_add_str(&text, "}");
    ASSERT(!text.overflow);
    return text_slice(&text);
}

// Reads a case by rules of every kind that an engine has; the shape is the same for all.
static uint32_t shape_of(const struct certify_case *row, enum dialect_engine engine)
{
    struct chat_scene *scene = chat_scene_of(engine);
    uint32_t shape = 0;

    for (uint32_t i = 0; i < 4; i++) {
        scene->rules.content_is_list = i % 2 == 1;
        scene->rules.knows_developer = i / 2 == 1;
        chat_scene_read_slice(scene, body_of(row));
        bool good = scene->status == STATUS_OK;
        if (good == is_refused_on_purpose(engine, row->name)) {
            test_fail(__FILE__, __LINE__, "%s: %s", row->name, good ? "read" : scene->room.error);
            return 0;
        }
        shape = good ? scene->chat.shape : 0;
    }
    return shape;
}

TEST(every_case_is_a_request_that_engines_are_followed_in)
{
    for (uint32_t i = 0; i < certify_case_count(); i++) {
        const struct certify_case *row = certify_case(i);
        if (row->is_completion) {
            continue;
        }
        shape_of(row, DIALECT_VLLM);
        shape_of(row, DIALECT_SGLANG);
        shape_of(row, DIALECT_PLAIN);
    }
}

TEST(a_completion_is_a_prompt)
{
    static const char *const names[] = {"prompt", "messages"};
    for (uint32_t i = 0; i < certify_case_count(); i++) {
        struct json_value found[2] = {0};
        bool is_completion = certify_case(i)->is_completion;
        CHECK_EQ(json_find(body_of(certify_case(i)), names, 2, found), STATUS_OK);
        CHECK_EQ(found[0].kind, is_completion ? JSON_STRING : JSON_ABSENT);
        CHECK_EQ(found[1].kind, is_completion ? JSON_ABSENT : JSON_ARRAY);
    }
}

TEST(cases_are_many_and_have_names_of_their_own)
{
    CHECK(certify_case_count() >= 24);
    for (uint32_t i = 1; i < certify_case_count(); i++) {
        uint32_t j = 0;
        while (j < i && strcmp(certify_case(i)->name, certify_case(j)->name) != 0) {
            j++;
        }
        CHECK_EQ(j, i);
    }
}

static bool has_case_of(uint32_t shape)
{
    uint32_t i = 0;
    while (i < certify_case_count() &&
           (certify_case(i)->is_completion || shape_of(certify_case(i), DIALECT_VLLM) != shape)) {
        i++;
    }
    return i < certify_case_count();
}

TEST(every_bit_is_in_a_case_with_as_few_others_as_it_can_be)
{
    static const uint32_t company[chat_shape_count] = {
        [CHAT_SHAPE_BIT_TOOL_EXTRAS] = CHAT_TOOLS_SHAPE,
        [CHAT_SHAPE_BIT_TOOL_CALLS] = CHAT_TURNS_SHAPE | CHAT_TOOL_RESULTS_SHAPE,
        [CHAT_SHAPE_BIT_TOOL_RESULTS] = CHAT_TURNS_SHAPE | CHAT_TOOL_CALLS_SHAPE,
        [CHAT_SHAPE_BIT_REASONING] = CHAT_TURNS_SHAPE,
    };
    for (uint32_t bit = 0; bit < CHAT_SHAPE_BIT_COMPLETION; bit++) {
        if (!has_case_of(CHAT_PLAIN_SHAPE | 1u << bit | company[bit])) {
            test_fail(__FILE__, __LINE__, "no case of %s alone",
                      chat_shape_text((enum chat_shape_bit)bit));
            return;
        }
    }
}

TEST(cases_with_members_that_tokenize_ignores_are_marked)
{
    for (uint32_t i = 0; i < certify_case_count(); i++) {
        const struct certify_case *row = certify_case(i);
        uint32_t shape = row->is_completion ? 0 : shape_of(row, DIALECT_VLLM);
        CHECK_EQ(row->is_chat_only, (shape & (CHAT_EFFORT_SHAPE | CHAT_DOCUMENTS_SHAPE)) != 0);
    }
}
