// SPDX-License-Identifier: Apache-2.0

#include "chat_scene.h"
#include "dialect/chat_internal.h"
#include "test.h"

static struct chat_scene *strings(void)
{
    return chat_scene_of(DIALECT_VLLM);
}

static struct chat_scene *lists(void)
{
    struct chat_scene *scene = chat_scene_of(DIALECT_VLLM);
    scene->rules.content_is_list = true;
    return scene;
}

// A template that reads the variables named here, with a blank behind each.
static bool reads(const void *owner, struct slice variable)
{
    struct slice names = slice_str(owner);
    return memmem(names.bytes, names.size, variable.bytes, variable.size) != NULL;
}

static struct chat_scene *reading(const char *variables)
{
    struct chat_scene *scene = strings();
    scene->rules.reads = reads;
    scene->rules.owner = variables;
    return scene;
}

TEST(texts_stay_texts_or_become_lists_of_one_part)
{
    static const char messages[] = "[{'content':'hi','role':'user'}]";
    CHECK_STR(chat_scene_messages(strings(), messages), "[{'role':'user','content':'hi'}]");
    CHECK_STR(chat_scene_messages(lists(), messages),
              "[{'role':'user','content':[{'type':'text','text':'hi'}]}]");
}

TEST(parts_are_joined_with_line_ends_without_the_empty_ones)
{
    static const char messages[] =
        "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':''},"
        "{'text':'b','type':'text'}]}]";
    CHECK_STR(chat_scene_messages(strings(), messages), "[{'role':'user','content':'a\\nb'}]");
    CHECK_STR(chat_scene_messages(lists(), messages),
              "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':''},"
              "{'type':'text','text':'b'}]}]");
}

TEST(more_members_of_a_part_are_refused_in_a_list)
{
    static const char messages[] = "[{'role':'user','content':[{'type':'text','text':'a',"
                                   "'cache_control':{'type':'ephemeral'}}]},{'role':'user',"
                                   "'content':[{'type':'text','text':'b'}]}]";
    CHECK_STR(chat_scene_messages(strings(), messages),
              "[{'role':'user','content':'a'},{'role':'user','content':'b'}]");
    CHECK_STR(chat_scene_messages(lists(), messages), "a part with more than a type and a text");
    CHECK_STR(chat_scene_messages(lists(),
                                  "[{'role':'tool','content':[{'type':'text','text':'a','x':1}]}]"),
              "[{'role':'tool','content':'a'}]");
}

TEST(no_content_is_an_empty_text_or_list)
{
    static const char *const messages[] = {
        "[{'role':'assistant','content':null}]",
        "[{'role':'assistant'}]",
        "[{'role':'assistant','content':[]}]",
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(messages); i++) {
        CHECK_STR(chat_scene_messages(strings(), messages[i]),
                  "[{'role':'assistant','content':''}]");
        CHECK_STR(chat_scene_messages(lists(), messages[i]), "[{'role':'assistant','content':[]}]");
    }
}

TEST(an_empty_text_is_a_part_of_a_list)
{
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'user','content':''}]"),
              "[{'role':'user','content':[{'type':'text','text':''}]}]");
}

TEST(results_of_tools_are_texts_even_where_contents_are_lists)
{
    static const char parts[] =
        "[{'role':'tool','tool_call_id':'c','content':[{'type':'text','text':"
        "'a'},{'type':'text','text':''},{'type':'text','text':'b'}]}]";
    CHECK_STR(chat_scene_messages(strings(), parts),
              "[{'role':'tool','content':'a\\nb','tool_call_id':'c'}]");
    // Empty texts are dropped, empty parts are not.
    CHECK_STR(chat_scene_messages(lists(), parts),
              "[{'role':'tool','content':'a\\n\\nb','tool_call_id':'c'}]");
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'tool','content':'x'}]"),
              "[{'role':'tool','content':'x'}]");
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'tool','content':[]}]"),
              "[{'role':'tool','content':''}]");
}

TEST(members_that_are_not_known_are_dropped_and_the_others_have_their_order)
{
    CHECK_STR(
        chat_scene_messages(
            strings(),
            "[{'task':'t','name':'n','reasoning':'r','refusal':null,'audio':{'x':1},"
            "'tool_call_id':'c','content':'x','role':'assistant','prefix':true,'phase':'p'}]"),
        "[{'role':'assistant','content':'x','reasoning':'r','reasoning_content':'r','name':'n',"
        "'task':'t'}]");
    CHECK_STR(chat_scene_messages(strings(),
                                  "[{'role':'user','content':'x','name':null,'tool_calls':"
                                  "[],'reasoning':'r','tool_call_id':'c'}]"),
              "[{'role':'user','content':'x'}]");
}

