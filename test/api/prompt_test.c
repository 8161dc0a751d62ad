// SPDX-License-Identifier: Apache-2.0
//
// Fields of every API first; then random chats against a twin that builds a tree with cJSON, writes
// the prompt into one buffer and hashes that; then bodies that mean harm.

#include "api/prompt.h"

#include "api/prompt_internal.h"
#include "api/prompt_scene.h"
#include "base/rng.h"
#include "base/text.h"
#include "json/json.h"
#include "prefix/chain_token.h"
#include "test.h"

#include <cJSON.h>
#include <stdlib.h>

#define CHECK_SLICE(actual, expected)                                                              \
    do {                                                                                           \
        struct slice check_slice = (actual);                                                       \
        if (!slice_is(check_slice, expected)) {                                                    \
            test_fail(__FILE__, __LINE__, "%s is \"%.*s\", expected \"%s\"", #actual,              \
                      (int)check_slice.size, (const char *)check_slice.bytes, expected);           \
            return;                                                                                \
        }                                                                                          \
    } while (0)

TEST(the_path_names_the_api)
{
    static const struct {
        const char *path;
        enum prompt_api api;
    } cases[] = {
        {"/v1/chat/completions", PROMPT_CHAT},
        {"/v1/completions", PROMPT_COMPLETION},
        {"/v1/responses", PROMPT_RESPONSES},
        {"/v1/embeddings", PROMPT_EMBEDDING},
        {"/v1/messages", PROMPT_MESSAGES},
        {"/v1/messages/count_tokens", PROMPT_MESSAGES},
        {"/generate", PROMPT_GENERATE},
        {"/generate?x=1", PROMPT_GENERATE},
        {"/team/v1/chat/completions?api-version=2", PROMPT_CHAT},
        {"/v1/completions/", PROMPT_COMPLETION},
        {"/v1/completions?", PROMPT_COMPLETION},
        {"/v1/chat/completions/render", PROMPT_OTHER},
        {"/api/generate", PROMPT_OTHER},
        {"/v1/models", PROMPT_OTHER},
        {"/x?/v1/messages", PROMPT_OTHER},
        {"/v2/completions", PROMPT_OTHER},
        {"/", PROMPT_OTHER},
        {"", PROMPT_OTHER},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(prompt_api_of(slice_str(cases[i].path)), cases[i].api);
    }
}

TEST(says_whom_a_request_is_for)
{
    struct scene *scene = scene_of(0);
    const struct prompt *prompt = &scene->prompt;

    scene_read(scene, PROMPT_CHAT,
               "{\"model\":\"m/\\u0041\",\"messages\":[],\"user\":\"u\",\"stream\":true,"
               "\"max_tokens\":10,\"n\":3,\"cache_salt\":\"s\",\"lora_path\":\"l\"}");
    CHECK_SLICE(prompt->model, "m/A");
    CHECK_SLICE(prompt->session, "u");
    CHECK_SLICE(prompt->salt, "s");
    CHECK_SLICE(prompt->adapter, "l");
    CHECK(prompt->stream);
    CHECK_EQ(prompt->output_max, 10);
    CHECK_EQ(prompt->sequences, 3);
    CHECK_EQ(prompt->form, PROMPT_NOTHING);

    static const enum prompt_api plain[] = {PROMPT_OTHER, PROMPT_EMBEDDING};
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++) {
        scene_read(scene, plain[i],
                   "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"input\":\"text\","
                   "\"prompt\":\"text\",\"messages\":[{\"role\":\"user\"}]}");
        CHECK_SLICE(prompt->model, "m");
        CHECK_SLICE(prompt->session, "u");
        CHECK(prompt->stream);
        CHECK_EQ(prompt->form, PROMPT_NOTHING);
        CHECK_EQ(scene->chain.size, 0);
    }
}

