// SPDX-License-Identifier: Apache-2.0

#include "api/response_body.h"

#include "base/rng.h"
#include "base/text.h"
#include "test.h"

// A chain whose block is larger than what the tests say: its bytes can be compared.
struct said {
    struct prefix_chain chain;
    uint64_t keys[4];
};

static struct prefix_chain *said_begin(struct said *said)
{
    memset(said, 0, sizeof(*said));
    prefix_chain_begin(&said->chain, 7, prefix_block_size_max, said->keys, 4);
    return &said->chain;
}

static bool said_same(const struct said *a, const struct said *b)
{
    return a->chain.size == b->chain.size && a->chain.last == b->chain.last &&
           a->chain.pending == b->chain.pending &&
           memcmp(a->chain.block, b->chain.block, a->chain.pending) == 0;
}

// The text alone, for a chain without calls.
static bool said_is(const struct said *said, const char *text)
{
    struct said expected;
    prefix_chain_add(said_begin(&expected), slice_str(text));
    return said_same(said, &expected);
}

static bool is_nothing(const struct response_event *event)
{
    return !event->has_output && !event->is_usage_only && !event->is_error && !event->is_last &&
           !event->usage.has_prompt_tokens && !event->usage.has_cached_tokens &&
           event->usage.prompt_tokens == 0 && event->usage.cached_tokens == 0 &&
           event->usage.completion_tokens == 0;
}

static struct response_event read_event(enum prompt_api api, const char *data,
                                        struct prefix_chain *chain)
{
    struct response_event event;
    memset(&event, 0xff, sizeof(event));
    response_read_event(api, slice_str(data), chain, &event);
    return event;
}

static struct response_event read_body(enum prompt_api api, const char *body,
                                       struct prefix_chain *chain)
{
    struct response_event event;
    memset(&event, 0xff, sizeof(event));
    response_read_body(api, slice_str(body), chain, &event);
    return event;
}

// All events of a stream together: each member from the last event that had it.
static struct response_event read_stream(enum prompt_api api, const char *const *events,
                                         size_t count, struct prefix_chain *chain)
{
    struct response_event all = {0};
    for (size_t i = 0; i < count; i++) {
        struct response_event event = read_event(api, events[i], chain);
        all.has_output |= event.has_output;
        all.is_error |= event.is_error;
        all.is_last = event.is_last;
        if (event.usage.has_prompt_tokens) {
            all.usage = event.usage;
        } else if (event.usage.completion_tokens > 0) {
            all.usage.completion_tokens = event.usage.completion_tokens;
        }
    }
    return all;
}

#define CHUNK                                                                                      \
    "\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","

static const char *const vllm_chat[] = {
    "{" CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"logprobs\":null,\"finish_reason\":null}]}",
    "{" CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"Hm.\"},"
    "\"finish_reason\":null}]}",
    "{" CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Gr\\u00fc\\u00df\"},"
    "\"logprobs\":null,\"finish_reason\":null}]}",
    "{" CHUNK "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" Gott\\n\"},"
    "\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null}]}",
    "{" CHUNK "\"choices\":[],\"usage\":{\"prompt_tokens\":24,\"total_tokens\":28,"
    "\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":16}}}",
    "[DONE]",
};

static const char vllm_chat_body[] =
    "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
    "\"Gr\xc3\xbc\xc3\x9f Gott\\n\",\"refusal\":null,\"tool_calls\":[],"
    "\"reasoning_content\":\"Hm.\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":24,"
    "\"total_tokens\":28,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":16}},"
    "\"prompt_logprobs\":null,\"kv_transfer_params\":null}";

TEST(the_first_chunk_is_output_even_while_its_text_is_empty)
{
    struct said said;
    struct response_event event = read_event(PROMPT_CHAT, vllm_chat[0], said_begin(&said));
    CHECK(event.has_output);
    CHECK(!event.is_usage_only && !event.is_error && !event.is_last);
    CHECK_EQ(said.chain.size, 0);
}

TEST(a_token_is_text_reasoning_or_a_call_but_not_a_role)
{
    static const char *const tokens[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\n\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"a\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}",
        "{\"choices\":[{\"index\":0,\"text\":\" a\"}]}",
    };
    static const char *const others[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[]}}]}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(tokens); i++) {
        CHECK(read_event(PROMPT_CHAT, tokens[i], NULL).has_token);
    }
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        CHECK(!read_event(PROMPT_CHAT, others[i], NULL).has_token);
    }
    // The text is as it stands in the JSON, so that it can be put into another one.
    CHECK(slice_is(read_event(PROMPT_CHAT, tokens[0], NULL).text, "a\\n"));
    CHECK(slice_is(read_event(PROMPT_COMPLETION, tokens[3], NULL).text, " a"));
}

