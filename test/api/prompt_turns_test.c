// SPDX-License-Identifier: Apache-2.0
//
// Conversations: what makes two prompts the same, from where on they differ, and that a next turn
// begins with the keys of the prompt and its answer.

#include "api/prompt_internal.h"
#include "api/prompt_scene.h"
#include "base/text.h"
#include "test.h"

// A body from what a reader of the test wants to see: apostrophes are quotes.
static const char *quoted(char *space, size_t size, const char *text)
{
    size_t used = strlen(text);
    ASSERT(used < size);
    for (size_t i = 0; i <= used; i++) {
        space[i] = text[i];
        if (text[i] == '\'') {
            space[i] = '"';
        }
    }
    return space;
}

// How many bytes two prompts have in common; -1: all of both.
static int64_t common(enum prompt_api api, const char *first, const char *second)
{
    static char space[2][4096];
    return bodies_common(api, quoted(space[0], sizeof(space[0]), first),
                         quoted(space[1], sizeof(space[1]), second));
}

#define CHECK_SAME(api, first, second) CHECK_EQ(common(api, first, second), -1)
#define CHECK_COMMON(api, first, second, bytes) CHECK_EQ(common(api, first, second), bytes)

TEST(a_turn_is_its_role_and_its_text)
{
    char space[256];
    uint64_t keys[1];
    uint8_t expected[64];
    struct prompt_reader *reader = prompt_reader_create();
    struct prompt prompt;
    struct prefix_chain chain;
    const char *body = quoted(space, sizeof(space),
                              "{'messages':[{'role':'user','content':'Hi'},"
                              "{'content':[],'role':'assistant'}],'tools':[1]}");

    prompt_read(reader, PROMPT_CHAT, slice_str(body), &prompt);
    prefix_chain_begin(&chain, 0, prefix_block_size_max, keys, 1);
    prompt_hash(reader, &prompt, &chain);
    struct text text = text_over(expected, sizeof(expected));
    text_add_format(&text, "%c[1]%cuser%cHi%cassistant%c", MARK_TOOLS, MARK_TURN, MARK_CONTENT,
                    MARK_TURN, MARK_CONTENT);
    CHECK(slice_equal(slice_of(chain.block, chain.pending), text_slice(&text)));
    CHECK_EQ(prompt.text_size, chain.size);
    CHECK_EQ(prompt.turns, 1);
    CHECK_EQ(prompt.history_size, chain.size - 11);
    prompt_reader_destroy(&reader);
}

TEST(the_order_of_members_does_not_matter)
{
    CHECK_SAME(PROMPT_CHAT,
               "{'model':'m','tools':[{'a':1}],'messages':[{'role':'user','content':'Hi'}]}",
               " { 'messages' : [ {'content':'Hi', 'role':'user'} ], 'n':1,"
               "'tools' : [{'a':1}], 'model':'m' }");
    CHECK_SAME(
        PROMPT_CHAT,
        "{'messages':[{'role':'assistant','content':'a','tool_calls':[{'function':"
        "{'name':'f','arguments':'{}'}}]},{'role':'tool','content':'r','tool_call_id':'1'}]}",
        "{'messages':[{'tool_calls':[{'id':'1','function':{'arguments':'{}','name':'f'}}],"
        "'content':'a','role':'assistant'},"
        "{'tool_call_id':'1','role':'tool','content':'r'}]}");
    CHECK_SAME(PROMPT_MESSAGES, "{'system':'s','messages':[{'role':'user','content':'a'}]}",
               "{'messages':[{'role':'user','content':'a'}],'system':'s'}");
}

TEST(escapes_and_the_form_of_content_do_not_matter)
{
    CHECK_SAME(PROMPT_CHAT, "{'messages':[{'role':'user','content':'H\xc3\xa9/'}]}",
               "{'messages':[{'rol\\u0065':'us\\u0065r','content':'\\u0048\\u00e9\\/'}]}");
    CHECK_SAME(PROMPT_CHAT, "{'messages':[{'role':'user','content':'Hi you'}]}",
               "{'messages':[{'role':'user','content':[{'type':'text','text':'Hi '},"
               "{'text':'you','type':'text'}]}]}");
    CHECK_SAME(PROMPT_CHAT, "{'messages':[{'role':'assistant','content':null}]}",
               "{'messages':[{'role':'assistant'}]}");
}