TEST(the_more_exact_session_wins)
{
    static const struct {
        const char *body;
        const char *session;
    } cases[] = {
        {"{\"user\":\"u\",\"prompt_cache_key\":\"k\",\"session_params\":{\"session_id\":\"p\"},"
         "\"session_id\":\"s\"}",
         "s"},
        {"{\"session_params\":{\"a\":{},\"session_id\":\"p\"},\"user\":\"u\","
         "\"prompt_cache_key\":\"k\",\"session_id\":\"\"}",
         "p"},
        {"{\"prompt_cache_key\":\"k\",\"user\":\"u\",\"session_params\":{\"session_id\":7}}", "k"},
        {"{\"user\":\"u\",\"session_id\":null,\"session_params\":[\"session_id\"]}", "u"},
        {"{\"session_params\":{\"session_id\":\"p\"},\"session_params\":{}}", ""},
        {"{\"user\":\"a\",\"user\":\"b\"}", "b"},
        {"{\"stream_options\":{\"session_id\":\"p\"}}", ""},
        {"{\"user\":{\"session_id\":\"x\"}}", ""},
        {"{\"user\":\"\\ud800\"}", ""},
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, PROMPT_OTHER, cases[i].body);
        CHECK_SLICE(scene->prompt.session, cases[i].session);
    }
}

TEST(adapters_and_salts_have_several_names)
{
    static const struct {
        const char *body;
        const char *adapter;
        const char *salt;
    } cases[] = {
        {"{\"lora_request\":{\"lora_name\":\"a\",\"lora_int_id\":1},\"lora_path\":\"p\"}", "a", ""},
        {"{\"lora_name\":\"a\"}", "a", ""},
        {"{\"adapter\":\"a\",\"extra_key\":\"e\"}", "a", "e"},
        {"{\"lora_path\":[\"a\",\"b\"],\"cache_salt\":1}", "", ""},
        {"{\"cache_salt\":\"c\",\"extra_key\":\"e\"}", "",
         "c\xff"
         "e"},
        {"{\"cache_salt\":\"\\ud800\"}", "", "\\ud800"},
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, PROMPT_CHAT, cases[i].body);
        CHECK_SLICE(scene->prompt.adapter, cases[i].adapter);
        CHECK_SLICE(scene->prompt.salt, cases[i].salt);
    }
}

TEST(salts_of_any_size_separate)
{
    static char bodies[2][4096];
    for (int i = 0; i < 2; i++) {
        struct text text = text_over(bodies[i], sizeof(bodies[i]) - 1);
        text_add_str(&text, "{\"prompt\":\"p\",\"extra_key\":\"e\",\"cache_salt\":\"");
        for (int k = 0; k < 600; k++) {
            text_add_str(&text, "\\u0041");
        }
        text_add_str(&text, i == 0 ? "x\"}" : "y\"}");
    }
    CHECK_EQ(bodies_common(PROMPT_COMPLETION, bodies[0], bodies[1]), 0);
}

TEST(the_limit_of_the_answer_has_a_name_in_every_api)
{
    static const struct {
        const char *body;
        uint64_t output_max;
        uint32_t sequences;
    } cases[] = {
        {"{\"max_tokens\":5,\"max_completion_tokens\":6}", 6, 1},
        {"{\"max_output_tokens\":7,\"n\":0}", 7, 1},
        {"{\"n_predict\":8,\"n\":2,\"best_of\":5}", 8, 5},
        {"{\"n_predict\":-1,\"n\":1.0,\"best_of\":null}", 0, 1},
        {"{\"sampling_params\":{\"max_new_tokens\":9,\"n\":4}}", 9, 4},
        {"{\"max_tokens\":18446744073709551616,\"n\":18446744073709551615}", 0, UINT32_MAX},
        {"{\"sampling_params\":[{\"max_new_tokens\":9}]}", 0, 1},
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, PROMPT_GENERATE, cases[i].body);
        CHECK_EQ(scene->prompt.output_max, cases[i].output_max);
        CHECK_EQ(scene->prompt.sequences, cases[i].sequences);
    }
}

