// SPDX-License-Identifier: Apache-2.0

#include "feed/models_list.h"

#include "base/text.h"
#include "fleet/fleet.h"
#include "test.h"

#include <stdlib.h>

// "name, name" of a list, or the status that it is refused with.
static const char *names_of(struct slice body)
{
    static char space[65536];
    struct text text = text_over(space, sizeof(space) - 1);
    struct models_list list = {0};
    enum status status = models_list_read(body, &list);

    if (status != STATUS_OK) {
        ASSERT(list.models == NULL && list.memory == NULL && list.count == 0);
        return status_text(status);
    }
    for (uint32_t i = 0; i < list.count; i++) {
        text_add_str(&text, i > 0 ? ", " : "");
        text_add_str(&text, list.models[i].name);
    }
    models_list_free(&list);
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return space;
}

static const char *names_of_text(const char *body)
{
    return names_of(slice_str(body));
}

static const char malformed[] = "input does not follow its format";

// As vLLM 0.6 answers with an adapter loaded.
static const char vllm[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"meta-llama/Llama-3.1-8B-Instruct\",\"object\":"
    "\"model\",\"created\":1731000000,\"owned_by\":\"vllm\",\"root\":\"meta-llama/"
    "Llama-3.1-8B-Instruct\",\"parent\":null,\"max_model_len\":131072,\"permission\":[{\"id\":"
    "\"modelperm-1\",\"object\":\"model_permission\",\"created\":1731000000,\"allow_sampling\":"
    "true,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}]},{\"id\":\"sql-lora\","
    "\"object\":\"model\",\"created\":1731000000,\"owned_by\":\"vllm\",\"root\":\"/adapters/sql\","
    "\"parent\":\"meta-llama/Llama-3.1-8B-Instruct\",\"max_model_len\":null,\"permission\":[]}]}";

static const char sglang[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"Qwen/Qwen2.5-7B-Instruct\",\"object\":\"model\","
    "\"created\":1739000000,\"owned_by\":\"sglang\",\"root\":\"Qwen/Qwen2.5-7B-Instruct\","
    "\"max_model_len\":32768}]}";

static const char ollama[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"llama3.2:latest\",\"object\":\"model\",\"created\":"
    "1730000000,\"owned_by\":\"library\"},{\"id\":\"qwen2.5-coder:7b\",\"object\":\"model\","
    "\"created\":1730000001,\"owned_by\":\"library\"}]}\n";

// llama.cpp puts its own list in front of the one that clients know.
static const char llama_cpp[] =
    "{\"models\":[{\"name\":\"other.gguf\",\"model\":\"other.gguf\",\"tags\":[\"\"]}],"
    "\"object\":\"list\",\"data\":[{\"id\":\"model.gguf\",\"aliases\":[],\"object\":\"model\","
    "\"created\":1735142223,\"owned_by\":\"llamacpp\",\"meta\":"
    "{\"vocab_type\":2,\"n_vocab\":151936,\"size\":4.6e9}}]}";

// And in its router mode, where it starts a server for each of its models.
static const char llama_cpp_router[] =
    "{\"data\":[{\"id\":\"ggml-org/gemma-3-4b-it-GGUF:Q4_K_M\",\"object\":\"model\",\"owned_by\":"
    "\"llamacpp\",\"created\":1765454400,\"status\":{\"value\":\"loaded\",\"args\":[\"llama-"
    "server\"]}}],"
    "\"object\":\"list\"}";

TEST(lists_of_known_engines_are_read)
{
    CHECK_STR(names_of_text(vllm), "meta-llama/Llama-3.1-8B-Instruct, sql-lora");
    CHECK_STR(names_of_text(sglang), "Qwen/Qwen2.5-7B-Instruct");
    CHECK_STR(names_of_text(ollama), "llama3.2:latest, qwen2.5-coder:7b");
    CHECK_STR(names_of_text(llama_cpp), "model.gguf");
    CHECK_STR(names_of_text(llama_cpp_router), "ggml-org/gemma-3-4b-it-GGUF:Q4_K_M");
}

TEST(no_models_is_a_list_too)
{
    CHECK_STR(names_of_text("{\"object\":\"list\",\"data\":[]}"), "");
    CHECK_STR(names_of_text(" { \"data\" : [ ] } "), "");
}

TEST(documents_are_kept_byte_for_byte)
{
    static const char first[] = "{ \"id\" :\t\"a\" ,\r\n \"x\" : [1, 1.50, {\"id\":\"no\"}] }";
    static const char second[] =
        "{\"z\":\"\\u00e9\\/\xc3\xa9\",\"id\":\"b\",\"big\":123456789012345678901234567890}";
    char body[512];
    struct models_list list;
    snprintf(body, sizeof(body), "{\"data\":[ %s , %s ]}", first, second);
    CHECK_EQ(models_list_read(slice_str(body), &list), STATUS_OK);
    memset(body, '#', sizeof(body)); // what was read is the list's own
    CHECK_EQ(list.count, 2);
    CHECK_STR(list.models[0].name, "a");
    CHECK_STR(list.models[0].document, first);
    CHECK_STR(list.models[1].name, "b");
    CHECK_STR(list.models[1].document, second);
    models_list_free(&list);
    CHECK(list.models == NULL && list.memory == NULL && list.count == 0);
    models_list_free(&list); // nothing happens
}

TEST(another_document_than_a_list_is_refused)
{
    static const char *const bodies[] = {
        "",
        "null",
        "[]",
        "[{\"id\":\"a\"}]",
        "\"data\"",
        "{}",
        "{\"object\":\"list\"}",
        "{\"data\":null}",
        "{\"data\":{}}",
        "{\"data\":{\"id\":\"a\"}}",
        "{\"data\":\"[]\"}",
        "{\"Data\":[]}",
        "{\"data\":[{\"id\":\"a\"}]",
        "{\"data\":[{\"id\":\"a\"},]}",
        "{\"data\":[{\"id\":\"a\"}]} x",
        "{\"data\":[{\"id\":\"a]}",
        "<html>not here</html>",
        "{\"models\":[{\"name\":\"a\"}]}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        CHECK_STR(names_of_text(bodies[i]), malformed);
    }
    CHECK_STR(names_of(slice_of("{\"data\":[]}\0", 12)), malformed);
    CHECK_STR(names_of(slice_of("{\"data\":[{\"id\":\"a\0b\"}]}", 24)), malformed);
}

TEST(entries_without_a_usable_id_are_left_out)
{
    CHECK_STR(names_of_text("{\"data\":[{\"object\":\"model\"},{\"id\":\"a\"}]}"), "a");
    CHECK_STR(
        names_of_text("{\"data\":[{\"id\":7},{\"id\":null},{\"id\":[\"x\"]},{\"id\":\"a\"}]}"),
        "a");
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"\"},{\"ID\":\"x\"},{},{\"id\":\"a\"}]}"), "a");
    CHECK_STR(names_of_text("{\"data\":[\"x\",1,null,[{\"id\":\"x\"}],{\"id\":\"a\"},true]}"), "a");
    CHECK_STR(names_of_text("{\"data\":[{\"x\":{\"id\":\"x\"}},{\"id\":\"a\"}]}"), "a");
}

TEST(ids_are_unescaped)
{
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"a\\/b\"},{\"id\":\"\\u0061\\\"\\\\\"}]}"),
              "a/b, a\"\\");
    CHECK_STR(names_of_text("{\"data\":[{\"\\u0069d\":\"\\ud83d\\ude00\"}]}"), "\xf0\x9f\x98\x80");
    CHECK_STR(names_of_text("{\"d\\u0061ta\":[{\"id\":\"\xc3\xa9\"}]}"), "\xc3\xa9");
}