TEST(members_that_templates_ignore_do_not_change_the_keys)
{
    CHECK_SAME(PROMPT_CHAT, "{'messages':[{'role':'assistant','content':'a'}]}",
               "{'messages':[{'role':'assistant','content':'a','reasoning_content':'hm',"
               "'reasoning':'hm','refusal':null,'annotations':[]}],'temperature':0.5}");
    CHECK_SAME(PROMPT_MESSAGES,
               "{'messages':[{'role':'assistant','content':[{'type':'text','text':'a'}]}]}",
               "{'messages':[{'role':'assistant','content':[{'type':'thinking','thinking':'hm',"
               "'signature':'x'},{'type':'redacted_thinking','data':'y'},"
               "{'type':'text','text':'a','cache_control':{'type':'ephemeral'}}]}]}");
    CHECK_SAME(PROMPT_RESPONSES, "{'input':[{'role':'assistant','content':'a'}]}",
               "{'input':[{'role':'assistant','content':[{'type':'reasoning_text','text':'hm'},"
               "{'type':'output_text','text':'a','annotations':[]}],'id':'x','status':'y'}]}");
}

TEST(prompts_differ_from_where_they_differ)
{
    // One mark, "user", one mark, then text.
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'abc'}]}",
                 "{'messages':[{'role':'user','content':'abd'}]}", 8);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'abc'}]}",
                 "{'messages':[{'role':'user','content':'abcd'}]}", 9);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}]}",
                 "{'messages':[{'role':'system','content':'a'}]}", 1);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}]}",
                 "{'messages':[{'role':'user','content':'a'}],'tools':[{}]}", 0);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}],'tools':[1]}",
                 "{'messages':[{'role':'user','content':'a'}],'tools':[2]}", 2);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}],'model':'m'}",
                 "{'messages':[{'role':'user','content':'a'}],'model':'n'}", 0);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}]}",
                 "{'messages':[{'role':'user','content':'a'}],'cache_salt':'s'}", 0);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}],'extra_key':'r'}",
                 "{'messages':[{'role':'user','content':'a'}],'extra_key':'s'}", 0);
    CHECK_COMMON(PROMPT_CHAT, "{'messages':[{'role':'user','content':'a'}],'lora_path':'l'}",
                 "{'messages':[{'role':'user','content':'a'}]}", 0);
    // Text cannot pass for the beginning of another turn, nor for a call.
    CHECK_COMMON(PROMPT_CHAT,
                 "{'messages':[{'role':'user','content':'a'},{'role':'user','content':'b'}]}",
                 "{'messages':[{'role':'user','content':'auserb'}]}", 7);
    CHECK_COMMON(PROMPT_CHAT,
                 "{'messages':[{'role':'assistant','content':'','tool_calls':[{'function':"
                 "{'name':'f','arguments':'{}'}}]}]}",
                 "{'messages':[{'role':'assistant','content':'f{}'}]}", 11);
}