TEST(a_list_of_prompts_is_its_first_many_times)
{
    struct scene *scene = scene_of(0);

    CHECK(bodies_equal(PROMPT_COMPLETION, "{\"prompt\":\"once \\u0041\"}",
                       "{\"n\":1,\"prompt\":[\"once A\",\"other\",\"third\"]}"));
    CHECK(bodies_equal(PROMPT_COMPLETION, "{\"prompt\":[1,2,3]}",
                       "{\"prompt\":[ [ 1 , 2 , 3 ], [4], [] ]}"));
    CHECK(bodies_equal(PROMPT_COMPLETION, "{\"prompt\":\"a\",\"prompt\":\"b\"}",
                       "{\"prompt\":\"b\"}"));
    CHECK(bodies_equal(PROMPT_COMPLETION, "{\"prompt\":[1],\"prompt\":[2]}", "{\"prompt\":[2]}"));
    CHECK(bodies_equal(PROMPT_GENERATE, "{\"text\":\"a\"}", "{\"text\":[\"a\",\"b\"]}"));
    scene_read(scene, PROMPT_COMPLETION, "{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":4}");
    CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
    CHECK_EQ(scene->prompt.text_size, 1);
    CHECK_EQ(scene->prompt.sequences, 12);
    scene_read(scene, PROMPT_GENERATE, "{\"input_ids\":[[7,8],[9]]}");
    CHECK_EQ(scene->prompt.form, PROMPT_TOKENS);
    CHECK_EQ(scene->prompt.token_count, 2);
    CHECK_EQ(scene->prompt.sequences, 2);
    scene_read(scene, PROMPT_COMPLETION, "{\"prompt\":[\"a\",1]}");
    CHECK_EQ(scene->prompt.form, PROMPT_NOTHING);
}

TEST(token_ids_give_the_keys_of_their_tokens)
{
    struct scene *scene = scene_of(0);
    uint64_t keys[64];
    struct prefix_chain chain;
    struct prefix_space space = {.model = slice_str("m")};
    static const uint32_t ids[] = {0, 1, 16777216, 4294967295};

    scene_read(scene, PROMPT_COMPLETION,
               "{\"prompt\":[0,1 ,\n16777216, 4294967295],\"model\":\"m\"}");
    prefix_chain_begin(&chain, prefix_seed(&space), 1, keys, 64);
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        chain_add_token(&chain, ids[i]);
    }
    CHECK_EQ(scene->prompt.form, PROMPT_TOKENS);
    CHECK_EQ(scene->prompt.token_count, 4);
    CHECK_EQ(scene->prompt.text_size, 0);
    CHECK_EQ(scene->chain.size, 16);
    CHECK(memcmp(keys, scene->keys, 16 * sizeof(keys[0])) == 0);
}

TEST(ids_stand_for_the_whole_prompt)
{
    static const char *const bodies[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"input_ids\":[5,6]}",
        "{\"prompt_token_ids\":[5,6],\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}",
    };
    CHECK(bodies_equal(PROMPT_CHAT, bodies[0], bodies[1]));

    struct scene *scene = scene_of(0);
    scene_read(scene, PROMPT_CHAT,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"input_ids\":null}");
    CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
    scene_read(scene, PROMPT_CHAT, "{\"messages\":[{\"role\":\"assistant\"}],\"input_ids\":[1]}");
    CHECK_EQ(scene->prompt.form, PROMPT_TOKENS);
    CHECK_EQ(scene->prompt.turns, 1);
    CHECK_EQ(scene->prompt.history_size, 0);
}

TEST(a_list_with_anything_but_ids_is_not_understood)
{
    static const char *const bodies[] = {
        "{\"prompt\":[1,4294967296]}",
        "{\"prompt\":[-1]}",
        "{\"prompt\":[1.0]}",
        "{\"prompt\":[1e3]}",
        "{\"prompt\":[1,\"a\"]}",
        "{\"prompt\":[1,null]}",
        "{\"prompt\":[1,[2]]}",
        "{\"prompt\":[[1],2]}",
        "{\"prompt\":[[1,[2]]]}",
        "{\"prompt\":[[]]}",
        "{\"prompt\":[]}",
        "{\"prompt\":{}}",
        "{\"prompt\":5}",
        "{\"prompt\":null}",
        "{\"prompt\":[[\"a\"]]}",
        "{\"prompt\":[{}]}",
        "{\"prompt\":[[1.5],[2]]}",
        "{\"prompt\":[99999999999999999999]}",
        "{\"prompt\":\"a\",\"input_ids\":\"a\"}",
        "{\"prompt\":\"a\",\"input_ids\":[\"a\"]}",
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        scene_read(scene, PROMPT_COMPLETION, bodies[i]);
        CHECK_EQ(scene->prompt.form, PROMPT_NOTHING);
        CHECK_EQ(scene->prompt.token_count, 0);
        CHECK_EQ(scene->prompt.text_size, 0);
        CHECK_EQ(scene->chain.size, 0);
    }
}

