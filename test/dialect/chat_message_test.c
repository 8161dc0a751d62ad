// SPDX-License-Identifier: Apache-2.0

#include "chat_scene.h"
#include "dialect/chat_internal.h"
#include "test.h"

TEST(escapes_are_decoded)
{
    CHECK_STR(chat_scene_messages(
                  chat_scene_of(DIALECT_VLLM),
                  "[{'r\\u006fle':'us\\u0065r','content':'\\u00e9\\ud83d\\ude00\\n\\/'}]"),
              "[{'role':'user','content':'\xc3\xa9\xf0\x9f\x98\x80\\n/'}]");
    CHECK_STR(chat_scene_messages(chat_scene_of(DIALECT_SGLANG),
                                  "[{'role':'user','content':[{'t\\u0079pe':'te\\u0078t','text':"
                                  "'\\u0041'}]}]"),
              "[{'role':'user','content':'A'}]");
}

TEST(members_of_the_wrong_kind_are_refused_by_name)
{
    static const struct {
        const char *message;
        const char *why;
    } cases[] = {
        {"{'role':1,'content':'x'}", "a role of a message that is not a text"},
        {"{'role':null,'content':'x'}", "a message without a role"},
        {"{'role':'user','content':7}", "a content of a message that is not a text"},
        {"{'role':'user','content':{'type':'text','text':'x'}}",
         "a content of a message that is not a text"},
        {"{'role':'user','content':['x']}", "a part of a content that is not an object"},
        {"{'role':'user','content':[{'text':'x'}]}", "a part of a content without a type"},
        {"{'role':'user','content':[{'type':'text'}]}", "a part of type text without a text"},
        {"{'role':'user','content':[{'type':'text','text':null}]}",
         "a part of type text without a text"},
        {"{'role':'user','content':[{'type':'image_url','image_url':{'url':'data:'}}]}",
         "a part of type image_url"},
        {"{'role':'user','content':[{'type':'input_audio','input_audio':{}}]}",
         "a part of type input_audio"},
        {"{'role':'user','content':[{'type':'video_url'}]}", "a part of type video_url"},
        {"{'role':'assistant','content':[{'type':'refusal','refusal':'no'}]}",
         "a part of type refusal"},
        {"{'role':'user','content':'x','name':['n']}", "a name of a message that is not a text"},
        {"{'role':'assistant','reasoning':{}}", "a reasoning of a message that is not a text"},
        {"{'role':'assistant','tool_calls':{}}", "tool_calls of a message that are not a list"},
        {"{'role':'user','content':'\\ud83d'}", "half a surrogate pair"},
        {"{'role':'user','content':'\\ude00\\ud83d'}", "half a surrogate pair"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(chat_scene_refusals("{'messages':[", cases[i].message, "]}", cases[i].why),
                 chat_engine_count);
    }
}

TEST(many_messages_and_parts_keep_their_order)
{
    enum { count = 40 };
    static char messages[1 << 14];
    struct text text = text_over(messages, sizeof(messages) - 1);

    for (unsigned i = 0; i < count; i++) {
        text_add_format(&text, "%s{'role':'user','content':[", i == 0 ? "[" : ",");
        for (unsigned j = 0; j <= i % 20; j++) {
            text_add_format(&text, "%s{'type':'text','text':'%u'}", j == 0 ? "" : ",", j);
        }
        text_add_str(&text, "]}");
    }
    text_add_str(&text, "]");
    ASSERT(!text.overflow);
    messages[text.size] = '\0';
    struct chat_scene *scene = chat_scene_of(DIALECT_PLAIN);
    CHECK_STR(chat_scene_messages(scene, messages), messages);
    scene->rules = (struct chat_rules){.engine = DIALECT_SGLANG, .content_is_list = true};
    CHECK_STR(chat_scene_messages(scene, messages), messages);
}

TEST(joining_takes_a_separator_between_texts_alone)
{
    static const struct value texts[] = {
        {.kind = VALUE_STRING, .string = {(const uint8_t *)"", 0}},
        {.kind = VALUE_STRING, .string = {(const uint8_t *)"a", 1}},
        {.kind = VALUE_STRING, .string = {(const uint8_t *)"", 0}},
        {.kind = VALUE_STRING, .string = {(const uint8_t *)"b", 1}},
    };
    static _Alignas(16) uint8_t memory[1024];
    struct arena arena = arena_over(memory, sizeof(memory));
    struct value_room room = {.arena = &arena};
    struct chat_walk walk = {.room = &room};
    struct value_list *list = value_list_new(&room, ARRAY_COUNT(texts));
    struct value out;

    memcpy(list->items, texts, sizeof(texts));
    CHECK(chat_join(&walk, list, ", ", false, &out) && slice_is(out.string, ", a, , b"));
    CHECK(chat_join(&walk, list, ", ", true, &out) && slice_is(out.string, "a, b"));
    list->count = 2;
    CHECK(chat_join(&walk, list, ", ", true, &out) && slice_is(out.string, "a"));
    list->count = 0;
    CHECK(chat_join(&walk, list, ", ", false, &out) && slice_is(out.string, ""));
}