// A name is compared as a C string from here on: what would be cut must not be taken.
TEST(an_id_with_a_nul_or_half_a_pair_is_left_out)
{
    CHECK_STR(
        names_of_text("{\"data\":[{\"id\":\"a\\u0000b\"},{\"id\":\"\\u0000\"},{\"id\":\"c\"}]}"),
        "c");
    CHECK_STR(
        names_of_text("{\"data\":[{\"id\":\"\\ud83d\"},{\"id\":\"\\ude00x\"},{\"id\":\"c\"}]}"),
        "c");
    // Elsewhere in the document both are the engine's own business.
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"c\",\"x\":\"\\u0000\\ud83d\"}]}"), "c");
}

TEST(the_last_of_two_equal_members_is_read_and_equal_entries_both_stay)
{
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"a\"}]}"),
              "a, b, a");
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"a\",\"id\":\"b\"}]}"), "b");
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"a\"}],\"data\":[{\"id\":\"b\"}]}"), "b");
    CHECK_STR(names_of_text("{\"data\":[{\"id\":\"a\"}],\"data\":7}"), malformed);
}

TEST(a_name_may_be_of_any_length_escaped_or_not)
{
    enum { length = 5000 };
    static char name[length + 1];
    static char body[2 * length];
    static const char *const last[] = {"a", "\\u0061"};
    struct models_list list;

    memset(name, 'a', length - 1);
    for (size_t i = 0; i < ARRAY_COUNT(last); i++) {
        snprintf(body, sizeof(body), "{\"data\":[{\"id\":\"%s%s\"}]}", name, last[i]);
        CHECK_EQ(models_list_read(slice_str(body), &list), STATUS_OK);
        CHECK_EQ(list.count, 1);
        CHECK_EQ(strlen(list.models[0].name), length);
        CHECK_EQ(strspn(list.models[0].name, "a"), length);
        models_list_free(&list);
    }
}

