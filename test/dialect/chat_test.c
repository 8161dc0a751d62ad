// SPDX-License-Identifier: Apache-2.0

#include "dialect/chat.h"

#include "chat_scene.h"
#include "test.h"

static const enum dialect_engine engines[] = {DIALECT_VLLM, DIALECT_SGLANG, DIALECT_PLAIN};

TEST(a_chat_has_the_variables_that_transformers_gives_it)
{
    static const struct tokenizer_config_token tokens[] = {
        {{(const uint8_t *)"bos_token", 9}, {(const uint8_t *)"<s>", 3}},
        {{(const uint8_t *)"eos_token", 9}, {(const uint8_t *)"</s>", 4}},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        struct chat_scene *scene = chat_scene_of(engines[i]);
        scene->rules.tokens = tokens;
        scene->rules.token_count = ARRAY_COUNT(tokens);
        chat_scene_read(scene, "{'model':'m','messages':[{'role':'user','content':'hi'}],"
                               "'stream':true,'max_tokens':5}");
        CHECK_EQ(scene->status, STATUS_OK);
        CHECK_EQ(scene->chat.variables->count, 6);
        CHECK_STR(chat_scene_variable(scene, "messages"), "[{'role':'user','content':'hi'}]");
        CHECK_STR(chat_scene_variable(scene, "tools"), "null");
        CHECK_STR(chat_scene_variable(scene, "documents"), "null");
        CHECK_STR(chat_scene_variable(scene, "add_generation_prompt"), "true");
        CHECK_STR(chat_scene_variable(scene, "bos_token"), "'<s>'");
        CHECK_STR(chat_scene_variable(scene, "eos_token"), "'</s>'");
        CHECK(!scene->chat.has_tools);
    }
}

TEST(kwargs_stand_above_special_tokens)
{
    static const struct tokenizer_config_token token = {{(const uint8_t *)"bos_token", 9},
                                                        {(const uint8_t *)"<s>", 3}};
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        struct chat_scene *scene = chat_scene_of(engines[i]);
        scene->rules.tokens = &token;
        scene->rules.token_count = 1;
        CHECK_STR(chat_scene_with(scene, "'chat_template_kwargs':{'bos_token':'x'}", "bos_token"),
                  "'x'");
    }
}

TEST(plain_messages_and_tools_are_as_they_are)
{
    struct chat_scene *scene = chat_scene_of(DIALECT_PLAIN);
    static const char messages[] =
        "[{'content':[{'type':'text','text':'a','x':1}],'role':'user','y':[null]},{'role':'"
        "assistant',"
        "'tool_calls':[{'function':{'name':'f','arguments':'{}'}}],'content':null}]";
    CHECK_STR(chat_scene_messages(scene, messages), messages);
    static const char members[] = "'tools':[{'name':'f'}],'documents':[{'a':1}],"
                                  "'add_generation_prompt':false,'chat_template_kwargs':{'x':null}";
    CHECK_STR(chat_scene_with(scene, members, "tools"), "[{'name':'f'}]");
    CHECK(scene->chat.has_tools);
    CHECK_STR(chat_scene_with(scene, members, "documents"), "[{'a':1}]");
    CHECK_STR(chat_scene_with(scene, members, "add_generation_prompt"), "false");
    CHECK_STR(chat_scene_with(scene, members, "x"), "null");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'low'", "x"),
              "reasoning_effort, which is an engine's");
}

TEST(of_members_that_come_twice_the_last_counts)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        struct chat_scene *scene = chat_scene_of(engines[i]);
        chat_scene_read(
            scene, "{'messages':[{'role':'system','content':' s '},{'role':'developer','content':"
                   "'d'},{'role':'assistant'}],'continue_final_message':true,"
                   "'add_generation_prompt':false,'mess\\u0061ges':[{'content':'no','role':"
                   "'tool','role':'user','cont\\u0065nt':'hi'}],'continue_final_message':false,"
                   "'add_generation_prompt':true}");
        CHECK_STR(chat_scene_variable(scene, "add_generation_prompt"), "true");
        CHECK_STR(chat_scene_shape(scene), "");
        CHECK_STR(chat_scene_variable(scene, "messages"),
                  engines[i] == DIALECT_PLAIN // a member keeps the place where it came first
                      ? "[{'content':'hi','role':'user'}]"
                      : "[{'role':'user','content':'hi'}]");
    }
}