TEST(reasoning_has_two_names)
{
    static const char both[] = "[{'role':'assistant','content':'x','reasoning':'r',"
                               "'reasoning_content':'r'}]";
    CHECK_STR(
        chat_scene_messages(strings(), "[{'role':'assistant','content':'x','reasoning':'r'}]"),
        both);
    CHECK_STR(chat_scene_messages(strings(),
                                  "[{'role':'assistant','content':'x','reasoning_content':'r'}]"),
              both);
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant','content':'x','reasoning':'r',"
                                             "'reasoning_content':'other'}]"),
              both);
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant','content':'x','reasoning':null,"
                                             "'reasoning_content':'r'}]"),
              both);
}

TEST(arguments_of_calls_become_objects)
{
    CHECK_STR(
        chat_scene_messages(
            strings(),
            "[{'role':'assistant','content':null,'tool_calls':[{'type':'function','index':0,"
            "'id':'c1','function':{'name':'f','arguments':'{\\u0022b\\u0022: 1, "
            "\\u0022a\\u0022: [2.50, \\u0022\\\\u00e9\\u0022]}','more':true}}]}]"),
        "[{'role':'assistant','content':'','tool_calls':[{'id':'c1','function':{'arguments':"
        "{'b':1,'a':[2.5,'\xc3\xa9']},'name':'f','more':true},'type':'function','index':0}]}]");
}

static const char *arguments_of(const char *arguments)
{
    static char messages[512];
    snprintf(messages, sizeof(messages),
             "[{'role':'assistant','tool_calls':[{'id':'c','function':{'name':'f'%s},"
             "'type':'function'}]}]",
             arguments);
    const char *text = chat_scene_messages(strings(), messages);
    const char *at = strstr(text, "'arguments':");
    return at != NULL ? at + strlen("'arguments':") : text;
}

TEST(arguments_that_say_nothing_are_empty)
{
    static const char empty[] = "{},'name':'f'},'type':'function'}]}]";
    CHECK_STR(arguments_of(",'arguments':''"), empty);
    CHECK_STR(arguments_of(",'arguments':' \\n'"), empty);
    CHECK_STR(arguments_of(",'arguments':null"), empty);
    CHECK_STR(arguments_of(",'arguments':7"), empty);
    CHECK_STR(arguments_of(",'arguments':'{}'"), empty);
}

TEST(arguments_that_are_json_already_stay)
{
    CHECK_STR(arguments_of(",'arguments':{'a':1}"), "{'a':1},'name':'f'},'type':'function'}]}]");
}

TEST(arguments_that_are_not_an_object_are_refused)
{
    static const char why[] = "arguments of a call that are not an object";
    CHECK_STR(arguments_of(",'arguments':'{a: 1}'"), "the text is not JSON");
    CHECK_STR(arguments_of(",'arguments':'[1]'"), why);
    CHECK_STR(arguments_of(",'arguments':'7'"), why);
    CHECK_STR(arguments_of(",'arguments':'null'"), why);
    CHECK_STR(arguments_of(",'arguments':[1]"), why);
}

TEST(a_billing_header_is_refused)
{
    static const char why[] = "a billing header in a system message";
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'system','content':'x-anthropic-billing-"
                                             "header: cch=1\\nBe nice.'}]"),
              why);
    CHECK_STR(chat_scene_messages(lists(),
                                  "[{'role':'system','content':[{'type':'text','text':'a'},"
                                  "{'type':'text','text':'x-anthropic-billing-header'}]}]"),
              why);
    static const char user[] = "[{'role':'user','content':'x-anthropic-billing-header'}]";
    CHECK_STR(chat_scene_messages(strings(), user), user);
}

TEST(a_list_of_no_calls_is_dropped)
{
    CHECK_STR(
        chat_scene_messages(strings(), "[{'role':'assistant','content':'x','tool_calls':[]}]"),
        "[{'role':'assistant','content':'x'}]");
}

TEST(malformed_calls_are_refused)
{
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant','tool_calls':['x']}]"),
              "a tool that is not an object");
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'assistant','tool_calls':[{'id':'c'}]}]"),
              "a tool that is not a function");
    CHECK_STR(
        chat_scene_messages(
            strings(),
            "[{'role':'assistant','tool_calls':[{'type':'custom','function':{'name':'f'}}]}]"),
        "a tool that is not a function");
}

