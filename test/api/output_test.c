// SPDX-License-Identifier: Apache-2.0

#include "api/output.h"

#include "base/base.h"
#include "test.h"

#include <stdio.h>

static struct output noted(enum prompt_api api, const char *const events[])
{
    struct output output = {0};
    for (; *events != NULL; events++) {
        struct response_event event = {0};
        response_read_event(api, slice_str(*events), NULL, &event);
        output_note(&output, api, &event);
    }
    return output;
}

#define NOTED(api, ...) noted(api, (const char *const[]){__VA_ARGS__, NULL})
#define ROLE "{\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}"
#define TOKEN "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}"
#define ERROR "{\"error\":{\"message\":\"no\"}}"
#define USAGE "{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}"

TEST(text_and_usage_are_an_answer_before_the_response_ends)
{
    CHECK(NOTED(PROMPT_CHAT, TOKEN).has_answer);
    CHECK(NOTED(PROMPT_CHAT, USAGE).has_answer);
    CHECK(NOTED(PROMPT_CHAT, TOKEN, ERROR).has_answer);
    CHECK(NOTED(PROMPT_MESSAGES,
                "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\","
                "\"text\":\"x\"}}")
              .has_answer);
}

TEST(calls_refusals_of_the_model_and_audio_are_an_answer)
{
    static const char *const deltas[] = {
        "{\"function_call\":{\"name\":\"f\"}}", "{\"refusal\":\"I\"}", "{\"audio\":{\"id\":\"a\"}}",
        "{\"reasoning\":\"x\"}", "{\"tool_calls\":[{\"index\":0}]}"};
    for (size_t i = 0; i < ARRAY_COUNT(deltas); i++) {
        char event[256];
        snprintf(event, sizeof(event), "{\"choices\":[{\"delta\":%s}]}", deltas[i]);
        CHECK(NOTED(PROMPT_CHAT, event).has_answer);
    }
    CHECK(!NOTED(PROMPT_CHAT, "{\"choices\":[{\"delta\":{\"refusal\":null,\"content\":\"\"}}]}")
               .has_answer);
}

TEST(a_role_alone_is_output_of_a_complete_response_only)
{
    struct output output = NOTED(PROMPT_CHAT, ROLE);
    CHECK(!output.has_answer);
    CHECK(output_is_given(&output));
}

TEST(a_role_and_an_error_are_not_output)
{
    struct output output = NOTED(PROMPT_CHAT, ROLE, ERROR);
    CHECK(!output.has_answer && !output_is_given(&output));
}

TEST(a_document_with_an_empty_list_is_output_unless_it_has_an_error)
{
    static const struct {
        const char *document;
        enum prompt_api api;
        bool is_given;
    } rows[] = {
        {"{\"status\":\"queued\",\"output\":[],\"error\":null,\"usage\":null}", PROMPT_RESPONSES,
         true},
        {"{\"status\":\"failed\",\"output\":[],\"error\":{\"code\":\"x\"}}", PROMPT_RESPONSES,
         false},
        {"{\"type\":\"message\",\"content\":[],\"stop_reason\":\"end_turn\"}", PROMPT_MESSAGES,
         true},
        {"{\"type\":\"error\",\"error\":{\"type\":\"x\"}}", PROMPT_MESSAGES, false},
        {"{\"choices\":[]}", PROMPT_CHAT, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct output output = {0};
        struct response_event event = {0};
        response_read_body(rows[i].api, slice_str(rows[i].document), NULL, &event);
        output_note(&output, rows[i].api, &event);
        CHECK_EQ(output_is_given(&output), rows[i].is_given);
        CHECK(!output.has_answer);
    }
}

TEST(nothing_and_an_empty_document_are_not_output)
{
    struct output nothing = {0};
    struct output empty = NOTED(PROMPT_COMPLETION, "{}");
    CHECK(!output_is_given(&nothing) && !output_is_given(&empty));
}
