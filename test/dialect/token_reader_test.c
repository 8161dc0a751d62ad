// SPDX-License-Identifier: Apache-2.0

#include "dialect/token_reader.h"

#include "test.h"
#include "tiny_dialect.h"

static struct tiny_set tiny;

static void open_with(struct dialect_options options)
{
    tiny_set_open(&tiny, tiny_dialect(options));
}

static enum status read_at(enum prompt_api api, const char *body, uint64_t wall_s,
                           struct token_result *out)
{
    return token_reader_begin(
        tiny.reader,
        &(struct token_request){
            .dialect = tiny.set.dialects[0], .api = api, .body = slice_str(body), .wall_s = wall_s},
        SIZE_MAX, out);
}

static enum status read(enum prompt_api api, const char *body, struct token_result *out)
{
    return read_at(api, body, 0, out);
}

// Ids as text: bytes as they are, markers by their letter.
static const char *ids_text(const struct token_result *result)
{
    static char line[4096];
    uint32_t i = 0;
    for (; i < result->count && i + 1 < sizeof(line); i++) {
        uint32_t id = result->ids[i];
        line[i] = (char)(id < 256 ? id : (uint32_t) "[]^!"[id - 256]);
    }
    line[i] = '\0';
    return line;
}

#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"

TEST(a_chat_becomes_the_ids_of_its_rendered_text)
{
    struct token_result result = {0};
    open_with((struct dialect_options){.is_trusted = true});
    CHECK_EQ(read(PROMPT_CHAT, CHAT, &result), STATUS_OK);
    CHECK_STR(ids_text(&result), "[user\nHi]\n[assistant\n");
    CHECK_EQ(result.shape, CHAT_PLAIN_SHAPE);
    CHECK(result.dialect == tiny.set.dialects[0]);
    tiny_set_close(&tiny);
}

TEST(a_completion_gets_the_special_tokens_of_the_tokenizer)
{
    struct token_result result = {0};
    open_with((struct dialect_options){.is_trusted = true});
    CHECK_EQ(read(PROMPT_COMPLETION, "{\"prompt\":\"a\\u0062<|im_end|>\"}", &result), STATUS_OK);
    CHECK_STR(ids_text(&result), "^ab]");
    CHECK_EQ(result.shape, CHAT_COMPLETION_SHAPE);
    CHECK_EQ(read(PROMPT_COMPLETION, "{\"prompt\":\"ab\",\"add_special_tokens\":false}", &result),
             STATUS_OK);
    CHECK_STR(ids_text(&result), "ab");
    CHECK_EQ(read(PROMPT_GENERATE, "{\"text\":\"ab\"}", &result), STATUS_OK);
    CHECK_STR(ids_text(&result), "^ab");
    CHECK_EQ(read(PROMPT_COMPLETION, "{\"prompt\":\"\"}", &result), STATUS_OK);
    CHECK_STR(ids_text(&result), "^");
    tiny_set_close(&tiny);
}

TEST(requests_with_uncertified_features_have_no_ids)
{
    struct token_result result = {0};
    open_with((struct dialect_options){0});
    CHECK_EQ(read(PROMPT_CHAT, CHAT, &result), STATUS_MALFORMED);
    CHECK_STR(token_reader_why(tiny.reader), "it uses a feature that is not certified");
    CHECK_EQ(read(PROMPT_COMPLETION, "{\"prompt\":\"a\"}", &result), STATUS_MALFORMED);
    atomic_store(&tiny.set.dialects[0]->shared.certified, (unsigned)CHAT_PLAIN_SHAPE);
    CHECK_EQ(read(PROMPT_CHAT, CHAT, &result), STATUS_OK);
    CHECK_EQ(read(PROMPT_CHAT,
                  "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},"
                  "{\"role\":\"user\",\"content\":\"Hi\"}]}",
                  &result),
             STATUS_MALFORMED);
    CHECK_EQ(atomic_load(&tiny.set.dialects[0]->shared.by_ids_count), 1);
    CHECK_EQ(atomic_load(&tiny.set.dialects[0]->shared.by_text_count), 3);
    tiny_set_close(&tiny);
}