// The body with the text put in; empty when nothing is asked.
static struct slice with_usage(const struct prompt *prompt, const char *body, uint8_t *space,
                               size_t size)
{
    struct text text = text_over(space, size);
    if (prompt->usage_text != NULL) {
        text_add(&text, slice_of(body, prompt->usage_at));
        text_add_str(&text, prompt->usage_text);
        text_add_str(&text, body + prompt->usage_at + prompt->usage_over);
    }
    return text_slice(&text);
}

TEST(usage_is_asked_for_where_the_client_left_it_open)
{
    static const struct {
        const char *body;
        const char *expected;
    } cases[] = {
        {" { \"stream\":true}", " {\"stream_options\":{\"include_usage\":true}, \"stream\":true}"},
        {"{\"stream\":true,\"stream_options\":{}}",
         "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}"},
        {"{\"stream\":true,\"stream_options\":{ }}",
         "{\"stream\":true,\"stream_options\":{\"include_usage\":true }}"},
        {"{\"stream_options\":{\"x\":{}},\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true,\"x\":{}},\"stream\":true}"},
        {"{\"stream\":true,\"stream_options\":{\"include_usage\":true},\"stream_options\":{}}",
         "{\"stream\":true,\"stream_options\":{\"include_usage\":true},"
         "\"stream_options\":{\"include_usage\":true}}"},
        {"{\"stream\":true,\"stream_options\":{\"include_usage\":true}}", ""},
        {"{\"stream\":true,\"stream_options\":{\"include_usage\":false}}", ""},
        {"{\"stream\":true,\"stream_options\":{\"include_us\\u0061ge\":null}}", ""},
        {"{\"stream_options\":null,\"stream\":true}",
         "{\"stream_options\":{\"include_usage\":true},\"stream\":true}"},
        {"{\"stream\":true,\"stream_options\":[]}", ""},
        {"{\"stream\":false}", ""},
        {"{\"stream\":true,\"stream\":null}", ""},
        {"{}", ""},
    };
    struct scene *scene = scene_of(0);
    uint8_t space[256];
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, i % 2 == 0 ? PROMPT_CHAT : PROMPT_COMPLETION, cases[i].body);
        CHECK_SLICE(with_usage(&scene->prompt, cases[i].body, space, sizeof(space)),
                    cases[i].expected);
        scene_read(scene, PROMPT_MESSAGES, cases[i].body);
        CHECK(scene->prompt.usage_text == NULL);
    }
    scene_read(scene, PROMPT_CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    CHECK(scene->prompt.wants_usage);
    scene_read(scene, PROMPT_CHAT, "{\"stream\":true,\"stream_options\":{\"x\":true}}");
    CHECK(!scene->prompt.wants_usage);
}

// The text at the place of the prompt's literal; "-" without one.
static struct slice literal_of(const struct prompt *prompt, const char *body)
{
    return prompt->literal_size == 0 ? slice_str("-")
                                     : slice_of(body + prompt->literal_at, prompt->literal_size);
}

TEST(a_prompt_of_one_text_tells_where_it_is_quotes_included)
{
    static const struct {
        enum prompt_api api;
        const char *body;
        const char *literal;
    } cases[] = {
        {PROMPT_COMPLETION, "{\"prompt\":\"ab\"}", "\"ab\""},
        {PROMPT_COMPLETION, " { \"n\":1 , \"prompt\" : \"\\u0061\\\"\" }", "\"\\u0061\\\"\""},
        {PROMPT_COMPLETION, "{\"prompt\":\"\"}", "\"\""},
        {PROMPT_GENERATE, "{\"text\":\"ab\",\"stream\":true}", "\"ab\""},
        {PROMPT_COMPLETION, "{\"prompt\":[\"ab\"]}", "-"},
        {PROMPT_COMPLETION, "{\"prompt\":[1,2]}", "-"},
        {PROMPT_COMPLETION, "{\"prompt\":7}", "-"},
        {PROMPT_COMPLETION, "{\"text\":\"ab\"}", "-"},
        {PROMPT_GENERATE, "{\"text\":\"ab\",\"input_ids\":[1,2]}", "-"},
        {PROMPT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", "-"},
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, cases[i].api, cases[i].body);
        CHECK_SLICE(literal_of(&scene->prompt, cases[i].body), cases[i].literal);
    }
}

