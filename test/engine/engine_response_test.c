// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_response.h"

#include "api/response_body.h"
#include "base/text.h"
#include "json/json.h"
#include "sim/workload/content.h"
#include "test.h"

static char space[1 << 16];

static struct engine_response example(enum prompt_api api)
{
    return (struct engine_response){.api = api,
                                    .model = "a \"model\"",
                                    .number = 0xabc,
                                    .created_s = 1700000000,
                                    .text_id = 77,
                                    .prompt_tokens = 100,
                                    .cached_tokens = 96,
                                    .output_tokens = 3,
                                    .is_limited = true};
}

// The data of the next event; empty when there is none.  Moves behind it.
static struct slice next_data(const char **at)
{
    if (strncmp(*at, "data: ", 6) != 0) {
        return slice_of(NULL, 0);
    }
    const char *end = strstr(*at, "\n\n");
    ASSERT(end != NULL);
    struct slice data = slice_of(*at + 6, (size_t)(end - *at - 6));
    *at = end + 2;
    return data;
}

static const char *event(const struct engine_response *answer, uint32_t token, bool is_last)
{
    struct text text = text_over(space, sizeof(space) - 1);
    engine_response_event(answer, token, is_last, &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *document(const struct engine_response *answer)
{
    struct text text = text_over(space, engine_response_document_room(answer->output_tokens));
    engine_response_document(answer, &text);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static bool is_json(struct slice text)
{
    struct json json = json_open(text);
    return json_close(&json) == STATUS_OK;
}

TEST(the_first_token_of_a_chat_comes_behind_its_role)
{
    struct engine_response answer = example(PROMPT_CHAT);
    const char *at = event(&answer, 0, false);
    const char *first = at;
    struct slice role = next_data(&at);
    struct slice token = next_data(&at);
    CHECK(is_json(role) && is_json(token));
    CHECK_EQ(next_data(&at).size, 0);
    CHECK(strstr(first, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}") != NULL);
    CHECK(strstr(first, "\"finish_reason\":\"") == NULL);
    CHECK(strstr(first, "\"id\":\"chatcmpl-abc\"") != NULL);
    CHECK(strstr(first, "\"model\":\"a \\\"model\\\"\"") != NULL);

    at = event(&answer, 1, false);
    CHECK(is_json(next_data(&at)));
    CHECK_EQ(next_data(&at).size, 0);
}

TEST(the_last_token_says_why_it_is_the_last)
{
    struct engine_response answer = example(PROMPT_CHAT);
    CHECK(strstr(event(&answer, 2, true), "\"finish_reason\":\"length\"}") != NULL);
    answer.is_limited = false;
    CHECK(strstr(event(&answer, 2, true), "\"finish_reason\":\"stop\"}") != NULL);
    answer.api = PROMPT_COMPLETION;
    CHECK(strstr(event(&answer, 0, true), "\"text\":\"") != NULL);
    CHECK(strstr(event(&answer, 0, true), "assistant") == NULL);
}

// Reads all events, or the document, as the router does.  Returns the hash of the text; *usage has
// the counts.
static uint64_t read_by_router(const struct engine_response *answer, bool is_streamed,
                               struct response_usage *usage)
{
    static uint64_t keys[64];
    struct prefix_chain chain;
    struct response_event said = {0};

    prefix_chain_begin(&chain, 1, 4, keys, ARRAY_COUNT(keys));
    if (!is_streamed) {
        response_read_body(answer->api, slice_str(document(answer)), &chain, &said);
        *usage = said.usage;
        return chain.last;
    }
    for (uint32_t i = 0; i < answer->output_tokens; i++) {
        const char *at = event(answer, i, i + 1 == answer->output_tokens);
        for (struct slice data; (data = next_data(&at)).size > 0;) {
            response_read_event(answer->api, data, &chain, &said);
        }
    }
    struct text text = text_over(space, sizeof(space) - 1);
    engine_response_usage_event(answer, &text);
    engine_response_done_event(&text);
    space[text.size] = '\0';
    const char *at = space;
    response_read_event(answer->api, next_data(&at), &chain, &said);
    ASSERT(said.is_usage_only);
    *usage = said.usage;
    response_read_event(answer->api, next_data(&at), &chain, &said);
    ASSERT(said.is_last);
    return chain.last;
}

TEST(the_router_understands_streams_and_documents_alike)
{
    static const enum prompt_api apis[] = {PROMPT_CHAT, PROMPT_COMPLETION};
    for (size_t i = 0; i < ARRAY_COUNT(apis); i++) {
        struct engine_response answer = example(apis[i]);
        answer.output_tokens = 40;
        struct response_usage streamed = {0};
        struct response_usage whole = {0};
        uint64_t last = read_by_router(&answer, true, &streamed);
        CHECK(read_by_router(&answer, false, &whole) == last);
        CHECK_EQ(streamed.prompt_tokens, 100);
        CHECK_EQ(streamed.cached_tokens, 96);
        CHECK_EQ(streamed.completion_tokens, 40);
        CHECK_EQ(whole.prompt_tokens, 100);
        CHECK_EQ(whole.cached_tokens, 96);
        CHECK_EQ(whole.completion_tokens, 40);
    }
}

TEST(a_document_of_any_length_fits_into_its_room)
{
    static const uint32_t lengths[] = {1, 63, 64, 65, 4000};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        struct engine_response answer = example(PROMPT_CHAT);
        char words[4000 * content_token_size + 1];
        answer.output_tokens = lengths[i];
        content_text(77, 0, lengths[i], words);
        words[(size_t)lengths[i] * content_token_size] = '\0';
        CHECK(is_json(slice_str(document(&answer))));
        CHECK(strstr(space, words) != NULL);
    }
}

TEST(errors_have_the_shape_of_vllms)
{
    struct text text = text_over(space, sizeof(space) - 1);
    engine_response_error(404, "no \"x\"", &text);
    space[text.size] = '\0';
    CHECK_STR(space, "{\"error\":{\"message\":\"no \\\"x\\\"\",\"type\":\"NotFoundError\","
                     "\"param\":null,\"code\":404}}");
    text.size = 0;
    engine_response_error(503, "m", &text);
    space[text.size] = '\0';
    CHECK(strstr(space, "\"type\":\"Service Unavailable\"") != NULL);
}

TEST(adapters_are_listed_with_their_model)
{
    static const struct engine_model models[] = {{.name = "m"}, {.name = "l", .parent = "m"}};
    struct text text = text_over(space, sizeof(space) - 1);
    engine_response_models(models, 2, 4096, 5, &text);
    space[text.size] = '\0';
    CHECK_STR(space, "{\"object\":\"list\",\"data\":["
                     "{\"id\":\"m\",\"object\":\"model\",\"created\":5,\"owned_by\":\"warmpath\","
                     "\"root\":\"m\",\"parent\":null,\"max_model_len\":4096},"
                     "{\"id\":\"l\",\"object\":\"model\",\"created\":5,\"owned_by\":\"warmpath\","
                     "\"root\":\"l\",\"parent\":\"m\",\"max_model_len\":4096}]}");
}