TEST(a_chat_stream_says_what_the_whole_answer_says)
{
    struct said streamed;
    struct said whole;
    struct response_event stream =
        read_stream(PROMPT_CHAT, vllm_chat, ARRAY_COUNT(vllm_chat), said_begin(&streamed));
    struct response_event body = read_body(PROMPT_CHAT, vllm_chat_body, said_begin(&whole));

    CHECK(said_is(&whole, "Gr\xc3\xbc\xc3\x9f Gott\n"));
    CHECK(said_same(&streamed, &whole));
    CHECK(stream.has_output && body.has_output);
    CHECK(stream.is_last);
    CHECK(stream.usage.has_cached_tokens && body.usage.has_cached_tokens);
    CHECK_EQ(stream.usage.prompt_tokens, 24);
    CHECK_EQ(stream.usage.cached_tokens, 16);
    CHECK_EQ(stream.usage.completion_tokens, 4);
    CHECK_EQ(body.usage.prompt_tokens, 24);
    CHECK_EQ(body.usage.cached_tokens, 16);
    CHECK_EQ(body.usage.completion_tokens, 4);
}

TEST(usage_alone_is_an_empty_array_of_choices_and_a_usage_object)
{
    CHECK(read_event(PROMPT_CHAT, vllm_chat[4], NULL).is_usage_only);
    CHECK(!read_event(PROMPT_CHAT, vllm_chat[4], NULL).has_output);

    static const char *const others[] = {
        "{\"choices\":[],\"usage\":null}",
        "{\"choices\":[]}",
        "{\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":null,\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":{},\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":{\"prompt_tokens\":1}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":1}",
        "[DONE]",
    };
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        CHECK(!read_event(PROMPT_CHAT, others[i], NULL).is_usage_only);
    }
}

TEST(cached_tokens_that_are_not_given_are_not_zero)
{
    static const char *const absent[] = {
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":null}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":{}}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
        "\"prompt_tokens_details\":{\"cached_tokens\":null,\"audio_tokens\":3}}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
        "\"prompt_tokens_details\":{\"cached_tokens\":\"3\"}}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
        "\"prompt_tokens_details\":{\"cached_tokens\":-3}}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
        "\"completion_tokens_details\":{\"cached_tokens\":3}}}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(absent); i++) {
        struct response_event event = read_event(PROMPT_CHAT, absent[i], NULL);
        CHECK(event.is_usage_only);
        CHECK(event.usage.has_prompt_tokens);
        CHECK_EQ(event.usage.prompt_tokens, 9);
        CHECK(!event.usage.has_cached_tokens);
        CHECK_EQ(event.usage.cached_tokens, 0);
    }
    struct response_event zero = read_event(
        PROMPT_CHAT, "{\"choices\":[],\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":0}}}",
        NULL);
    CHECK(zero.usage.has_cached_tokens);
    CHECK(!zero.usage.has_prompt_tokens);
}

TEST(timings_stand_in_for_cached_tokens_that_usage_lacks)
{
    struct response_event event = read_event(
        PROMPT_CHAT,
        "{\"timings\":{\"cache_n\":236,\"prompt_n\":1,\"prompt_ms\":30.958,\"predicted_n\":35},"
        "\"choices\":[],\"usage\":{\"prompt_tokens\":237,\"completion_tokens\":35}}",
        NULL);
    CHECK(event.is_usage_only && event.usage.has_cached_tokens);
    CHECK_EQ(event.usage.cached_tokens, 236);
    CHECK_EQ(event.usage.prompt_tokens, 237);

    event = read_event(PROMPT_CHAT,
                       "{\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
                       "\"prompt_tokens_details\":{\"cached_tokens\":5}},"
                       "\"timings\":{\"cache_n\":236,\"prompt_n\":1}}",
                       NULL);
    CHECK_EQ(event.usage.cached_tokens, 5);
    CHECK_EQ(event.usage.prompt_tokens, 9);

    event = read_event(PROMPT_CHAT,
                       "{\"choices\":[{\"delta\":{}}],\"timings\":{\"cache_n\":6,\"prompt_n\":1}}",
                       NULL);
    CHECK(event.usage.has_prompt_tokens && event.usage.has_cached_tokens);
    CHECK_EQ(event.usage.prompt_tokens, 7);
}

TEST(only_the_first_choice_is_heard)
{
    struct said said;
    struct prefix_chain *chain = said_begin(&said);
    read_event(PROMPT_CHAT, "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]}", chain);
    read_event(PROMPT_CHAT, "{\"choices\":[{\"delta\":{\"content\":\"no\"},\"index\":1}]}", chain);
    CHECK_EQ(chain->size, 0);
    read_event(PROMPT_CHAT,
               "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}},"
               "{\"delta\":{\"content\":\"yes\"},\"index\":0}]}",
               chain);
    CHECK(said_is(&said, "yes"));
    // Without an index, the place tells.
    read_event(PROMPT_COMPLETION, "{\"choices\":[{\"text\":\"!\"},{\"text\":\"no\"}]}", chain);
    CHECK(said_is(&said, "yes!"));
    // Two that both claim to be the first are one too many.
    read_event(PROMPT_COMPLETION,
               "{\"choices\":[{\"index\":0,\"text\":\"!\"},{\"index\":0,\"text\":\"no\"}]}", chain);
    CHECK(said_is(&said, "yes!!"));
    CHECK(read_event(PROMPT_CHAT, "{\"choices\":[{\"index\":1,\"delta\":{}}]}", chain).has_output);
}