TEST(members_that_change_the_prompt_in_other_ways_are_refused_by_name)
{
    static const struct {
        const char *members;
        const char *why;
    } cases[] = {
        {"'continue_final_message':true", "continue_final_message"},
        {"'continue_final_message':1", "continue_final_message"},
        {"'add_special_tokens':true", "add_special_tokens"},
        {"'chat_template':'{{ 1 }}'", "chat_template"},
        {"'input_ids':[1,2]", "input_ids"},
        {"'prompt_token_ids':[1,2]", "prompt_token_ids"},
        {"'truncate_prompt_tokens':7", "truncate_prompt_tokens"},
        {"'session_params':{'id':'x'}", "session_params"},
        {"'kv_transfer_params':{'prompt_token_ids':[1]}", "prompt_token_ids of kv_transfer_params"},
        {"'add_generation_prompt':1", "add_generation_prompt that is neither true nor false"},
        {"'tools':'f'", "tools that are not a list"},
        {"'chat_template_kwargs':[]", "kwargs that are not an object"},
        {"'chat_template_kwargs':{'messages':[]}", "messages among the kwargs"},
        {"'chat_template_kwargs':{'tokenize':true}", "tokenize among the kwargs"},
        {"'chat_template_kwargs':{'raise_exception':1}", "raise_exception among the kwargs"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(chat_scene_refusals("{'messages':[{'role':'user','content':'hi'}],",
                                     cases[i].members, "}", cases[i].why),
                 chat_engine_count);
    }
}

TEST(null_and_false_members_change_nothing)
{
    static const char members[] =
        "'continue_final_message':false,'add_special_tokens':false,'chat_template':null,'input_ids'"
        ":"
        "null,'prompt_token_ids':null,'truncate_prompt_tokens':null,'session_params':null,"
        "'kv_transfer_params':{'prompt_token_ids':null,'do_remote_decode':true},'tools':null,"
        "'documents':null,'chat_template_kwargs':null,'reasoning_effort':null,'tool_choice':null,"
        "'add_generation_prompt':null";
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        struct chat_scene *scene = chat_scene_of(engines[i]);
        CHECK_STR(chat_scene_with(scene, members, "tools"), "null");
        CHECK_STR(chat_scene_shape(scene), "");
    }
}

TEST(bodies_that_are_not_chats_are_refused)
{
    static const struct {
        const char *body;
        const char *why;
    } cases[] = {
        {"", "a body that is not JSON, or nested too deep"},
        {"{'messages':[{'role':'user','content':'x'}]",
         "a body that is not JSON, or nested too deep"},
        {"{'messages':[{'content':'x'}],}", "a body that is not JSON, or nested too deep"},
        {"{'messages':[{'role':'user','content':'\xff'}]}",
         "a body that is not JSON, or nested too deep"},
        {"[]", "a body that is not an object"},
        {"{}", "no messages"},
        {"{'prompt':'x'}", "no messages"},
        {"{'messages':[]}", "no messages"},
        {"{'messages':'x'}", "messages that are not a list"},
        {"{'messages':['x']}", "a message that is not an object"},
        {"{'messages':[{'content':'x'}]}", "a message without a role"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(chat_scene_refusals(cases[i].body, "", "", cases[i].why), chat_engine_count);
    }
}

TEST(kwargs_have_a_limit)
{
    char members[2048];
    struct text text = text_over(members, sizeof(members) - 1);

    text_add_str(&text, "'chat_template_kwargs':{'x':1");
    for (unsigned i = 0; i < 64; i++) {
        text_add_format(&text, ",'x%u':1", i);
    }
    text_add_str(&text, "}");
    ASSERT(!text.overflow);
    members[text.size] = '\0';
    CHECK_STR(chat_scene_with(chat_scene_of(DIALECT_SGLANG), members, "x"), "more kwargs than 64");
}

TEST(texts_without_escapes_are_not_copied)
{
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"somewhere\"}]}";
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        struct chat_scene *scene = chat_scene_of(engines[i]);
        chat_scene_read_slice(scene, slice_str(body));
        CHECK_EQ(scene->status, STATUS_OK);
        const struct value *messages = value_dict_get(scene->chat.variables, slice_str("messages"));
        const struct value *content =
            value_dict_get(messages->list->items[0].dict, slice_str("content"));
        CHECK(content->string.bytes == (const uint8_t *)strstr(body, "somewhere"));
    }
}

static enum status status_in_arena(enum dialect_engine engine, const char *body, size_t size)
{
    static _Alignas(16) uint8_t memory[1 << 14];
    ASSERT(size <= sizeof(memory));
    struct arena arena = arena_over(memory, size);
    struct value_room room = {.arena = &arena, .steps_left = 1 << 20};
    struct chat_rules rules = {.engine = engine};
    struct chat chat;
    return chat_read(&rules, slice_str(body), &room, &chat);
}

// A body with everything in it, in any arena that is too small, is refused as too large.
TEST(an_arena_that_is_full_is_an_event)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\\n\"},{\"role\":\"system\","
        "\"content\":"
        "\"s\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
        "\"text\","
        "\"text\":\"b\"}]},{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\",\"type\":"
        "\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},{\"role\":\"tool\","
        "\"tool_call_id\":\"c\",\"content\":\"r\"}],\"tools\":[{\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}],\"chat_template_kwargs\":{\"x\":1}"
        ","
        "\"documents\":[{\"a\":\"b\"}]}";
    for (uint32_t i = 0; i < ARRAY_COUNT(engines); i++) {
        size_t size = 0;
        while (status_in_arena(engines[i], body, size) == STATUS_TOO_LARGE) {
            size += 48;
        }
        CHECK(size > 1000);
        CHECK_EQ(status_in_arena(engines[i], body, size), STATUS_OK);
    }
}