TEST(a_developer_stays_one_where_the_template_knows_the_role)
{
    struct chat_scene *scene = strings();
    scene->rules.knows_developer = true;
    CHECK_STR(chat_scene_messages(scene,
                                  "[{'role':'system','content':'s'},{'role':'developer',"
                                  "'content':'d','name':'n'},{'role':'user','content':'u'}]"),
              "[{'role':'system','content':'s'},{'role':'developer','content':'d','name':'n',"
              "'tools':null},{'role':'user','content':'u'}]");
}

TEST(a_developer_at_the_beginning_becomes_the_system)
{
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'developer','content':'d'},{'role':'user',"
                                             "'content':'u'}]"),
              "[{'role':'system','content':'d'},{'role':'user','content':'u'}]");
    CHECK_STR(chat_scene_messages(lists(), "[{'role':'developer','content':'d'},{'role':'user',"
                                           "'content':'u'}]"),
              "[{'role':'system','content':[{'type':'text','text':'d'}]},{'role':'user',"
              "'content':[{'type':'text','text':'u'}]}]");
}

TEST(with_a_developer_all_systems_become_one_at_the_beginning)
{
    CHECK_STR(chat_scene_messages(
                  strings(), "[{'role':'user','content':'u'},{'role':'system','content':'s','name':"
                             "'n'},{'role':'developer','content':''},{'role':'assistant','content':"
                             "'a'},{'role':'developer','content':'d'}]"),
              "[{'role':'system','content':'s\\n\\nd'},{'role':'user','content':'u'},{'role':"
              "'assistant','content':'a'}]");
}

TEST(without_a_developer_systems_stay_where_they_are)
{
    static const char messages[] = "[{'role':'system','content':'a'},{'role':'user','content':'u'},"
                                   "{'role':'system','content':'b'}]";
    CHECK_STR(chat_scene_messages(strings(), messages), messages);
}

TEST(systems_that_are_merged_are_a_text_in_any_case)
{
    CHECK_STR(chat_scene_messages(
                  lists(), "[{'role':'system','content':[{'type':'text','text':'a'},{'type':'text',"
                           "'text':''},{'type':'text','text':'b'}]},{'role':'developer','content':"
                           "'d'},{'role':'developer'},{'role':'user','content':'u'}]"),
              "[{'role':'system','content':'a\\n\\nb\\n\\nd'},{'role':'user','content':[{'type':"
              "'text','text':'u'}]}]");
    CHECK_STR(chat_scene_messages(strings(), "[{'role':'system','content':''},{'role':'developer',"
                                             "'content':''}]"),
              "[{'role':'system','content':''}]");
}

TEST(tools_of_a_message_are_refused)
{
    CHECK_STR(
        chat_scene_messages(strings(), "[{'role':'developer','content':'d','tools':[{'x':1}]}]"),
        "tools of a message");
}

TEST(tools_have_all_members_of_their_model_and_no_others)
{
    CHECK_STR(
        chat_scene_with(strings(),
                        "'tools':[{'function':{'x':1,'parameters':{'type':'object','b':1,'a':2},"
                        "'name':'f','description':'d'},'cache':2},{'type':'function','function':"
                        "{'name':'g'}}]",
                        "tools"),
        "[{'type':'function','function':{'name':'f','description':'d','parameters':{'type':"
        "'object','b':1,'a':2}}},{'type':'function','function':{'name':'g','description':null,"
        "'parameters':null}}]");
}

TEST(strict_is_a_member_of_tools_that_have_it)
{
    CHECK_STR(chat_scene_with(strings(),
                              "'tools':[{'type':'function','function':{'strict':true,'name':'f'}}]",
                              "tools"),
              "[{'type':'function','function':{'name':'f','description':null,'parameters':null,"
              "'strict':true}}]");
}

TEST(malformed_tools_are_refused)
{
    static const struct {
        const char *tools;
        const char *why;
    } cases[] = {
        {"[]", "a list of tools without any"},
        {"{}", "tools that are not a list"},
        {"['f']", "a tool that is not an object"},
        {"[{'type':'function'}]", "a tool that is not a function"},
        {"[{'type':'web_search','function':{'name':'f'}}]", "a tool that is not a function"},
        {"[{'type':'function','function':{}}]", "a tool without a name"},
        {"[{'type':'function','function':{'name':1}}]", "a name of another kind"},
        {"[{'type':'function','function':{'name':'f','parameters':[]}}]",
         "a parameters of another kind"},
        {"[{'type':'function','function':{'name':'f','defer_loading':true}}]",
         "a tool with defer_loading"},
        {"[{'defer_loading':false,'function':{'name':'f'}}]", "a tool with defer_loading"},
    };
    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char members[256];
        snprintf(members, sizeof(members), "'tools':%s", cases[i].tools);
        CHECK_STR(chat_scene_with(strings(), members, "tools"), cases[i].why);
    }
}