TEST(completions_have_text)
{
    static const char *const events[] = {
        "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\","
        "\"choices\":[{\"index\":0,\"text\":\" once\",\"logprobs\":null,"
        "\"finish_reason\":null,\"stop_reason\":null}],\"usage\":null}",
        "{\"id\":\"cmpl-1\",\"choices\":[{\"index\":0,\"text\":\" upon\","
        "\"finish_reason\":\"length\"}]}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}",
        "[DONE]",
    };
    struct said streamed;
    struct said whole;
    struct response_event stream =
        read_stream(PROMPT_COMPLETION, events, ARRAY_COUNT(events), said_begin(&streamed));
    struct response_event body =
        read_body(PROMPT_COMPLETION,
                  "{\"choices\":[{\"index\":0,\"text\":\" once upon\"}],"
                  "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}",
                  said_begin(&whole));
    CHECK(said_is(&whole, " once upon"));
    CHECK(said_same(&streamed, &whole));
    CHECK(stream.has_output && body.has_output && stream.is_last);
    CHECK_EQ(stream.usage.completion_tokens, 2);
    CHECK_EQ(body.usage.prompt_tokens, 5);
}

#define DELTA_CALL(call) "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[" call "]}}]}"

TEST(tool_calls_follow_the_text_each_with_its_name_first)
{
    static const char *const events[] = {
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Let me\"}}]}",
        DELTA_CALL("{\"id\":\"call_1\",\"type\":\"function\",\"index\":0,"
                   "\"function\":{\"name\":\"get_weather\",\"arguments\":\"\"}}"),
        DELTA_CALL("{\"index\":0,\"function\":{\"arguments\":\"{\\\"city\\\"\"}}"),
        DELTA_CALL("{\"index\":0,\"function\":{\"name\":null,\"arguments\":\": \\\"Wien\\\"}\"}}"),
        DELTA_CALL("{\"index\":1,\"function\":{\"arguments\":\"{}\",\"name\":\"get_time\"}}"),
        DELTA_CALL("{\"index\":1,\"function\":{\"name\":\"\",\"arguments\":null}}"),
        "[DONE]",
    };
    struct said expected;
    struct said streamed;
    struct said whole;
    struct prefix_chain *chain = said_begin(&expected);
    prefix_chain_add(chain, slice_str("Let me"));
    prompt_begin_tool_call(chain, slice_str("get_weather"));
    prefix_chain_add(chain, slice_str("{\"city\": \"Wien\"}"));
    prompt_begin_tool_call(chain, slice_str("get_time"));
    prefix_chain_add(chain, slice_str("{}"));

    read_stream(PROMPT_CHAT, events, ARRAY_COUNT(events), said_begin(&streamed));
    CHECK(said_same(&streamed, &expected));
    struct response_event event =
        read_body(PROMPT_CHAT,
                  "{\"choices\":[{\"index\":0,\"message\":{\"tool_calls\":[{\"id\":\"call_1\","
                  "\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":"
                  "\"{\\\"city\\\": \\\"Wien\\\"}\"}},{\"function\":{\"arguments\":{},"
                  "\"name\":\"get_time\"}}],\"content\":\"Let me\"}}]}",
                  said_begin(&whole));
    CHECK(event.has_output);
    CHECK(said_same(&whole, &expected));
    read_event(PROMPT_CHAT, DELTA_CALL("{\"function\":{\"arguments\":[1, 2]}}"), &whole.chain);
    prefix_chain_add(chain, slice_str("[1, 2]"));
    CHECK(said_same(&whole, &expected));
}

static const char *const responses[] = {
    "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\","
    "\"output\":[],\"usage\":null,\"error\":null,\"tools\":[]}}",
    "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"msg_1\","
    "\"content\":[],\"role\":\"assistant\",\"status\":\"in_progress\",\"type\":\"message\"}}",
    "{\"type\":\"response.reasoning_text.delta\",\"delta\":\"Hm.\"}",
    "{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,"
    "\"content_index\":0,\"delta\":\"Hel\",\"logprobs\":[]}",
    "{\"delta\":\"lo\",\"type\":\"response.output_text.delta\"}",
    "{\"type\":\"response.output_text.done\",\"text\":\"Hello\"}",
    "{\"type\":\"response.output_item.added\",\"item\":{\"name\":\"get_time\",\"arguments\":\"\","
    "\"call_id\":\"call_1\",\"type\":\"function_call\"}}",
    "{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{\\\"a\\\":\"}",
    "{\"type\":\"response.function_call_arguments.delta\",\"delta\":\"1}\"}",
    "{\"type\":\"response.function_call_arguments.done\",\"arguments\":\"{\\\"a\\\":1}\"}",
    "{\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\","
    "\"content\":[{\"type\":\"output_text\",\"text\":\"Hello\"}]}],\"usage\":{\"input_tokens\":37,"
    "\"input_tokens_details\":{\"cached_tokens\":32},\"output_tokens\":11,"
    "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":48}}}",
};