TEST(requests_that_depend_on_more_than_the_body_have_no_ids)
{
    struct token_result result = {0};
    static const char *const bodies[] = {
        "{\"prompt\":[\"a\",\"b\"]}",
        "{\"prompt\":\"a\",\"suffix\":\"b\"}",
        "{\"prompt\":\"a\",\"truncate_prompt_tokens\":4}",
        "{\"prompt\":\"a\",\"prompt_embeds\":\"x\"}",
        "{\"prompt\":\"\\ud800\"}",
        "{\"prompt\":",
    };
    open_with((struct dialect_options){.is_trusted = true});
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        CHECK_EQ(read(PROMPT_COMPLETION, bodies[i], &result), STATUS_MALFORMED);
    }
    CHECK_EQ(read(PROMPT_EMBEDDING, "{\"input\":\"a\"}", &result), STATUS_MALFORMED);
    CHECK_EQ(read(PROMPT_CHAT,
                  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                  "\"image_url\":{\"url\":\"http://x/y.png\"}}]}]}",
                  &result),
             STATUS_MALFORMED);
    tiny_set_close(&tiny);
}

TEST(a_request_whose_template_raises_an_error_has_no_ids)
{
    struct token_result result = {0};
    open_with((struct dialect_options){
        .is_trusted = true, .template = slice_str("{{ raise_exception('no system please') }}")});
    CHECK_EQ(read(PROMPT_CHAT, CHAT, &result), STATUS_MALFORMED);
    CHECK(strstr(token_reader_why(tiny.reader), "no system please") != NULL);
    tiny_set_close(&tiny);
}

