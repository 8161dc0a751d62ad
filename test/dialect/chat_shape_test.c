// SPDX-License-Identifier: Apache-2.0

#include "chat_scene.h"
#include "test.h"

static const char *shape_of(const char *messages)
{
    struct chat_scene *scene = chat_scene_of(DIALECT_VLLM);
    scene->rules.knows_developer = true;
    chat_scene_messages(scene, messages);
    return chat_scene_shape(scene);
}

static const char *shape_with(const char *members)
{
    struct chat_scene *scene = chat_scene_of(DIALECT_VLLM);
    chat_scene_with(scene, members, "messages");
    return chat_scene_shape(scene);
}

#define USER "{'role':'user','content':'u'}"
#define ASSISTANT "{'role':'assistant','content':'a'}"
#define CALL                                                                                       \
    "{'role':'assistant','content':null,'tool_calls':[{'id':'c','type':'function','function':"     \
    "{'name':'f','arguments':'{}'}}]}"
#define RESULT "{'role':'tool','tool_call_id':'c','content':'r'}"

TEST(each_feature_of_messages_is_a_bit)
{
    static const struct {
        const char *messages;
        const char *shape;
    } cases[] = {
        {"[" USER "]", ""},
        {"[{'role':'system','content':'s'}," USER "]", "system"},
        {"[{'role':'developer','content':'s'}," USER "]", "developer"},
        {"[" USER "," ASSISTANT "," USER "]", "turns"},
        {"[{'role':'user','content':''}]", "empty"},
        {"[{'role':'user'}]", "empty"},
        {"[{'role':'user','content':[]}]", "empty parts"},
        {"[{'role':'user','content':[{'type':'text','text':'x'}]}]", "parts"},
        {"[{'role':'user','content':[{'type':'text','text':'x'},{'type':'text','text':''}]}]",
         "empty parts"},
        {"[" USER "," CALL "," RESULT "]", "turns tool_calls tool_results"},
        {"[" USER "," CALL "," RESULT "," RESULT "," ASSISTANT "," USER "]",
         "turns tool_calls tool_results"},
        {"[" USER ",{'role':'assistant','content':'a','reasoning':'r'}," USER "]",
         "turns reasoning"},
        {"[" USER ",{'role':'assistant','content':'a','reasoning_content':'r'}," USER "]",
         "turns reasoning"},
        {"[{'role':'user','content':'u','name':'n'}]", "names"},
        {"[{'role':'user','content':'u ','name':null}]", "space"},
        {"[{'role':'user','content':'\\nu'}]", "space"},
        {"[{'role':'user','content':'\\u3000u'}]", "space"},
        {"[{'role':'user','content':'u\\u00a0'}]", "space"},
        {"[{'role':'user','content':'u\\u200b'}]", ""},
        {"[{'role':'user','content':'a<|im_end|>b'}]", "special"},
        {"[{'role':'user','content':[{'type':'text','text':'</s>'}]}]", "parts special"},
        {"[{'role':'user','content':'a < b > c <> << >> <'}]", ""},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_STR(shape_of(cases[i].messages), cases[i].shape);
    }
}

TEST(roles_that_do_not_alternate_are_irregular)
{
    static const char *const regular[] = {
        "[" USER "]",
        "[" USER "," ASSISTANT "," USER "," ASSISTANT "," USER "]",
        "[" USER "," CALL "," RESULT "," CALL "," RESULT "," RESULT "]",
    };
    static const char *const irregular[] = {
        "[" ASSISTANT "]",
        "[" ASSISTANT "," USER "]",
        "[" USER "," ASSISTANT "]",
        "[" USER "," USER "]",
        "[" USER "," ASSISTANT "," ASSISTANT "," USER "]",
        "[" RESULT "]",
        "[" USER "," RESULT "]",
        "[" USER "," ASSISTANT "," RESULT "]",
        "[" USER "," CALL "," USER "]",
        "[" USER "," CALL "," RESULT "," USER "]",
        "[{'role':'system','content':'s'}]",
        "[{'role':'system','content':'s'},{'role':'system','content':'s'}," USER "]",
        "[{'role':'system','content':'s'},{'role':'developer','content':'s'}," USER "]",
        "[" USER ",{'role':'system','content':'s'}]",
        "[{'role':'critic','content':'c'}]",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(regular); i++) {
        CHECK(strstr(shape_of(regular[i]), "irregular") == NULL);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(irregular); i++) {
        CHECK(strstr(shape_of(irregular[i]), "irregular") != NULL);
    }
}

TEST(each_feature_of_a_body_is_a_bit)
{
    CHECK_STR(shape_with("'tools':[{'type':'function','function':{'name':'f','description':'d',"
                         "'parameters':{'x':1}}}]"),
              "tools");
    CHECK_STR(shape_with("'tools':[{'type':'function','function':{'name':'f','strict':true}}]"),
              "tools tool_extras");
    CHECK_STR(shape_with("'tools':[{'x':1,'function':{'name':'f'}}]"), "tools tool_extras");
    CHECK_STR(shape_with("'chat_template_kwargs':{'a':1}"), "kwargs");
    CHECK_STR(shape_with("'chat_template_kwargs':{}"), "");
    CHECK_STR(shape_with("'reasoning_effort':'low'"), "effort");
    CHECK_STR(shape_with("'documents':[]"), "documents");
    CHECK_STR(shape_with("'add_generation_prompt':false"), "no_generation");
}

static const char *shape_of_text(const char *content)
{
    char messages[256];
    snprintf(messages, sizeof(messages), "[{'role':'user','content':'%s'}]", content);
    return shape_of(messages);
}

TEST(a_tag_is_short_and_without_blanks)
{
    char text[128] = {0};
    memset(text, 'x', sizeof(text) - 1);
    text[0] = '<';
    text[64] = '>';
    CHECK_STR(shape_of_text(text), "special");
    text[64] = 'x';
    text[66] = '>';
    CHECK_STR(shape_of_text(text), "");
    CHECK_STR(shape_of_text("<"), "");
    CHECK_STR(shape_of_text("<a"), "");
    CHECK_STR(shape_of_text("<a b>"), "");
    CHECK_STR(shape_of_text("<<a>"), "special");
    CHECK_STR(shape_of_text(""), "empty");
}

static bool is_named_before(uint32_t bit)
{
    const char *text = chat_shape_text((enum chat_shape_bit)bit);
    uint32_t i = 0;
    while (i < bit && strcmp(chat_shape_text((enum chat_shape_bit)i), text) != 0) {
        i++;
    }
    return i < bit;
}

TEST(every_bit_has_a_name_of_its_own)
{
    for (uint32_t i = 0; i < chat_shape_count; i++) {
        CHECK(!is_named_before(i));
    }
}