TEST(tools_that_may_not_be_chosen_are_shown)
{
    struct chat_scene *scene = strings();
    CHECK_STR(
        chat_scene_with(scene, "'tools':[{'function':{'name':'f'}}],'tool_choice':'none'", "tools"),
        "[{'type':'function','function':{'name':'f','description':null,'parameters':null}}]");
    CHECK(scene->chat.has_tools);
}

TEST(a_named_choice_leaves_all_tools)
{
    CHECK_STR(chat_scene_with(strings(),
                              "'tools':[{'function':{'name':'f'}},{'function':{'name':'g'}}],"
                              "'tool_choice':{'type':'function','function':{'name':'g'}}",
                              "tools"),
              "[{'type':'function','function':{'name':'f','description':null,'parameters':null}},"
              "{'type':'function','function':{'name':'g','description':null,'parameters':null}}]");
}

TEST(kwargs_are_handed_on_when_the_template_reads_them)
{
    struct chat_scene *scene = reading("enable_thinking ");
    static const char members[] = "'chat_template_kwargs':{'enable_thinking':false,'other':1}";
    CHECK_STR(chat_scene_with(scene, members, "enable_thinking"), "false");
    CHECK_STR(chat_scene_with(scene, members, "other"), "undefined");
}

TEST(kwargs_of_the_request_stand_above_the_defaults)
{
    struct chat_scene *scene = reading("a b c ");
    scene->rules.kwargs = slice_str("{\"a\":1,\"b\":1,\"d\":1}");
    static const char members[] = "'chat_template_kwargs':{'b':2,'c':2,'a':null}";
    CHECK_STR(chat_scene_with(scene, members, "a"), "1"); // null does not set it
    CHECK_STR(chat_scene_with(scene, members, "b"), "2");
    CHECK_STR(chat_scene_with(scene, members, "c"), "2");
    CHECK_STR(chat_scene_with(scene, members, "d"), "undefined");
}

TEST(null_and_auto_are_not_set)
{
    struct chat_scene *scene = reading("a b ");
    static const char members[] = "'chat_template_kwargs':{'a':'auto','b':null}";
    CHECK_STR(chat_scene_with(scene, members, "a"), "undefined");
    CHECK_STR(chat_scene_with(scene, members, "b"), "undefined");
    CHECK_STR(chat_scene_shape(scene), "");
}

TEST(an_effort_says_whether_to_think)
{
    struct chat_scene *scene = reading("enable_thinking reasoning_effort ");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'low'", "enable_thinking"), "true");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'low'", "reasoning_effort"), "'low'");
    CHECK_STR(chat_scene_shape(scene), "effort");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'none'", "enable_thinking"), "false");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':null", "enable_thinking"), "undefined");
    CHECK_STR(chat_scene_shape(scene), "");
}

TEST(an_effort_does_not_override_enable_thinking_of_the_request)
{
    struct chat_scene *scene = reading("enable_thinking ");
    scene->rules.kwargs = slice_str("{\"enable_thinking\":false}");
    CHECK_STR(chat_scene_with(scene,
                              "'reasoning_effort':'high','chat_template_kwargs':{'enable_thinking':"
                              "false}",
                              "enable_thinking"),
              "false");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'high'", "enable_thinking"), "true");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':'high'", "reasoning_effort"), "undefined");
    CHECK_STR(chat_scene_with(scene, "'reasoning_effort':0.5", "enable_thinking"),
              "a reasoning_effort that is not a text");
}

TEST(documents_and_generation_are_members_of_the_body)
{
    struct chat_scene *scene = strings();
    static const char members[] = "'documents':[{'title':'t','text':'x'}],"
                                  "'add_generation_prompt':false";
    CHECK_STR(chat_scene_with(scene, members, "documents"), "[{'title':'t','text':'x'}]");
    CHECK_STR(chat_scene_with(scene, members, "add_generation_prompt"), "false");
    CHECK_STR(chat_scene_shape(scene), "documents no_generation");
}