TEST(further_members_can_be_put_before_the_first)
{
    static const struct {
        enum prompt_api api;
        const char *body;
        size_t at;
    } cases[] = {
        {PROMPT_COMPLETION, "{\"prompt\":\"ab\"}", 1},
        {PROMPT_COMPLETION, " \n{ \"prompt\":\"ab\"}", 3},
        {PROMPT_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", 1},
        {PROMPT_COMPLETION, "{}", 0},
        {PROMPT_COMPLETION, "[1]", 0},
        {PROMPT_COMPLETION, "", 0},
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        scene_read(scene, cases[i].api, cases[i].body);
        CHECK_EQ(scene->prompt.inside_at, cases[i].at);
    }
}

TEST(a_body_that_is_not_json_says_nothing)
{
    static const char *const bodies[] = {
        "",
        "{",
        "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"prompt\":\"a\"",
        "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"prompt\":\"a\"}x",
        "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"prompt\":\"a\",}",
        "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"prompt\":\"a\xff\"}",
        "{\"model\":\"m\",\"user\":\"u\",\"stream\":true,\"prompt\":[1,2,]}",
        "\"model\"",
        "[{\"model\":\"m\"}]",
        "null",
    };
    struct scene *scene = scene_of(0);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        scene_read(scene, PROMPT_COMPLETION, "{\"model\":\"before\",\"prompt\":\"before\"}");
        scene_read(scene, PROMPT_COMPLETION, bodies[i]);
        CHECK_EQ(scene->prompt.form, PROMPT_NOTHING);
        CHECK_EQ(scene->prompt.model.size + scene->prompt.session.size, 0);
        CHECK(!scene->prompt.stream);
        CHECK(scene->prompt.usage_text == NULL);
        CHECK_EQ(scene->chain.size, 0);
        CHECK_EQ(scene->prompt.sequences, 1);
    }
}

TEST(a_model_name_with_escapes_has_a_limit)
{
    static char body[8192];
    struct scene *scene = scene_of(0);
    for (size_t count = 512; count <= 513; count++) {
        struct text text = text_over(body, sizeof(body) - 1);
        text_add_str(&text, "{\"model\":\"");
        for (size_t i = 0; i < count; i++) {
            text_add_str(&text, "\\u0061");
        }
        text_add_str(&text, "\"}");
        body[text.size] = '\0';
        scene_read(scene, PROMPT_CHAT, body);
        CHECK_EQ(scene->prompt.model.size, count == 512 ? 512 : 0);
    }
}

// The twin: the prompt of a chat, from a tree.
static void twin_text(struct text *out, const cJSON *content)
{
    if (cJSON_IsString(content)) {
        text_add_str(out, content->valuestring);
    }
    const cJSON *part;
    cJSON_ArrayForEach(part, content)
    {
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(part, "text");
        if (cJSON_IsString(text)) {
            text_add_str(out, text->valuestring);
        }
    }
}

static void twin_calls(struct text *out, const cJSON *calls)
{
    const cJSON *call;
    cJSON_ArrayForEach(call, calls)
    {
        const cJSON *function = cJSON_GetObjectItemCaseSensitive(call, "function");
        text_add_format(out, "%c%s%c%s", MARK_CALL,
                        cJSON_GetObjectItemCaseSensitive(function, "name")->valuestring,
                        MARK_ARGUMENTS,
                        cJSON_GetObjectItemCaseSensitive(function, "arguments")->valuestring);
    }
}

struct twin_chat {
    uint32_t turns;
    size_t history_size;
};