// Numbers of a tool, which take a microsecond each to print.
TEST(a_request_that_takes_too_many_steps_has_no_ids)
{
    static uint8_t space[600000];
    struct token_result result = {0};
    open_with((struct dialect_options){.is_trusted = true});
    for (uint32_t count = 1000; count <= 100000; count *= 100) {
        struct text body = text_over(space, sizeof(space) - 1);
        text_add_str(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{"
                            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
                            "\"a\":[0.5");
        for (uint32_t i = 0; i < count; i++) {
            text_add_str(&body, ",1e9");
        }
        text_add_str(&body, "]}}}]}");
        space[body.size] = '\0';
        CHECK_EQ(read(PROMPT_CHAT, (const char *)space, &result),
                 count == 1000 ? STATUS_OK : STATUS_TOO_LARGE);
    }
    CHECK_STR(token_reader_why(tiny.reader), "the template takes too long");
    tiny_set_close(&tiny);
}

TEST(requests_with_tools_have_their_own_template)
{
    struct token_result result = {0};
    open_with((struct dialect_options){
        .is_trusted = true,
        .config = slice_str("{\"chat_template\":[{\"name\":\"default\",\"template\":\"d\"},"
                            "{\"name\":\"tool_use\",\"template\":\"t\"}]}")});
    CHECK_EQ(read(PROMPT_CHAT, CHAT, &result), STATUS_OK);
    CHECK_STR(ids_text(&result), "d");
    CHECK_EQ(read(PROMPT_CHAT,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"tools\":[{\"type\":"
                  "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]}",
                  &result),
             STATUS_OK);
    CHECK_STR(ids_text(&result), "t");
    tiny_set_close(&tiny);
}

struct date {
    uint64_t wall_s;
    int32_t offset_s;
    const char *text;
};

static void check_date(const struct date *date)
{
    struct token_result result = {0};
    open_with((struct dialect_options){
        .is_trusted = true,
        .utc_offset_s = date->offset_s,
        .template = slice_str("{{ strftime_now('%Y-%m-%d %H:%M:%S %a %j') }}")});
    enum status status = read_at(PROMPT_CHAT, CHAT, date->wall_s, &result);
    // The date of a request may be another when the engine gets it.
    bool is_midnight = strstr(date->text, "00:00:00") != NULL;
    CHECK_EQ(status, is_midnight ? STATUS_MALFORMED : STATUS_OK);
    CHECK_STR(is_midnight ? date->text : ids_text(&result), date->text);
    tiny_set_close(&tiny);
}

TEST(dates_are_those_of_the_engine_s_clock)
{
    static const struct date dates[] = {
        {3600, 0, "1970-01-01 01:00:00 Thu 001"},
        {951782400 + 43200, 0, "2000-02-29 12:00:00 Tue 060"},
        {951868800 + 43200, 0, "2000-03-01 12:00:00 Wed 061"},
        {1767182400, 7200, "2025-12-31 14:00:00 Wed 365"},
        {1767222000 - 3600, 7200, "2026-01-01 00:00:00 Thu 001"},
        {1735707600, -36000, "2024-12-31 19:00:00 Tue 366"},
        {4107542400 + 3600, 0, "2100-03-01 01:00:00 Mon 060"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(dates); i++) {
        check_date(&dates[i]);
    }
}

TEST(a_long_text_comes_in_portions_and_is_the_same)
{
    enum { size = 300000 };
    static char body[size + 64];
    static uint32_t whole[size + 2];
    struct token_result result = {0};
    uint32_t portions = 0;

    struct text out = text_over(body, sizeof(body) - 1);
    text_add_str(&out, "{\"prompt\":\"");
    for (uint32_t i = 0; out.size < size; i++) {
        text_add_format(&out, "word%u and ", i * 7919);
    }
    text_add_str(&out, "\"}");
    body[out.size] = '\0';
    open_with((struct dialect_options){.is_trusted = true});
    CHECK_EQ(read(PROMPT_COMPLETION, body, &result), STATUS_OK);
    memcpy(whole, result.ids, result.count * sizeof(uint32_t));
    uint32_t count = result.count;
    tiny_set_close(&tiny);

    open_with((struct dialect_options){.is_trusted = true});
    enum status status = token_reader_begin(tiny.reader,
                                            &(struct token_request){.dialect = tiny.set.dialects[0],
                                                                    .api = PROMPT_COMPLETION,
                                                                    .body = slice_str(body)},
                                            65536, &result);
    while (status == STATUS_AGAIN) {
        memset(body, 'x', sizeof(body)); // it is not needed any more
        portions++;
        status = token_reader_continue(tiny.reader, 65536, &result);
    }
    CHECK_EQ(status, STATUS_OK);
    CHECK(portions >= 3 && portions <= 6);
    CHECK_EQ(result.count, count);
    CHECK(memcmp(whole, result.ids, count * sizeof(uint32_t)) == 0);
    tiny_set_close(&tiny);
}

TEST(a_beginning_that_was_seen_is_remembered)
{
    enum { size = 20000 };
    static char body[size + 64];
    struct token_result result = {0};

    struct text out = text_over(body, sizeof(body) - 1);
    text_add_str(&out, "{\"prompt\":\"");
    for (uint32_t i = 0; out.size < size; i++) {
        text_add_format(&out, "line %u\\n", i);
    }
    text_add_str(&out, "\"}");
    body[out.size] = '\0';
    open_with((struct dialect_options){.is_trusted = true});
    const struct dialect *dialect = tiny.set.dialects[0];
    CHECK_EQ(read(PROMPT_COMPLETION, body, &result), STATUS_OK);
    CHECK_EQ(atomic_load(&dialect->shared.known_bytes), 0);
    CHECK_EQ(read(PROMPT_COMPLETION, body, &result), STATUS_OK);
    CHECK(atomic_load(&dialect->shared.known_bytes) * 2 >
          atomic_load(&dialect->shared.text_bytes) * 9 / 10);
    tiny_set_close(&tiny);
}

TEST(tenants_do_not_share_remembered_texts)
{
    enum { size = 20000 };
    static char body[size + 64];
    static const char *const salts[] = {"a", "b", "", "a"};
    struct token_result result = {0};

    struct text out = text_over(body, sizeof(body) - 1);
    text_add_str(&out, "{\"prompt\":\"");
    for (uint32_t i = 0; out.size < size; i++) {
        text_add_format(&out, "line %u\\n", i);
    }
    text_add_str(&out, "\"}");
    open_with((struct dialect_options){.is_trusted = true});
    struct dialect *dialect = tiny.set.dialects[0];
    for (size_t i = 0; i < ARRAY_COUNT(salts); i++) {
        uint64_t before = atomic_load(&dialect->shared.known_bytes);
        struct token_request request = {.dialect = dialect,
                                        .api = PROMPT_COMPLETION,
                                        .body = text_slice(&out),
                                        .salt = slice_str(salts[i])};
        CHECK_EQ(token_reader_begin(tiny.reader, &request, SIZE_MAX, &result), STATUS_OK);
        CHECK_EQ(atomic_load(&dialect->shared.known_bytes) > before, i == 3);
    }
    tiny_set_close(&tiny);
}

TEST(a_text_that_is_too_long_has_no_ids)
{
    static char body[2 << 20];
    struct slice before = slice_str("{\"prompt\":\"");
    struct slice after = slice_str("\"}");
    struct token_result result = {0};
    memset(body, 'a', sizeof(body) - 1);
    memcpy(body, before.bytes, before.size);
    memcpy(body + sizeof(body) - 1 - after.size, after.bytes, after.size);
    open_with((struct dialect_options){.is_trusted = true});
    CHECK_EQ(read(PROMPT_COMPLETION, body, &result), STATUS_TOO_LARGE);
    tiny_set_close(&tiny);
}

TEST(a_set_finds_the_dialect_of_a_model)
{
    const char *name = "m";
    open_with((struct dialect_options){.models = &name, .model_count = 1, .forwards_ids = true});
    CHECK(dialect_set_find(&tiny.set, slice_str("m")) == tiny.set.dialects[0]);
    CHECK(dialect_set_find(&tiny.set, slice_str("n")) == NULL);
    CHECK(dialect_set_find(NULL, slice_str("m")) == NULL);
    CHECK(dialect_set_forwards_ids(&tiny.set, slice_str("m")));
    CHECK(!dialect_set_forwards_ids(&tiny.set, slice_str("n")));
    tiny_set_close(&tiny);
}

TEST(the_text_of_a_response_extends_the_chain_of_its_prompt)
{
    uint64_t keys[2][8];
    struct prefix_chain whole;
    struct prefix_chain parts;
    struct token_result result = {0};

    open_with((struct dialect_options){.is_trusted = true});
    prefix_chain_begin(&whole, 7, 16, keys[0], 8);
    prefix_chain_begin(&parts, 7, 16, keys[1], 8);
    CHECK_EQ(read(PROMPT_COMPLETION,
                  "{\"prompt\":\"Hi\\n<|im_end|> there\",\"add_special_tokens\":false}", &result),
             STATUS_OK);
    prefix_chain_add(&whole, slice_of(result.ids, result.count * sizeof(uint32_t)));
    const struct dialect *dialect = tiny.set.dialects[0];
    CHECK(token_thread_add_response(tiny.thread, dialect, slice_str("Hi"), &parts));
    CHECK(token_thread_add_response(tiny.thread, dialect, slice_str(""), &parts));
    CHECK(token_thread_add_response(tiny.thread, dialect, slice_str("\\n<|im_end|>"), &parts));
    CHECK(token_thread_add_response(tiny.thread, dialect, slice_str(" there"), &parts));
    CHECK_EQ(parts.size, whole.size);
    CHECK_EQ(parts.key_count, 2);
    CHECK(memcmp(keys[0], keys[1], sizeof(uint64_t) * 2) == 0);
    CHECK(!token_thread_add_response(tiny.thread, dialect, slice_str("\\ud800"), &parts));
    CHECK_EQ(parts.size, whole.size);
    tiny_set_close(&tiny);
}
