// SPDX-License-Identifier: Apache-2.0

#include "chat_scene.h"
#include "dialect/chat_internal.h"
#include "test.h"

static struct chat_scene *strings(void)
{
    return chat_scene_of(DIALECT_SGLANG);
}

static struct chat_scene *lists(void)
{
    struct chat_scene *scene = chat_scene_of(DIALECT_SGLANG);
    scene->rules.content_is_list = true;
    return scene;
}

static bool reads_nothing([[maybe_unused]] const void *owner,
                          [[maybe_unused]] struct slice variable)
{
    return false;
}

// Follows the tested message: an assistant message at the end would become one of the user.
#define USER ",{'role':'user','content':'u'}]"

TEST(texts_stay_texts)
{
    static const char messages[] = "[{'role':'user','content':'hi'}]";
    CHECK_STR(chat_scene_messages(strings(), messages), messages);
    CHECK_STR(chat_scene_messages(lists(), messages), messages);
}

TEST(parts_are_joined_with_blanks_or_stay_a_list)
{
    static const char messages[] =
        "[{'role':'user','content':[{'type':'text','text':'a','x':1},{'type':'text','text':''},"
        "{'text':'b','type':'text'}]}]";
    CHECK_STR(chat_scene_messages(strings(), messages), "[{'role':'user','content':'a  b'}]");
    CHECK_STR(chat_scene_messages(lists(), messages),
              "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':''},"
              "{'type':'text','text':'b'}]}]");
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'user','content':[]}]"),
              "[{'role':'user','content':''}]");
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'user','content':[]}]"),
              "[{'role':'user','content':[]}]");
}

TEST(no_content_is_an_empty_text)
{
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'system','content':null}]"),
              "[{'role':'system','content':''}]");
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'system'}]"),
              "[{'role':'system','content':''}]");
}

TEST(results_of_tools_are_texts_even_where_contents_are_lists)
{
    static const char messages[] =
        "[{'role':'tool','name':'f','content':[{'type':'text','text':'a'},"
        "{'type':'text','text':'b'}],'tool_call_id':'c'}]";
    CHECK_STR(chat_scene_messages(strings(), messages),
              "[{'role':'tool','content':'a b','tool_call_id':'c','name':'f'}]");
    // A content that was a list comes last.
    CHECK_STR(chat_scene_messages(lists(), messages),
              "[{'role':'tool','tool_call_id':'c','name':'f','content':'a b'}]");
}

TEST(members_have_the_order_of_the_model)
{
    CHECK_STR(
        chat_scene_messages(strings(),
                            "[{'reasoning_content':'r','name':'n','content':'x','refusal':null,"
                            "'tool_call_id':'c','role':'assistant','task':'t'}" USER),
        "[{'role':'assistant','content':'x','tool_call_id':'c','name':'n','reasoning_content':"
        "'r'}" USER);
    CHECK_STR(chat_scene_messages(lists(), "[{'name':'n','content':[{'type':'text','text':'x'}],"
                                           "'role':'assistant'}" USER),
              "[{'role':'assistant','name':'n','content':[{'type':'text','text':'x'}]}" USER);
}

TEST(an_assistant_at_the_end_becomes_a_user)
{
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'user','content':'a'},{'role':'assistant',"
                                             "'content':'b','name':'n','reasoning_content':'r'}]"),
              "[{'role':'user','content':'a'},{'role':'user','content':'b'}]");
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant'}]"),
              "[{'role':'user','content':''}]");
    static const char parts[] = "[{'role':'assistant','content':[{'type':'text','text':'x'}]}]";
    CHECK_STR(chat_scene_messages(lists(), parts), parts);
    CHECK_STR(chat_scene_messages(strings(), parts), "[{'role':'user','content':'x'}]");
}

TEST(reasoning_counts_under_one_of_its_names)
{
    static const char expected[] =
        "[{'role':'assistant','content':'x','reasoning_content':'r'}" USER;
    CHECK_STR(chat_scene_messages(strings(), expected), expected);
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant','content':'x','reasoning':'r',"
                                             "'reasoning_content':'r'}" USER),
              expected);
}

TEST(a_user_has_no_name)
{
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'user','content':'x','name':'n'}]"),
              "[{'role':'user','content':'x'}]");
}

TEST(a_developer_is_one)
{
    static const char messages[] = "[{'role':'system','content':'s'},{'role':'developer','content':"
                                   "'d'},{'role':'user','content':'u'}]";
    CHECK_STR(chat_scene_messages(strings(), messages), messages);
}