TEST(a_stream_of_responses_says_what_the_whole_answer_says)
{
    struct said expected;
    struct said streamed;
    struct said whole;
    struct prefix_chain *chain = said_begin(&expected);
    prefix_chain_add(chain, slice_str("Hello"));
    prompt_begin_tool_call(chain, slice_str("get_time"));
    prefix_chain_add(chain, slice_str("{\"a\":1}"));

    struct response_event stream =
        read_stream(PROMPT_RESPONSES, responses, ARRAY_COUNT(responses), said_begin(&streamed));
    CHECK(said_same(&streamed, &expected));
    CHECK(stream.has_output && stream.is_last && !stream.is_error);
    CHECK_EQ(stream.usage.prompt_tokens, 37);
    CHECK(stream.usage.has_cached_tokens);
    CHECK_EQ(stream.usage.cached_tokens, 32);
    CHECK_EQ(stream.usage.completion_tokens, 11);

    struct response_event body = read_body(
        PROMPT_RESPONSES,
        "{\"error\":null,\"object\":\"response\",\"output\":[{\"type\":\"reasoning\",\"content\":"
        "[{\"type\":\"reasoning_text\",\"text\":\"Hm.\"}]},{\"content\":[{\"text\":\"Hel\","
        "\"annotations\":[],\"type\":\"output_text\"},{\"type\":\"output_text\",\"text\":\"lo\"}],"
        "\"role\":\"assistant\",\"type\":\"message\"},{\"arguments\":\"{\\\"a\\\":1}\","
        "\"name\":\"get_time\",\"type\":\"function_call\"}],\"usage\":{\"input_tokens\":37,"
        "\"output_tokens\":11,\"input_tokens_details\":{\"cached_tokens\":32}}}",
        said_begin(&whole));
    CHECK(said_same(&whole, &expected));
    CHECK(body.has_output && !body.is_error);
    CHECK_EQ(body.usage.prompt_tokens, 37);
    CHECK_EQ(body.usage.cached_tokens, 32);
    CHECK_EQ(body.usage.completion_tokens, 11);
}

TEST(output_of_a_response_begins_with_its_first_delta)
{
    static const bool has_output[ARRAY_COUNT(responses)] = {
        [2] = true, [3] = true, [4] = true, [6] = true, [7] = true, [8] = true,
    };
    for (size_t i = 0; i < ARRAY_COUNT(responses); i++) {
        struct response_event event = read_event(PROMPT_RESPONSES, responses[i], NULL);
        CHECK_EQ(event.has_output, has_output[i]);
        CHECK_EQ(event.is_last, i + 1 == ARRAY_COUNT(responses));
    }
    struct response_event cut = read_event(
        PROMPT_RESPONSES,
        "{\"type\":\"response.incomplete\",\"response\":{\"usage\":{\"input_tokens\":1}}}", NULL);
    CHECK(cut.is_last && !cut.is_error);
    CHECK_EQ(cut.usage.prompt_tokens, 1);
}

static const char *const messages[] = {
    "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":"
    "\"assistant\",\"content\":[],\"usage\":{\"cache_read_input_tokens\":30,\"input_tokens\":7,"
    "\"output_tokens\":0}}}",
    "{\"type\":\"ping\"}",
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\","
    "\"thinking\":\"\"}}",
    "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
    "\"thinking\":\"Hm.\"}}",
    "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"text\","
    "\"text\":\"\"}}",
    "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\","
    "\"text\":\"Hel\"}}",
    "{\"delta\":{\"text\":\"lo\",\"type\":\"text_delta\"},\"index\":1,"
    "\"type\":\"content_block_delta\"}",
    "{\"type\":\"content_block_stop\",\"index\":1}",
    "{\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"tool_use\","
    "\"id\":\"toolu_1\",\"name\":\"get_time\",\"input\":{}}}",
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
    "\"partial_json\":\"{\\\"a\\\":\"}}",
    "{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
    "\"partial_json\":\"1}\"}}",
    "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},"
    "\"usage\":{\"output_tokens\":12}}",
    "{\"type\":\"message_stop\"}",
};

TEST(a_stream_of_a_message_says_what_the_whole_answer_says)
{
    struct said expected;
    struct said streamed;
    struct said whole;
    struct prefix_chain *chain = said_begin(&expected);
    prefix_chain_add(chain, slice_str("Hello"));
    prompt_begin_tool_call(chain, slice_str("get_time"));
    prefix_chain_add(chain, slice_str("{\"a\":1}"));

    struct response_event stream =
        read_stream(PROMPT_MESSAGES, messages, ARRAY_COUNT(messages), said_begin(&streamed));
    CHECK(said_same(&streamed, &expected));
    CHECK(stream.has_output && stream.is_last && !stream.is_error);
    // The tokens of the prompt are those read from the cache and the others.
    CHECK_EQ(stream.usage.prompt_tokens, 37);
    CHECK(stream.usage.has_cached_tokens);
    CHECK_EQ(stream.usage.cached_tokens, 30);
    CHECK_EQ(stream.usage.completion_tokens, 12);

    struct response_event body = read_body(
        PROMPT_MESSAGES,
        "{\"type\":\"message\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"Hm.\","
        "\"text\":\"no\"},{\"type\":\"text\",\"text\":\"Hello\"},{\"input\":{\"a\":1},"
        "\"name\":\"get_time\",\"type\":\"tool_use\"}],\"usage\":{\"input_tokens\":4,"
        "\"cache_creation_input_tokens\":3,\"cache_read_input_tokens\":30,\"output_tokens\":12}}",
        said_begin(&whole));
    CHECK(said_same(&whole, &expected));
    CHECK(body.has_output);
    CHECK_EQ(body.usage.prompt_tokens, 37);
    CHECK_EQ(body.usage.cached_tokens, 30);
    CHECK_EQ(body.usage.completion_tokens, 12);
}