static struct twin_chat twin_prompt(const cJSON *root, struct text *out)
{
    struct twin_chat chat = {0};
    cJSON *tools = cJSON_GetObjectItemCaseSensitive(root, "tools");
    if (tools != NULL) {
        char *printed = cJSON_PrintUnformatted(tools);
        text_add_format(out, "%c%s", MARK_TOOLS, printed);
        free(printed);
    }
    const cJSON *message;
    cJSON_ArrayForEach(message, cJSON_GetObjectItemCaseSensitive(root, "messages"))
    {
        const char *role = cJSON_GetObjectItemCaseSensitive(message, "role")->valuestring;
        if (strcmp(role, "assistant") == 0) {
            chat.turns++;
            chat.history_size = out->size;
        }
        text_add_format(out, "%c%s%c", MARK_TURN, role, MARK_CONTENT);
        twin_text(out, cJSON_GetObjectItemCaseSensitive(message, "content"));
        twin_calls(out, cJSON_GetObjectItemCaseSensitive(message, "tool_calls"));
        const cJSON *id = cJSON_GetObjectItemCaseSensitive(message, "tool_call_id");
        if (id != NULL) {
            text_add_format(out, "%c%s", MARK_ID, id->valuestring);
        }
    }
    return chat;
}

static void add_random_text(struct rng *rng, struct text *out)
{
    static const char *const atoms[] = {"a",
                                        "the quick brown fox ",
                                        "\\n",
                                        "\\u00e9",
                                        "\xc3\xa9",
                                        "\\ud83d\\ude00",
                                        "\\\"",
                                        "\\\\",
                                        "\\/",
                                        "\\u4f60",
                                        "a rather long stretch of text without any escape in it "};
    text_add_str(out, "\"");
    for (uint32_t i = rng_below(rng, 12); i > 0; i--) {
        text_add_str(out, atoms[rng_below(rng, ARRAY_COUNT(atoms))]);
    }
    text_add_str(out, "\"");
}

static void add_random_content(struct rng *rng, struct text *out)
{
    if (rng_below(rng, 3) > 0) {
        add_random_text(rng, out);
        return;
    }
    text_add_str(out, "[");
    uint32_t count = rng_below(rng, 4);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(out, i > 0 ? ", {" : "{");
        text_add_str(out, rng_below(rng, 2) == 0 ? "\"type\":\"text\"," : "");
        text_add_str(out, "\"text\" : ");
        add_random_text(rng, out);
        text_add_str(out, "}");
    }
    text_add_str(out, "]");
}

static void add_random_calls(struct rng *rng, struct text *out)
{
    text_add_str(out, "[");
    uint32_t count = 1 + rng_below(rng, 3);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(out, i > 0 ? "," : "");
        bool swapped = rng_below(rng, 2) == 0;
        text_add_str(out, "{\"id\":\"x\",\"function\":{");
        text_add_str(out, swapped ? "\"arguments\":" : "\"name\":");
        add_random_text(rng, out);
        text_add_str(out, swapped ? ",\"name\":" : ",\"arguments\":");
        add_random_text(rng, out);
        text_add_str(out, "}}");
    }
    text_add_str(out, "]");
}

static void add_random_message(struct rng *rng, struct text *out)
{
    static const char *const roles[] = {"user", "assistant", "system", "tool"};
    uint32_t role = rng_below(rng, ARRAY_COUNT(roles));
    uint32_t first = rng_below(rng, 4);

    text_add_str(out, "{");
    // Four members, from any of them on, in a circle.
    for (uint32_t i = 0; i < 4; i++) {
        text_add_str(out, i > 0 ? "," : "");
        switch ((first + i) % 4) {
        case 0:
            text_add_format(out, "\"role\": \"%s\"", roles[role]);
            break;
        case 1:
            text_add_str(out, "\"content\":");
            add_random_content(rng, out);
            break;
        case 2:
            text_add_str(out, role == 1 ? "\"tool_calls\":" : "\"other\":");
            add_random_calls(rng, out);
            break;
        default:
            text_add_str(out, role == 3 ? "\"tool_call_id\":" : "\"id\":");
            add_random_text(rng, out);
        }
    }
    text_add_str(out, "}");
}