TEST(calls_have_all_members_of_their_model)
{
    CHECK_STR(chat_scene_messages(
                  strings(),
                  "[{'role':'assistant','content':'','tool_calls':[{'function':{'arguments':"
                  "'{\\u0022b\\u0022:1,\\u0022a\\u0022:2}','name':'f','x':1},'id':'c1'},{'id':'c2',"
                  "'index':1,'type':'function','function':{'name':'g','arguments':{}}},{'function':"
                  "{}}]}" USER),
              "[{'role':'assistant','content':'','tool_calls':[{'id':'c1','index':null,'type':"
              "'function','function':{'name':'f','arguments':{'b':1,'a':2}}},{'id':'c2','index':1,"
              "'type':'function','function':{'name':'g','arguments':{}}},{'id':null,'index':null,"
              "'type':'function','function':{'name':null,'arguments':null}}]}" USER);
}

TEST(a_list_of_no_calls_stays)
{
    static const char messages[] = "[{'role':'assistant','content':'x','tool_calls':[]}" USER;
    CHECK_STR(chat_scene_messages(strings(), messages), messages);
}

TEST(members_of_a_message_that_releases_treat_differently_are_refused)
{
    static const struct {
        const char *messages;
        const char *why;
    } cases[] = {
        {"[{'role':'critic','content':'x'}]", "a role that is not known"},
        {"[{'role':'User','content':'x'}]", "a role that is not known"},
        {"[{'role':'assistant','content':'x','reasoning':'r'}]",
         "tools, phase, prefix or reasoning of a message"},
        {"[{'role':'assistant','content':'x','reasoning':'r','reasoning_content':'s'}]",
         "tools, phase, prefix or reasoning of a message"},
        {"[{'role':'assistant','content':'x','prefix':true}]",
         "tools, phase, prefix or reasoning of a message"},
        {"[{'role':'assistant','content':'x','phase':'commentary'}]",
         "tools, phase, prefix or reasoning of a message"},
        {"[{'role':'developer','content':'x','tools':[]}]",
         "tools, phase, prefix or reasoning of a message"},
        {"[{'role':'tool','content':'x','tool_calls':[]}]",
         "tool_calls of a message that is not the assistant's"},
        {"[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':'[1]'}}]}]",
         "arguments of a call that are not an object"},
        {"[{'role':'assistant','tool_calls':[{'function':{'name':'f','arguments':''}}]}]",
         "the text is not JSON"},
        {"[{'role':'assistant','tool_calls':[{'id':1,'function':{'name':'f'}}]}]",
         "a id of another kind"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_STR(chat_scene_messages(strings(), cases[i].messages), cases[i].why);
    }
}

static const char two_tools[] =
    "'tools':[{'function':{'parameters':{'type':'object','properties':{'type':{'type':['string',"
    "'null']}}},'name':'f','x':1,'strict':true,'description':'d'}},{'type':'function','function':"
    "{'name':'g'},'y':1}]";

TEST(tools_keep_the_order_of_the_client_and_missing_members_follow)
{
    CHECK_STR(chat_scene_with(strings(), two_tools, "tools"),
              "[{'type':'function','function':{'parameters':{'type':'object','properties':{'type':"
              "{'type':['string','null']}}},'name':'f','strict':true,'description':'d'},"
              "'defer_loading':null},{'type':'function','function':{'name':'g','description':null,"
              "'parameters':null},'defer_loading':null}]");
}

TEST(types_that_schemas_do_not_have_are_refused)
{
    static const char why[] = "a tool with types that schemas do not have";
    CHECK_STR(chat_scene_with(strings(),
                              "'tools':[{'function':{'name':'f','parameters':{'type':'object',"
                              "'properties':{'a':{'anyOf':[{'type':'int'}]}}}}}]",
                              "tools"),
              why);
    CHECK_STR(chat_scene_with(
                  strings(),
                  "'tools':[{'function':{'name':'f','parameters':{'type':['STRING','null']}}}]",
                  "tools"),
              why);
}

TEST(tools_that_may_not_be_chosen_are_left_out)
{
    struct chat_scene *scene = strings();
    CHECK_STR(
        chat_scene_with(scene, "'tools':[{'function':{'name':'f'}}],'tool_choice':'none'", "tools"),
        "null");
    CHECK(!scene->chat.has_tools);
    CHECK_STR(chat_scene_with(scene, "'tools':[]", "tools"), "null");
    CHECK(!scene->chat.has_tools);
}

TEST(of_a_named_choice_only_that_tool_is_left)
{
    static const char tools[] = "'tools':[{'function':{'name':'f'}},{'function':{'name':'g'}}],"
                                "'tool_choice':";
    char members[256];
    struct chat_scene *scene = strings();

    snprintf(members, sizeof(members), "%s{'type':'function','function':{'name':'g'}}", tools);
    CHECK_STR(chat_scene_with(scene, members, "tools"),
              "[{'type':'function','function':{'name':'g','description':null,'parameters':null},"
              "'defer_loading':null}]");
    CHECK(scene->chat.has_tools);
    snprintf(members, sizeof(members), "%s{'type':'function','function':{'name':'h'}}", tools);
    CHECK_STR(chat_scene_with(scene, members, "tools"),
              "a tool_choice that names none of the tools");
    snprintf(members, sizeof(members), "%s{'type':'function'}", tools);
    CHECK_STR(chat_scene_with(scene, members, "tools"),
              "a tool_choice without the name of a function");
}

TEST(kwargs_are_handed_on_as_they_are)
{
    struct chat_scene *scene = strings();
    scene->rules.reads = reads_nothing;
    scene->rules.kwargs = slice_str("{\"a\":1,\"b\":1}");
    static const char members[] = "'chat_template_kwargs':{'b':null,'c':'auto'}";
    CHECK_STR(chat_scene_with(scene, members, "a"), "1");
    CHECK_STR(chat_scene_with(scene, members, "b"), "null");
    CHECK_STR(chat_scene_with(scene, members, "c"), "'auto'");
    CHECK_STR(chat_scene_shape(scene), "kwargs");
}

TEST(no_effort_means_no_thinking)
{
    struct chat_scene *scene = strings();
    static const char members[] =
        "'reasoning_effort':'none','chat_template_kwargs':{'thinking':true}";
    CHECK_STR(chat_scene_with(scene, members, "enable_thinking"), "false");
    CHECK_STR(chat_scene_with(scene, members, "thinking"), "true");
    CHECK_STR(chat_scene_with(scene, members, "reasoning_effort"), "'none'");
    CHECK_STR(chat_scene_shape(scene), "kwargs effort");
}

TEST(another_effort_means_thinking)
{
    struct chat_scene *scene = strings();
    scene->rules.kwargs = slice_str("{\"thinking\":false}");
    static const char members[] =
        "'reasoning_effort':'low','chat_template_kwargs':{'enable_thinking':false}";
    CHECK_STR(chat_scene_with(scene, members, "enable_thinking"), "false");
    CHECK_STR(chat_scene_with(scene, members, "thinking"), "true");
    CHECK_STR(chat_scene_with(scene, members, "reasoning_effort"), "'low'");
    scene->rules.kwargs = slice_str("{\"reasoning_effort\":\"low\"}");
    CHECK_STR(chat_scene_with(scene, "'stream':true", "thinking"),
              "reasoning_effort among the defaults");
}

TEST(an_effort_among_the_kwargs_is_the_effort)
{
    struct chat_scene *scene = strings();
    scene->rules.reads = reads_nothing;
    static const char both[] =
        "'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':'high'}";
    static const char null[] =
        "'reasoning_effort':'low','chat_template_kwargs':{'reasoning_effort':null}";
    CHECK_STR(chat_scene_with(scene, both, "reasoning_effort"), "'high'");
    CHECK_STR(chat_scene_with(scene, null, "reasoning_effort"), "'low'");
}

TEST(reasoning_of_the_request_is_refused)
{
    CHECK_STR(chat_scene_with(strings(), "'reasoning':{'effort':'low'}", "messages"),
              "reasoning of the request");
    CHECK_STR(chat_scene_with(strings(), "'reasoning':null", "messages"),
              "[{'role':'user','content':'hi'}]");
}

TEST(documents_of_the_body_are_ignored)
{
    struct chat_scene *scene = strings();
    CHECK_STR(chat_scene_with(scene, "'documents':[{'text':'x'}]", "documents"), "null");
    CHECK_STR(chat_scene_shape(scene), "");
    CHECK_STR(chat_scene_with(scene, "'chat_template_kwargs':{'documents':[1]}", "documents"),
              "[1]");
}

TEST(a_chat_without_a_generation_prompt_is_refused)
{
    struct chat_scene *scene = strings();
    CHECK_STR(chat_scene_with(scene, "'add_generation_prompt':true", "add_generation_prompt"),
              "true");
    CHECK_STR(chat_scene_with(scene, "'add_generation_prompt':false", "add_generation_prompt"),
              "add_generation_prompt, which not all of its endpoints obey");
}