TEST(a_message_that_says_nothing_of_its_cache_has_no_cached_tokens)
{
    struct response_event event =
        read_event(PROMPT_MESSAGES,
                   "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,"
                   "\"cache_read_input_tokens\":null,\"output_tokens\":0}}}",
                   NULL);
    CHECK(event.usage.has_prompt_tokens && !event.usage.has_cached_tokens);
    CHECK_EQ(event.usage.prompt_tokens, 7);
    CHECK(!event.has_output);
}

TEST(generate_repeats_its_text_so_only_the_whole_answer_is_heard)
{
    static const char event_text[] =
        "{\"text\":\"Hel\",\"output_ids\":[1],\"meta_info\":{\"id\":\"a\",\"finish_reason\":null,"
        "\"prompt_tokens\":7,\"cached_tokens\":4,\"completion_tokens\":1}}";
    struct said said;
    struct prefix_chain *chain = said_begin(&said);
    struct response_event event = read_event(PROMPT_GENERATE, event_text, chain);
    CHECK(event.has_output && !event.is_usage_only);
    CHECK_EQ(event.usage.prompt_tokens, 7);
    CHECK(event.usage.has_cached_tokens);
    CHECK_EQ(event.usage.cached_tokens, 4);
    CHECK_EQ(event.usage.completion_tokens, 1);
    CHECK_EQ(chain->size, 0);

    event = read_body(PROMPT_GENERATE, event_text, chain);
    CHECK(event.has_output);
    CHECK_EQ(event.usage.prompt_tokens, 7);
    CHECK(said_is(&said, "Hel"));

    event = read_body(PROMPT_GENERATE,
                      "[{\"meta_info\":{\"prompt_tokens\":7},\"text\":\"lo\"},{\"text\":\"no\","
                      "\"meta_info\":{\"prompt_tokens\":8}}]",
                      chain);
    CHECK_EQ(event.usage.prompt_tokens, 7);
    CHECK(said_is(&said, "Hello"));
}