TEST(the_first_entries_of_a_very_long_list_are_taken)
{
    size_t capacity = (size_t)(models_list_count_max + 10) * 32;
    char *body = malloc(capacity);
    struct models_list list;
    CHECK(body != NULL);
    struct text text = text_over(body, capacity);
    text_add_str(&text, "{\"data\":[");
    for (int i = 0; i < models_list_count_max + 10; i++) {
        text_add_format(&text, "%s{\"id\":\"m%d\"}", i > 0 ? "," : "", i);
    }
    text_add_str(&text, "]}");
    CHECK(!text.overflow);
    CHECK_EQ(models_list_read(text_slice(&text), &list), STATUS_OK);
    CHECK_EQ(list.count, models_list_count_max);
    CHECK_STR(list.models[0].name, "m0");
    CHECK_STR(list.models[models_list_count_max - 1].name, "m4095");
    models_list_free(&list);
    free(body);
}

TEST(nesting_without_end_is_refused)
{
    static char body[8192];
    struct text text = text_over(body, sizeof(body));
    text_add_str(&text, "{\"data\":[{\"id\":\"a\",\"x\":");
    for (int i = 0; i < 1000; i++) {
        text_add_str(&text, "[");
    }
    for (int i = 0; i < 1000; i++) {
        text_add_str(&text, "]");
    }
    text_add_str(&text, "}]}");
    CHECK(!text.overflow);
    CHECK_STR(names_of(text_slice(&text)), malformed);
}

TEST(an_entry_with_a_parent_is_an_adapter)
{
    struct models_list list;
    CHECK_EQ(models_list_read(slice_str(vllm), &list), STATUS_OK);
    CHECK_EQ(list.count, 2);
    CHECK(!list.models[0].is_adapter);
    CHECK(list.models[1].is_adapter);
    models_list_free(&list);
}

TEST(a_model_ignores_the_name_if_llama_server_has_no_other)
{
    static const struct {
        const char *body;
        bool ignores_name;
    } cases[] = {
        {llama_cpp, true},
        {llama_cpp_router, false},
        {vllm, false},
        {sglang, false},
        {ollama, false},
        {"{\"data\":[{\"id\":\"a\",\"owned_by\":\"llamac\\u0070p\",\"status\":null}]}", true},
        {"{\"data\":[{\"id\":\"a\",\"owned_by\":\"llamacpp2\"}]}", false},
        {"{\"data\":[{\"id\":\"a\",\"owned_by\":[\"llamacpp\"]}]}", false},
        {"{\"data\":[{\"id\":\"llamacpp\"}]}", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct models_list list;
        CHECK_EQ(models_list_read(slice_str(cases[i].body), &list), STATUS_OK);
        CHECK_EQ(list.models[0].ignores_name, cases[i].ignores_name);
        models_list_free(&list);
    }
}