static void add_random_chat(struct rng *rng, struct text *out)
{
    bool tools_first = rng_below(rng, 2) == 0;
    uint32_t count = 1 + rng_below(rng, 8);
    static const char tools[] = "\"tools\":[{\"type\":\"function\",\"x\":1},{}]";

    text_add_format(out, "{\"model\":\"m\",%s%s", tools_first ? tools : "", tools_first ? "," : "");
    text_add_str(out, "\"messages\":[");
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(out, i > 0 ? "," : "");
        add_random_message(rng, out);
    }
    text_add_str(out, "]");
    if (!tools_first && rng_below(rng, 2) == 0) {
        text_add_format(out, ",%s", tools);
    }
    text_add_str(out, "}");
}

TEST(random_chats_agree_with_a_twin_that_builds_a_tree)
{
    static uint8_t body[1 << 16];
    static uint8_t expected[1 << 16];
    static uint64_t keys[1 << 16];
    struct scene *scene = scene_of(0);
    struct rng rng = {.state = 11};

    for (int round = 0; round < 2000; round++) {
        struct text text = text_over(body, sizeof(body) - 1);
        struct text twin = text_over(expected, sizeof(expected));
        struct prefix_chain chain;
        add_random_chat(&rng, &text);
        CHECK(!text.overflow);
        body[text.size] = '\0';
        cJSON *root = cJSON_Parse((const char *)body);
        CHECK(root != NULL);
        struct twin_chat chat = twin_prompt(root, &twin);
        cJSON_Delete(root);

        scene_read_slice(scene, PROMPT_CHAT, text_slice(&text));
        struct prefix_space space = {.model = slice_str("m")};
        prefix_chain_begin(&chain, prefix_text_seed(&space), 1, keys, ARRAY_COUNT(keys));
        prefix_chain_add(&chain, text_slice(&twin));
        CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
        CHECK_EQ(scene->prompt.text_size, twin.size);
        CHECK_EQ(scene->chain.size, twin.size);
        CHECK_EQ(scene->prompt.turns, chat.turns);
        CHECK_EQ(scene->prompt.history_size, chat.turns > 0 ? chat.history_size : 0);
        CHECK(memcmp(keys, scene->keys, twin.size * sizeof(keys[0])) == 0);
    }
}

// A chat cut short or with bytes changed, or neither; a block of its exact size, so that a
// sanitizer sees one byte too far.
static uint8_t *random_mutant(struct rng *rng, size_t *size)
{
    static uint8_t original[1 << 16];
    static const char spice[] = "{}[]\",:\\u0123nulltrue-.e \xc3\xff";
    struct text text = text_over(original, sizeof(original));

    add_random_chat(rng, &text);
    *size = rng_below(rng, 4) == 0 ? 1 + rng_below(rng, (uint32_t)text.size) : text.size;
    uint8_t *copy = malloc(*size);
    ASSERT(copy != NULL);
    memcpy(copy, original, *size);
    for (uint32_t i = rng_below(rng, 3); i > 0; i--) {
        copy[rng_below(rng, (uint32_t)*size)] = (uint8_t)spice[rng_below(rng, sizeof(spice) - 1)];
    }
    return copy;
}

// How many APIs understood it; -1 when what was read cannot be.
static int read_as_all(struct scene *scene, struct slice body)
{
    int understood = 0;
    for (enum prompt_api api = PROMPT_OTHER; api <= PROMPT_GENERATE; api++) {
        scene_read_slice(scene, api, body);
        const struct prompt *prompt = &scene->prompt;
        if (scene->chain.size != prompt->text_size + 4 * prompt->token_count ||
            prompt->history_size > prompt->text_size) {
            return -1;
        }
        understood += prompt->form != PROMPT_NOTHING;
    }
    return understood;
}

TEST(mutated_bodies_never_hurt)
{
    struct rng rng = {.state = 12};
    int understood = 0;

    for (int round = 0; round < 4000; round++) {
        size_t size = 0;
        uint8_t *body = random_mutant(&rng, &size);
        int count = read_as_all(scene_of(0), slice_of(body, size));
        free(body);
        CHECK(count >= 0);
        understood += count;
    }
    CHECK(understood > 1000); // or the mutations were too wild to try anything
}