TEST(errors_are_known_in_every_shape)
{
    static const struct {
        enum prompt_api api;
        const char *text;
    } errors[] = {
        {PROMPT_CHAT, "{\"error\":{\"message\":\"m\",\"type\":\"InternalServerError\"}}"},
        {PROMPT_CHAT, "{\"error\":{\"object\":\"error\",\"message\":\"m\",\"code\":500}}"},
        {PROMPT_CHAT, "{\"object\":\"error\",\"message\":\"m\",\"type\":\"BadRequestError\"}"},
        {PROMPT_CHAT, "{\"error\":\"out of memory\"}"},
        {PROMPT_COMPLETION, "{\"error\":{}}"},
        {PROMPT_RESPONSES, "{\"error\":{\"message\":\"m\"}}"},
        {PROMPT_MESSAGES, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}"},
        {PROMPT_GENERATE, "{\"error\":{\"message\":\"m\"}}"},
        {PROMPT_EMBEDDING, "{\"object\":\"error\",\"message\":\"m\"}"},
        {PROMPT_OTHER, "{\"error\":{\"message\":\"m\"}}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(errors); i++) {
        CHECK(read_event(errors[i].api, errors[i].text, NULL).is_error);
        CHECK(read_body(errors[i].api, errors[i].text, NULL).is_error);
        CHECK(!read_event(errors[i].api, errors[i].text, NULL).has_output);
    }
    CHECK(read_event(PROMPT_MESSAGES, "{\"type\":\"error\"}", NULL).is_error);
    CHECK(read_event(PROMPT_RESPONSES, "{\"type\":\"error\",\"code\":\"x\"}", NULL).is_error);
    struct response_event failed =
        read_event(PROMPT_RESPONSES, "{\"type\":\"response.failed\",\"response\":{}}", NULL);
    CHECK(failed.is_error && failed.is_last);
    CHECK(!read_event(PROMPT_CHAT, "{\"error\":null,\"choices\":[{}]}", NULL).is_error);
}

TEST(embeddings_are_counted_and_not_heard)
{
    struct said said;
    struct response_event event =
        read_body(PROMPT_EMBEDDING,
                  "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"embedding\":[0.5]}],"
                  "\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6},"
                  "\"choices\":[{\"index\":0,\"text\":\"no\"}]}",
                  said_begin(&said));
    CHECK_EQ(event.usage.prompt_tokens, 6);
    CHECK(!event.is_error);
    CHECK_EQ(said.chain.size, 0);
    read_event(PROMPT_OTHER, "{\"choices\":[{\"index\":0,\"text\":\"no\"}]}", &said.chain);
    CHECK_EQ(said.chain.size, 0);
}

struct sample {
    enum prompt_api api;
    bool is_body;
    const char *members[8]; // of the object, some with %s for those of the object inside
    const char *inside[4];
};

static const struct sample samples[] = {
    {PROMPT_CHAT,
     false,
     {"\"choices\":[{%s}]", "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}",
      "\"timings\":{\"cache_n\":4}", "\"id\":\"x\"", "\"object\":\"chat.completion.chunk\""},
     {"\"index\":0",
      "\"delta\":{\"content\":\"Hi\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}",
      "\"finish_reason\":null"}},
    {PROMPT_COMPLETION,
     true,
     {"\"choices\":[{%s}]", "\"usage\":{\"prompt_tokens\":5}", "\"created\":1.5e3"},
     {"\"text\":\"Hi\"", "\"index\":0", "\"logprobs\":{\"text\":[\"no\"]}"}},
    {PROMPT_RESPONSES,
     false,
     {"\"type\":\"response.output_text.delta\"", "\"delta\":\"Hi\"", "\"item\":{%s}"},
     {"\"type\":\"function_call\"", "\"name\":\"f\""}},
    {PROMPT_RESPONSES,
     false,
     {"\"type\":\"response.output_item.added\"", "\"output_index\":0", "\"item\":{%s}"},
     {"\"type\":\"function_call\"", "\"name\":\"f\"", "\"arguments\":\"\""}},
    {PROMPT_RESPONSES,
     true,
     {"\"output\":[{%s}]", "\"usage\":{\"input_tokens\":5}", "\"error\":null"},
     {"\"type\":\"message\"", "\"content\":[{\"text\":\"Hi\",\"type\":\"output_text\"}]"}},
    {PROMPT_MESSAGES,
     false,
     {"\"type\":\"content_block_start\"", "\"index\":1", "\"content_block\":{%s}"},
     {"\"type\":\"tool_use\"", "\"name\":\"f\"", "\"input\":{}"}},
    {PROMPT_MESSAGES,
     true,
     {"\"type\":\"message\"", "\"content\":[{%s}]", "\"usage\":{\"input_tokens\":5}"},
     {"\"type\":\"tool_use\"", "\"name\":\"f\"", "\"input\":{\"a\":[1]}"}},
    {PROMPT_GENERATE,
     true,
     {"\"text\":\"Hi\"", "\"meta_info\":{%s}", "\"output_ids\":[1,2]"},
     {"\"cached_tokens\":4", "\"prompt_tokens\":5", "\"e2e_latency\":0.5"}},
};

// The members, shuffled, with commas between them.
static void join_members(const char *const *members, size_t count_max, struct rng *rng,
                         struct text *out)
{
    const char *order[8] = {0};
    size_t count = 0;

    ASSERT(count_max <= ARRAY_COUNT(order));
    while (count < count_max && members[count] != NULL) {
        size_t at = rng != NULL ? rng_below(rng, (uint32_t)count + 1) : count;
        order[count] = order[at];
        order[at] = members[count++];
    }
    for (size_t i = 0; i < count; i++) {
        text_add_str(out, i > 0 ? "," : "");
        text_add_str(out, order[i]);
    }
}

// Without `rng`, in the order written above.
static void sample_text(const struct sample *sample, struct rng *rng, char *out, size_t capacity)
{
    char outer_bytes[512];
    struct text outer = text_over(outer_bytes, sizeof(outer_bytes));
    join_members(sample->members, ARRAY_COUNT(sample->members), rng, &outer);
    const uint8_t *hole = memmem(outer.bytes, outer.size, "%s", 2);
    ASSERT(hole != NULL && !outer.overflow);
    size_t before = (size_t)(hole - outer.bytes);

    struct text text = text_over(out, capacity - 1);
    text_add_str(&text, "{");
    text_add(&text, slice_of(outer.bytes, before));
    join_members(sample->inside, ARRAY_COUNT(sample->inside), rng, &text);
    text_add(&text, slice_of(hole + 2, outer.size - before - 2));
    text_add_str(&text, "}");
    ASSERT(!text.overflow);
    out[text.size] = '\0';
}

static struct response_event read_sample(const struct sample *sample, const char *text,
                                         struct prefix_chain *chain)
{
    return sample->is_body ? read_body(sample->api, text, chain)
                           : read_event(sample->api, text, chain);
}

static bool same_event(const struct response_event *a, const struct response_event *b)
{
    return a->has_output == b->has_output && a->is_usage_only == b->is_usage_only &&
           a->is_error == b->is_error && a->is_last == b->is_last &&
           a->usage.has_prompt_tokens == b->usage.has_prompt_tokens &&
           a->usage.has_cached_tokens == b->usage.has_cached_tokens &&
           a->usage.prompt_tokens == b->usage.prompt_tokens &&
           a->usage.cached_tokens == b->usage.cached_tokens &&
           a->usage.completion_tokens == b->usage.completion_tokens;
}

TEST(the_order_of_members_does_not_matter)
{
    struct rng rng = {.state = 1};
    for (size_t i = 0; i < ARRAY_COUNT(samples) * 200; i++) {
        const struct sample *sample = &samples[i / 200];
        char text[512];
        struct said expected;
        struct said said;
        sample_text(sample, NULL, text, sizeof(text));
        struct response_event first = read_sample(sample, text, said_begin(&expected));
        CHECK(first.has_output);
        CHECK(expected.chain.size > 0);

        sample_text(sample, &rng, text, sizeof(text));
        struct response_event event = read_sample(sample, text, said_begin(&said));
        CHECK(same_event(&event, &first));
        CHECK(said_same(&said, &expected));
        // Nor does whether anybody listens.
        event = read_sample(sample, text, NULL);
        CHECK(same_event(&event, &first));
    }
}

// How many beginnings of the text say something.
static uint32_t beginnings_heard(const struct sample *sample, char *text)
{
    uint32_t heard = 0;
    for (size_t size = strlen(text); size > 0; size--) {
        struct said said;
        struct prefix_chain *chain = said_begin(&said);
        text[size - 1] = '\0';
        struct response_event event = read_sample(sample, text, chain);
        heard += !is_nothing(&event) || chain->size > 0;
    }
    return heard;
}

TEST(half_an_event_says_nothing_and_leaves_no_trace)
{
    for (size_t i = 0; i < ARRAY_COUNT(samples); i++) {
        char text[512];
        sample_text(&samples[i], NULL, text, sizeof(text));
        CHECK_EQ(beginnings_heard(&samples[i], text), 0);
    }
}

TEST(a_body_that_is_not_understood_leaves_all_fields_empty)
{
    static const char *const strange[] = {
        "",
        " ",
        "null",
        "1",
        "\"choices\"",
        "[]",
        "[[{\"choices\":[{\"text\":\"no\"}],\"text\":\"no\"}]]",
        "{}",
        "[DONE",
        " [DONE] ",
        "\"[DONE]\"",
        "{\"choices\":\"x\",\"usage\":[],\"error\":null,\"timings\":3,\"object\":{}}",
        "{\"usage\":{\"prompt_tokens\":\"5\",\"completion_tokens\":null,\"input_tokens\":1.5}}",
        "{\"usage\":{\"output_tokens\":[2],\"prompt_tokens_details\":4,\"cached_tokens\":true}}",
        "{\"usage\":{\"cache_read_input_tokens\":{},\"completion_tokens\":-1}}",
        "{\"usage\":{\"prompt_tokens\":18446744073709551616}}",
        "{\"type\":7,\"delta\":[],\"item\":\"x\",\"response\":null,\"message\":\"m\"}",
        "{\"type\":\"message_start\",\"message\":[],\"content_block\":1,\"delta\":null}",
        "{\"output\":{\"type\":\"message\"},\"content\":\"no\"}",
        "{\"output\":[],\"content\":[ ]}",
        "{\"meta_info\":[],\"text\":[\"no\"],\"output_ids\":null}",
        "{\"choices\":[{\"text\":\"no\"}],\"content\":[1],\"output\":[2],\"text\":\"no\"} x",
        "{\"choices\":[{\"text\":\"\xff\"}],\"content\":[1],\"output\":[2],\"text\":\"\xff\"}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(strange) * (PROMPT_GENERATE + 1); i++) {
        const char *text = strange[i / (PROMPT_GENERATE + 1)];
        enum prompt_api api = (enum prompt_api)(i % (PROMPT_GENERATE + 1));
        struct said said;
        struct prefix_chain *chain = said_begin(&said);
        struct response_event event = read_event(api, text, chain);
        struct response_event body = read_body(api, text, chain);
        if (!is_nothing(&event) || !is_nothing(&body) || chain->size > 0) {
            test_fail(__FILE__, __LINE__, "api %u understood: %s", (unsigned)api, text);
        }
    }
}

TEST(types_that_do_not_fit_are_passed_over_one_by_one)
{
    static const struct {
        enum prompt_api api;
        const char *body;
    } odd[] = {
        {PROMPT_CHAT, "{\"choices\":[7,null,[],\"x\"]}"},
        {PROMPT_CHAT, "{\"choices\":[{\"index\":0,\"message\":null,\"delta\":7}]}"},
        {PROMPT_CHAT, "{\"choices\":[{\"message\":{\"content\":null,\"tool_calls\":null}}]}"},
        {PROMPT_CHAT, "{\"choices\":[{\"message\":{\"content\":[{\"text\":\"no\"}]}}]}"},
        {PROMPT_CHAT, "{\"choices\":[{\"message\":{\"tool_calls\":[1,{},{\"function\":[]},"
                      "{\"function\":{\"name\":7,\"arguments\":8}}]}}]}"},
        {PROMPT_COMPLETION, "{\"choices\":[{\"text\":null}]}"},
        {PROMPT_COMPLETION, "{\"choices\":[7,{\"text\":\"no\"}]}"},
        {PROMPT_GENERATE, "{\"output_ids\":[7],\"text\":null}"},
        {PROMPT_RESPONSES, "{\"output\":[1,{\"type\":\"message\",\"content\":\"no\"},{\"type\":3},"
                           "{\"content\":[{\"type\":\"output_text\",\"text\":\"no\"}]}]}"},
        {PROMPT_RESPONSES, "{\"output\":[{\"type\":\"message\",\"content\":[null,{},"
                           "{\"type\":\"output_text\"},{\"type\":\"refusal\",\"text\":\"no\"}]}]}"},
        {PROMPT_MESSAGES, "{\"content\":[0,{\"type\":\"text\",\"text\":1},{\"text\":\"no\"},"
                          "{\"type\":\"tool_use\",\"name\":null,\"input\":9}]}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        struct said said;
        struct response_event event = read_body(odd[i].api, odd[i].body, said_begin(&said));
        CHECK(event.has_output);
        CHECK_EQ(said.chain.size, 0);
    }
}

TEST(nesting_without_end_says_nothing)
{
    static char deep[8192];
    struct text text = text_over(deep, sizeof(deep) - 1);
    text_add_str(&text, "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":");
    memset(deep + text.size, '[', sizeof(deep) - 1 - text.size);
    struct said said;
    struct response_event event = read_event(PROMPT_CHAT, deep, said_begin(&said));
    CHECK(is_nothing(&event));
    CHECK_EQ(said.chain.size, 0);
}

// The prompt of a request, and of a chat also what comes before its answer.
static void hash_request(enum prompt_api api, const char *body, bool is_answered, struct said *out)
{
    struct prompt_reader *reader = prompt_reader_create();
    struct prompt prompt;
    ASSERT(reader != NULL);
    prompt_read(reader, api, slice_str(body), &prompt);
    prompt_hash(reader, &prompt, said_begin(out));
    if (is_answered && api != PROMPT_COMPLETION && api != PROMPT_GENERATE) {
        prompt_begin_answer(&out->chain);
    }
    prompt_reader_destroy(&reader);
}

// Whether the next request begins with all of the last one and its answer.
static bool is_continued(enum prompt_api api, const char *next, const struct said *last)
{
    struct said said;
    hash_request(api, next, false, &said);
    return said.chain.key_count == 0 && said.chain.pending > last->chain.pending &&
           memcmp(said.chain.block, last->chain.block, last->chain.pending) == 0;
}

TEST(the_next_request_of_a_chat_begins_with_the_answer)
{
    struct said said;
    hash_request(PROMPT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", true,
                 &said);
    read_stream(PROMPT_CHAT, vllm_chat, ARRAY_COUNT(vllm_chat), &said.chain);
    CHECK(is_continued(PROMPT_CHAT,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                       "{\"content\":\"Gr\xc3\xbc\\u00df Gott\\n\",\"role\":\"assistant\"},"
                       "{\"role\":\"user\",\"content\":\"And?\"}]}",
                       &said));
    CHECK(!is_continued(PROMPT_CHAT,
                        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                        "{\"content\":\"Gr\xc3\xbc\\u00df Gott!\",\"role\":\"assistant\"},"
                        "{\"role\":\"user\",\"content\":\"And?\"}]}",
                        &said));

    hash_request(PROMPT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", true,
                 &said);
    read_event(PROMPT_CHAT,
               DELTA_CALL("{\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\"\"}}"),
               &said.chain);
    read_event(PROMPT_CHAT, DELTA_CALL("{\"function\":{\"arguments\":\":1}\"}}"), &said.chain);
    CHECK(is_continued(PROMPT_CHAT,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                       "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\","
                       "\"type\":\"function\",\"function\":{\"name\":\"f\","
                       "\"arguments\":\"{\\\"a\\\":1}\"}}]},"
                       "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"2\"}]}",
                       &said));
}

TEST(the_next_request_of_the_other_apis_begins_with_the_answer_too)
{
    struct said said;
    hash_request(PROMPT_COMPLETION, "{\"prompt\":\"Once\"}", true, &said);
    read_event(PROMPT_COMPLETION, "{\"choices\":[{\"text\":\" upon\"}]}", &said.chain);
    CHECK(is_continued(PROMPT_COMPLETION, "{\"prompt\":\"Once upon a\"}", &said));

    hash_request(PROMPT_GENERATE, "{\"text\":\"Once\"}", true, &said);
    read_body(PROMPT_GENERATE, "{\"text\":\" upon\"}", &said.chain);
    CHECK(is_continued(PROMPT_GENERATE, "{\"text\":\"Once upon a\"}", &said));

    hash_request(PROMPT_RESPONSES, "{\"input\":\"Hi\"}", true, &said);
    read_stream(PROMPT_RESPONSES, responses, ARRAY_COUNT(responses), &said.chain);
    CHECK(is_continued(
        PROMPT_RESPONSES,
        "{\"input\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"type\":\"message\","
        "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"Hello\"}]},{\"type\":\"function_call\",\"name\":\"get_time\","
        "\"call_id\":\"call_1\",\"arguments\":\"{\\\"a\\\":1}\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"call_1\",\"output\":\"2\"}]}",
        &said));

    hash_request(PROMPT_MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", true,
                 &said);
    read_stream(PROMPT_MESSAGES, messages, ARRAY_COUNT(messages), &said.chain);
    CHECK(
        is_continued(PROMPT_MESSAGES,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
                     "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"Hello\"},"
                     "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"get_time\","
                     "\"input\":{\"a\":1}}]},{\"role\":\"user\",\"content\":[{\"type\":"
                     "\"tool_result\",\"tool_use_id\":\"toolu_1\",\"content\":\"2\"}]}]}",
                     &said));
}
