// SPDX-License-Identifier: Apache-2.0
//
// The command is a process of its own; the engine that it asks is here.

#include "cli/child.h"
#include "cli/tiny_files.h"
#include "config/option/command.h"
#include "dialect/tiny_engine.h"
#include "net/stub_server.h"
#include "test.h"

enum { response_size_max = 262144 };

static struct child child;
static struct tiny_files files;
static struct tiny_set engine;
static struct loop *loop;
static struct stub_server server;
static char url[64];

static void compute(struct stub_route *route, struct slice body)
{
    static uint8_t space[response_size_max];
    static uint8_t answer[response_size_max];
    struct text json = text_over(space, sizeof(space));
    struct text out = text_over(answer, sizeof(answer));
    uint16_t status = tiny_engine_respond(&engine, route->path, body, &json);

    text_add_format(&out, "HTTP/1.1 %u X\r\ncontent-length: %zu\r\n\r\n", status, json.size);
    text_add(&out, text_slice(&json));
    ASSERT(!out.overflow);
    route->answer = text_slice(&out);
}

// An engine with that template; the files have the tiny one.
static void set_up(const char *template)
{
    static const char missing[] = "HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n";
    static const char models[] =
        "HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"data\":[{\"id\":\"m\"}]}";

    tiny_files_make(&files);
    tiny_write(&files, "chat_template.jinja", slice_str(TINY_TEMPLATE));
    tiny_set_open(&engine, tiny_dialect((struct dialect_options){.is_trusted = true,
                                                                 .template = slice_str(template)}));
    ASSERT(loop_create(&loop) == STATUS_OK);
    stub_start(&server, loop);
    server.routes[0] = (struct stub_route){.path = "/health", .answer = slice_str(missing)};
    server.routes[1] = (struct stub_route){.path = "/v1/models", .answer = slice_str(models)};
    server.routes[2] = (struct stub_route){.path = "/tokenize", .compute = compute};
    server.routes[3] =
        (struct stub_route){.path = "/v1/chat/completions/render", .answer = slice_str(missing)};
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
}

static void tear_down(void)
{
    child_close(&child);
    stub_stop(&server);
    loop_destroy(&loop);
    tiny_set_close(&engine);
    tiny_files_remove(&files);
}

static int certify(const char *const *words)
{
    uint64_t end_ns = clock_monotonic_ns() + child_wait_ms * (uint64_t)1000000;
    child_start(&child, command_certify, words);
    while (!child_is_over(&child) && clock_monotonic_ns() < end_ns) {
        loop_turn(loop, 2);
    }
    return child_finish(&child);
}

#define TOKENIZER "--tokenizer", files.directory
#define ENGINE "--backend", url

TEST(an_engine_that_agrees_is_a_success_with_every_case)
{
    set_up(TINY_TEMPLATE);
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER)), COMMAND_OK);
    const char *text = child_text(child.out);
    CHECK(strstr(text, "  user                         agrees") != NULL);
    CHECK(strstr(text, " differs ") == NULL);
    CHECK(strstr(text, " cases agree, 0 differ, ") != NULL);
    CHECK(strstr(text, "certified: plain,system,") != NULL);
    CHECK_STR(child_text(child.err), "");
    CHECK(strstr(server.request, "{\"model\":\"m\",") != NULL);
    tear_down();
}

TEST(an_engine_that_differs_is_a_failure_that_names_the_cases)
{
    set_up("x" TINY_TEMPLATE);
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER)), COMMAND_FAILED);
    const char *text = child_text(child.out);
    CHECK(strstr(text, "  user                         differs  token 0: the engine has 120, we "
                       "have 256\n") != NULL);
    CHECK(strstr(text, "certified: completion\n") != NULL);
    tear_down();
}

TEST(quiet_is_the_result_alone)
{
    set_up(TINY_TEMPLATE);
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER, "--quiet")), COMMAND_OK);
    const char *text = child_text(child.out);
    CHECK(strstr(text, "agrees") == NULL);
    CHECK(strchr(text, '\n') == text + strlen(text) - 1);
    tear_down();
}

TEST(the_model_and_the_key_are_sent)
{
    set_up(TINY_TEMPLATE);
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER, "--model", "other", "--api-key", "k")), COMMAND_OK);
    CHECK(strstr(server.request, "{\"model\":\"other\",") != NULL);
    CHECK(strstr(server.request, "authorization: Bearer k\r\n") != NULL);
    tear_down();
}

TEST(an_engine_without_the_endpoints_is_a_failure)
{
    set_up(TINY_TEMPLATE);
    server.routes[2] = server.routes[3];
    server.routes[2].path = "/tokenize";
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER)), COMMAND_FAILED);
    CHECK_STR(child_text(child.out),
              "cannot be asked: /v1/chat/completions/render responds with status 404\n");
    tear_down();
}

TEST(an_engine_that_is_not_there_ends_with_the_time)
{
    set_up(TINY_TEMPLATE);
    // Port 1 of this machine is nobody's.
    CHECK_EQ(certify(WORDS("--backend", "http://127.0.0.1:1", TOKENIZER, "--timeout", "200ms")),
             COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath certify: not every backend responded in time\n");
    tear_down();
}

TEST(a_refused_tokenizer_is_reported_with_the_reason)
{
    set_up(TINY_TEMPLATE);
    tiny_write(&files, "tokenizer.json", slice_str("{}"));
    CHECK_EQ(certify(WORDS(ENGINE, TOKENIZER)), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "tokenizer.json: ") != NULL);
    child_close(&child);
    CHECK_EQ(certify(WORDS(ENGINE, "--tokenizer", "/nonexistent")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "/nonexistent") != NULL);
    tear_down();
}

TEST(a_command_line_that_is_wrong_is_refused_with_a_reason)
{
    set_up(TINY_TEMPLATE);
    const struct {
        const char *words[8];
        const char *reason;
    } bad[] = {
        {{TOKENIZER}, "give --backend URL and --tokenizer DIR"},
        {{ENGINE}, "give --backend URL and --tokenizer DIR"},
        {{TOKENIZER, "--backend", "nonsense"}, "nonsense"},
        {{TOKENIZER, ENGINE, "--engine", "tgi"}, "tgi"},
        {{TOKENIZER, ENGINE, "--timeout", "soon"}, "--timeout"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(certify(bad[i].words), COMMAND_USAGE);
        CHECK(strstr(child_text(child.err), bad[i].reason) != NULL);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
    CHECK_EQ(certify(WORDS("--help")), COMMAND_OK);
    tear_down();
}