// `count` times `unit` between `before` and `after`.
static char *repeated(const char *before, const char *unit, uint32_t count, const char *after)
{
    size_t size = strlen(before) + count * strlen(unit) + strlen(after) + 1;
    char *body = malloc(size);
    ASSERT(body != NULL);
    struct text text = text_over(body, size - 1);
    text_add_str(&text, before);
    for (uint32_t i = 0; i < count; i++) {
        text_add_str(&text, unit);
    }
    text_add_str(&text, after);
    ASSERT(!text.overflow);
    body[text.size] = '\0';
    return body;
}

TEST(a_chat_of_more_pieces_than_there_is_room_for_is_hashed_as_far_as_it_goes)
{
    struct scene *scene = scene_of(0);
    struct scene *other = scene_of(1);
    static const char unit[] = "{\"role\":\"user\",\"content\":\"x\"},";
    char *long_body = repeated("{\"messages\":[", unit, 20000,
                               "{\"role\":\"assistant\",\"content\":\"y\"}],\"tools\":[7]}");
    char *short_body = repeated("{\"tools\":[7],\"messages\":[", unit, 1000, "{}]}");

    scene_read(scene, PROMPT_CHAT, long_body);
    scene_read(other, PROMPT_CHAT, short_body);
    // Mark and three bytes of tools, then two marks, role and text of each turn.
    CHECK_EQ(scene->prompt.text_size, 4 + 20000 * 7 + 12);
    CHECK_EQ(scene->prompt.history_size, 4 + 20000 * 7);
    CHECK_EQ(scene->prompt.turns, 1);
    CHECK_EQ(scene->chain.size, 4 + prompt_piece_max / 2 * 7);
    CHECK(scene_common(scene, other) >= 4 + 1000 * 7);
    free(long_body);
    free(short_body);
}

TEST(hostile_shapes_cost_no_more_than_reading_them)
{
    struct scene *scene = scene_of(0);
    static const struct {
        const char *before;
        const char *unit;
        const char *after;
        uint32_t count;
        enum prompt_form form;
    } shapes[] = {
        {"{\"messages\":", "[", "", 100000, PROMPT_NOTHING},
        {"{\"messages\":[{\"content\":", "[", "", 100000, PROMPT_NOTHING},
        {"{\"messages\":[{\"content\":", "[{\"content\":", "", 50000, PROMPT_NOTHING},
        {"{\"messages\":[", "{},", "{}]}", 100000, PROMPT_TEXT},
        {"{\"messages\":[", "1,", "{}]}", 100000, PROMPT_TEXT},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[", "{\"text\":\"\"},", "\"\"]}]}", 100000,
         PROMPT_TEXT},
        {"{\"messages\":[{", "\"content\":\"\",", "\"role\":\"user\"}]}", 100000, PROMPT_TEXT},
        {"{", "\"messages\":[{\"content\":\"a\"}],", "\"model\":\"m\"}", 50000, PROMPT_TEXT},
        {"{\"messages\":[{\"tool_calls\":[", "{\"function\":{\"function\":{}}},", "1]}]}", 50000,
         PROMPT_TEXT},
    };
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        char *body = repeated(shapes[i].before, shapes[i].unit, shapes[i].count, shapes[i].after);
        scene_read(scene, PROMPT_CHAT, body);
        free(body);
        CHECK_EQ(scene->prompt.form, shapes[i].form);
    }
}

TEST(nesting_within_the_limit_is_walked)
{
    struct scene *scene = scene_of(0);
    char *open = repeated("{\"messages\":[{\"role\":\"user\",\"content\":", "[", 100, "");
    char *body = repeated(open, "]", 100, "}]}");
    scene_read(scene, PROMPT_CHAT, body);
    CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
    free(open);
    free(body);

    open = repeated("{\"messages\":[{\"role\":\"user\",\"content\":", "[{\"content\":", 50, "1");
    body = repeated(open, "}]", 50, "}]}");
    scene_read(scene, PROMPT_CHAT, body);
    CHECK_EQ(scene->prompt.form, PROMPT_TEXT);
    free(open);
    free(body);
}