TEST(how_an_image_is_given_does_not_matter)
{
    static const char *const same[][2] = {
        {"{'messages':[{'role':'user','content':[{'type':'image_url','image_url':{'url':'u'}}]}]}",
         "{'messages':[{'role':'user','content':[{'image_url':{'detail':'low','url':'u'},"
         "'type':'image_url'}]}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'image_url','image_url':{'url':'u'}}]}]}",
         "{'messages':[{'role':'user','content':[{'type':'input_image','image_url':'u'}]}]}"},
        {"{'messages':[{'role':'user','content':[{'type':'image','source':{'type':'base64',"
         "'media_type':'image/png','data':'AAAA'}}]}]}",
         "{'messages':[{'role':'user','content':[{'type':'image','source':{'data':'AAAA',"
         "'type':'base64'},'cache_control':{'type':'ephemeral'}}]}]}"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        CHECK_SAME(PROMPT_CHAT, same[i][0], same[i][1]);
    }
}

TEST(different_media_differ_from_their_mark_on)
{
    static const char *const parts[] = {
        "{'type':'image_url','image_url':{'url':'u'}}",
        "{'type':'image_url','image_url':{'url':'v'}}",
        "{'type':'input_audio','input_audio':{'data':'AAAA','format':'wav'}}",
        "{'type':'image','source':{'data':'AAAB'}}",
        "{'type':'input_file','file_id':'f'}",
        "{'type':'image_url','image_url':{'x':{}}}",
    };
    // All pairs, one after the other.
    for (size_t pair = 0; pair < ARRAY_COUNT(parts) * ARRAY_COUNT(parts); pair++) {
        size_t one = pair / ARRAY_COUNT(parts);
        size_t two = pair % ARRAY_COUNT(parts);
        char bodies[2][256];
        static const char shell[] = "{'messages':[{'role':'user','content':[%s]}]}";
        snprintf(bodies[0], sizeof(bodies[0]), shell, parts[one]);
        snprintf(bodies[1], sizeof(bodies[1]), shell, parts[two]);
        CHECK_COMMON(PROMPT_CHAT, bodies[0], bodies[1], one == two ? -1 : 7);
    }
}

TEST(of_members_that_come_twice_the_last_counts)
{
    CHECK_SAME(PROMPT_CHAT, "{'messages':[{'role':'user','content':'b'}]}",
               "{'messages':[{'role':'assistant','content':'a'},{'role':'user','content':'c'}],"
               "'messages':[{'role':'tool','content':'x','role':'user','content':'b'}]}");
    CHECK_SAME(PROMPT_CHAT,
               "{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'g'}}]}]}",
               "{'messages':[{'role':'assistant','tool_calls':[{'function':{'name':'f'}}],"
               "'tool_calls':[{'function':{'name':'g'}}]}]}");
    CHECK_SAME(PROMPT_MESSAGES, "{'messages':[{'role':'user','content':'b'}]}",
               "{'system':'s','messages':[{'role':'user','content':[{'type':'tool_use',"
               "'name':'f'}],'content':'b'}],'system':null}");

    struct scene *scene = scene_of(0);
    scene_read(scene, PROMPT_CHAT,
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"messages\":null}");
    CHECK_EQ(scene->prompt.form, PROMPT_NOTHING);
    CHECK_EQ(scene->prompt.turns, 0);
    CHECK_EQ(scene->chain.size, 0);
    scene_read(scene, PROMPT_CHAT,
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"}],"
               "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");
    CHECK_EQ(scene->prompt.turns, 0);
    CHECK_EQ(scene->prompt.history_size, 0);
}

TEST(history_is_what_was_there_before_the_last_answer)
{
    struct scene *scene = scene_of(0);
    struct scene *before = scene_of(1);
    char space[1024];

    scene_read(scene, PROMPT_CHAT,
               quoted(space, sizeof(space),
                      "{'messages':[{'role':'user','content':'a'},{'role':'assistant',"
                      "'content':'b'},{'role':'user','content':'c\\n'},{'role':'assistant',"
                      "'content':'d'},{'role':'user','content':'e'}],'tools':[{}]}"));
    scene_read(before, PROMPT_CHAT,
               quoted(space, sizeof(space),
                      "{'tools':[{}],'messages':[{'role':'user','content':'a'},{'role':'assistant',"
                      "'content':'b'},{'role':'user','content':'c\\n'}]}"));
    CHECK_EQ(scene->prompt.turns, 2);
    CHECK_EQ(scene->prompt.history_size, before->prompt.text_size);
    CHECK_EQ(scene_common(scene, before), before->prompt.text_size);
}

// The prompt of `first`, then whatever `add` puts into the chain: is that how `next` begins?
static bool continues(enum prompt_api api, const char *first, void (*add)(struct prefix_chain *),
                      const char *next)
{
    struct scene *a = scene_of(0);
    struct scene *b = scene_of(1);
    char space[2][2048];

    scene_read(a, api, quoted(space[0], sizeof(space[0]), first));
    scene_read(b, api, quoted(space[1], sizeof(space[1]), next));
    prompt_begin_answer(&a->chain);
    add(&a->chain);
    bool result = a->chain.size < b->chain.size && scene_common(a, b) == a->chain.size &&
                  b->prompt.history_size == a->prompt.text_size;
    return result;
}

static void add_pieces(struct prefix_chain *chain)
{
    prompt_add_string(chain, slice_str(""));
    prompt_add_string(chain, slice_str("Hello"));
    prompt_add_string(chain, slice_str(", \\u4f60"));
    prompt_add_string(chain, slice_str("\\n"));
}

static void add_text_and_calls(struct prefix_chain *chain)
{
    prompt_add_string(chain, slice_str("Look"));
    prompt_begin_tool_call(chain, slice_str("f"));
    prompt_add_string(chain, slice_str("{\\\"a\\\""));
    prompt_add_string(chain, slice_str(":1}"));
    prompt_begin_tool_call(chain, slice_str("g"));
    prompt_add_string(chain, slice_str("{}"));
}

static void add_calls(struct prefix_chain *chain)
{
    prompt_begin_tool_call(chain, slice_str("f"));
    prompt_add_string(chain, slice_str("{\\\"a\\\":1}"));
}

TEST(the_next_turn_of_a_chat_begins_with_the_prompt_and_its_answer)
{
    static const char first[] = "{'messages':[{'role':'user','content':'Hi'}]}";
    CHECK(continues(PROMPT_CHAT, first, add_pieces,
                    "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':"
                    "'Hello, \xe4\xbd\xa0\\n'},{'role':'user','content':'More'}]}"));
    CHECK(continues(PROMPT_CHAT, first, add_text_and_calls,
                    "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','tool_calls':["
                    "{'id':'1','type':'function','function':{'name':'f','arguments':"
                    "'{\\u0022a\\u0022:1}'}},{'function':{'name':'g','arguments':'{}'}}],"
                    "'content':'Look'},{'role':'tool','content':'r','tool_call_id':'1'}]}"));
    CHECK(
        continues(PROMPT_CHAT, first, add_calls,
                  "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':null,"
                  "'tool_calls':[{'function':{'name':'f','arguments':'{\\u0022a\\u0022:1}'}}]},"
                  "{'role':'tool','content':'r'}]}"));
    CHECK(!continues(PROMPT_CHAT, first, add_pieces,
                     "{'messages':[{'role':'user','content':'Hi'},{'role':'assistant','content':"
                     "'Hello, you'},{'role':'user','content':'and much more than that'}]}"));
}

TEST(the_next_turn_of_messages_begins_with_the_prompt_and_its_answer)
{
    static const char first[] = "{'system':'s','messages':[{'role':'user','content':'Hi'}]}";
    CHECK(continues(PROMPT_MESSAGES, first, add_pieces,
                    "{'system':[{'type':'text','text':'s'}],'messages':[{'role':'user','content':"
                    "'Hi'},{'role':'assistant','content':[{'type':'thinking','thinking':'hm'},"
                    "{'type':'text','text':'Hello, '},{'type':'text','text':'\xe4\xbd\xa0\\n'}]},"
                    "{'role':'user','content':'More'}]}"));
    CHECK(continues(PROMPT_MESSAGES, first, add_text_and_calls,
                    "{'system':'s','messages':[{'role':'user','content':'Hi'},{'role':'assistant',"
                    "'content':[{'type':'text','text':'Look'},{'type':'tool_use','id':'1','name':"
                    "'f','input':{'a':1}},{'type':'tool_use','name':'g','input':{}}]},"
                    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'1',"
                    "'content':'r'}]}]}"));
}

TEST(the_next_turn_of_responses_begins_with_the_prompt_and_its_answer)
{
    static const char first[] = "{'instructions':'s','input':'Hi'}";
    CHECK(
        continues(PROMPT_RESPONSES, first, add_pieces,
                  "{'instructions':'s','input':[{'role':'user','content':'Hi'},{'type':'reasoning',"
                  "'content':[{'type':'reasoning_text','text':'hm'}]},{'type':'message','role':"
                  "'assistant','content':[{'type':'output_text','text':'Hello, \\u4f60\\n'}]},"
                  "{'role':'user','content':[{'type':'input_text','text':'More'}]}]}"));
    CHECK(
        continues(PROMPT_RESPONSES, first, add_text_and_calls,
                  "{'instructions':'s','input':[{'role':'user','content':'Hi'},{'role':"
                  "'assistant','content':'Look'},{'type':'function_call','call_id':'1','name':'f',"
                  "'arguments':'{\\u0022a\\u0022:1}'},{'type':'reasoning','summary':[]},"
                  "{'type':'function_call','name':'g','arguments':'{}'},"
                  "{'type':'function_call_output','call_id':'1','output':'r'}]}"));
    CHECK(continues(PROMPT_RESPONSES, first, add_calls,
                    "{'instructions':'s','input':[{'role':'user','content':'Hi'},"
                    "{'type':'function_call','name':'f','arguments':'{\\u0022a\\u0022:1}'},"
                    "{'type':'function_call_output','call_id':'1','output':'r'}]}"));
}

TEST(the_result_of_a_tool_has_an_end_mark)
{
    CHECK_COMMON(PROMPT_MESSAGES,
                 "{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'1',"
                 "'content':'a'},{'type':'text','text':'b'}]}]}",
                 "{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'1',"
                 "'content':'ab'}]}]}",
                 10);
    CHECK_SAME(PROMPT_MESSAGES,
               "{'messages':[{'role':'user','content':[{'type':'tool_result','tool_use_id':'1',"
               "'content':'a'}]}]}",
               "{'messages':[{'role':'user','content':[{'content':[{'type':'text','text':'a'},"
               "{'type':'tool_result','content':'deep'}],'tool_use_id':'1',"
               "'type':'tool_result'}]}]}");
}

TEST(wrong_types_are_passed_over)
{
    struct scene *scene = scene_of(0);
    char space[1024];

    scene_read(scene, PROMPT_CHAT,
               quoted(space, sizeof(space),
                      "{'messages':[1,null,'x',[],{},{'role':7,'content':{}},{'role':'user',"
                      "'content':[1,[],null,{'type':[],'text':{}},{'text':5},'ok']},{'role':"
                      "'assistant','tool_calls':[1,{},{'function':[]},{'function':{'name':[],"
                      "'arguments':5}}],'name':{},'tool_call_id':[1]}]}"));
    CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
    CHECK_EQ(scene->prompt.turns, 1);
    CHECK_EQ(scene->prompt.text_size, scene->chain.size);
}
