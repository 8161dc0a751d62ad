// SPDX-License-Identifier: Apache-2.0
//
// The command runs in a process of its own; a stub server in this one plays the router.

#include "cli/child.h"
#include "config/option/command.h"
#include "net/stub_server.h"
#include "test.h"

static struct child child;
static struct loop *loop;
static struct stub_server server;
static char url[64];

#define CHAT_PATH "/explain?path=/v1/chat/completions"

static const char document[] =
    "{\"summary\":\"It goes to b.\",\"by_token_ids\":false,\"prompt_tokens\":20,\"backends\":["
    "{\"url\":\"a\",\"chosen\":false,\"matched_tokens\":0},"
    "{\"url\":\"b\",\"chosen\":true,\"matched_tokens\":16}]}";

static void set_up(const char *path, uint16_t status, const char *body)
{
    static char answer[4096];
    ASSERT(loop_create(&loop) == STATUS_OK);
    stub_start(&server, loop);
    snprintf(answer, sizeof(answer), "HTTP/1.1 %u X\r\ncontent-length: %zu\r\n\r\n%s", status,
             strlen(body), body);
    server.routes[0] = (struct stub_route){.path = path, .answer = slice_str(answer)};
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
}

static void tear_down(void)
{
    child_close(&child);
    stub_stop(&server);
    loop_destroy(&loop);
}

static int explain(const char *const *words)
{
    uint64_t end_ns = clock_monotonic_ns() + child_wait_ms * (uint64_t)1000000;
    child_start(&child, command_explain, words);
    while (!child_is_over(&child) && clock_monotonic_ns() < end_ns) {
        loop_turn(loop, 2);
    }
    return child_finish(&child);
}

// A file of this process, and so of its child.
struct file {
    int fd;
    char path[64];
};

static struct file file_of(const char *text)
{
    struct file file = {.fd = memfd_create("file", MFD_CLOEXEC)};
    ASSERT(file.fd != -1);
    ASSERT(write(file.fd, text, strlen(text)) == (ssize_t)strlen(text));
    snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
    return file;
}

TEST(a_prompt_is_posted_as_a_chat_and_the_response_shown_as_a_table)
{
    set_up(CHAT_PATH, 200, document);
    CHECK_EQ(explain(WORDS("--admin", url, "--token", "secret", "--model", "m", "--prompt",
                           "say \"hi\"")),
             COMMAND_OK);
    CHECK(strstr(server.request, "POST " CHAT_PATH " HTTP/1.1\r\n") != NULL);
    CHECK(strstr(server.request, "authorization: Bearer secret\r\n") != NULL);
    CHECK(strstr(server.request, "\r\n\r\n{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
                                 "\"content\":\"say \\\"hi\\\"\"}]}") != NULL);
    CHECK(strstr(child_text(child.out), "\n  a             0\n> b            16\n") != NULL);
    CHECK_STR(child_text(child.err), "");
    tear_down();
}

TEST(body_and_token_are_read_from_files_and_json_is_printed_unchanged)
{
    struct file body = file_of("{\"prompt\":[1,2]}");
    struct file token = file_of("from-file\n");
    set_up("/explain?path=/v1/completions", 200, document);
    CHECK_EQ(explain(WORDS("--admin", url, "--token-file", token.path, "--body", body.path,
                           "--path", "/v1/completions", "--json")),
             COMMAND_OK);
    CHECK(strstr(server.request, "authorization: Bearer from-file\r\n") != NULL);
    CHECK(strstr(server.request, "\r\n\r\n{\"prompt\":[1,2]}") != NULL);
    const char *out = child_text(child.out);
    CHECK_EQ(strlen(out), strlen(document) + 1);
    CHECK_EQ(memcmp(out, document, strlen(document)), 0);
    close(body.fd);
    close(token.fd);
    tear_down();
}

static const char decision[] = "{\"why\":\"warm chose b.\",\"outcome\":\"ok\",\"status\":200,"
                               "\"backend\":{\"id\":2,\"url\":\"b\"},\"expected_tokens\":16,"
                               "\"rivals\":[{\"id\":1,\"url\":\"a\",\"expected_tokens\":0}]}";

TEST(a_past_request_is_looked_up_by_its_id)
{
    set_up("/explain?id=a%2Fb%20%25-1.~_", 200, decision);
    CHECK_EQ(explain(WORDS("--admin", url, "--token", "secret", "--id", "a/b %-1.~_")), COMMAND_OK);
    CHECK(strstr(server.request, "GET /explain?id=a%2Fb%20%25-1.~_ HTTP/1.1\r\n") != NULL);
    CHECK(strstr(server.request, "authorization: Bearer secret\r\n") != NULL);
    CHECK_STR(child_text(child.out), "warm chose b.\nIt ended as ok (200).\n\n"
                                     "  backend  cached\n> b            16\n  a             0\n");
    tear_down();
    set_up("/explain?id=x", 404, "{\"error\":{\"message\":\"it is not kept\"}}");
    CHECK_EQ(explain(WORDS("--admin", url, "--id", "x")), COMMAND_FAILED);
    CHECK_STR(child_text(child.err),
              "warmpath explain: the router responds with 404: it is not kept\n");
    tear_down();
}

TEST(a_file_needs_no_flag)
{
    struct file body = file_of("{\"prompt\":[1,2]}");
    set_up(CHAT_PATH, 200, document);
    CHECK_EQ(explain(WORDS(body.path, "--admin", url)), COMMAND_OK);
    CHECK(strstr(server.request, "\r\n\r\n{\"prompt\":[1,2]}") != NULL);
    close(body.fd);
    tear_down();
}

TEST(a_prompt_for_completions_is_one)
{
    set_up("/explain?path=/v1/completions", 200, document);
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi", "--path", "/v1/completions")),
             COMMAND_OK);
    CHECK(strstr(server.request, "\r\n\r\n{\"prompt\":\"hi\"}") != NULL);
    CHECK(strstr(server.request, "authorization") == NULL);
    tear_down();
}

TEST(an_error_of_the_router_is_printed)
{
    set_up(CHAT_PATH, 404, "{\"error\":{\"message\":\"no such model\",\"code\":404}}");
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi")), COMMAND_FAILED);
    CHECK_STR(child_text(child.err),
              "warmpath explain: the router responds with 404: no such model\n");
    tear_down();
    set_up(CHAT_PATH, 502, "sorry");
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi")), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath explain: the router responds with 502\n");
    tear_down();
    set_up(CHAT_PATH, 200, "{\"data\":[]}");
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi")), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath explain: the response: not an explanation\n");
    tear_down();
}

TEST(a_router_that_does_not_listen_is_a_failure_with_a_reason)
{
    set_up(CHAT_PATH, 200, "");
    server.slams = true;
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), url) != NULL);
    tear_down();
    set_up(CHAT_PATH, 200, "");
    server.routes[0].answer = (struct slice){0};
    CHECK_EQ(explain(WORDS("--admin", url, "--prompt", "hi", "--timeout", "50ms")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "timed out") != NULL);
    tear_down();
}

static int refuse(const char *const *words)
{
    child_start(&child, command_explain, words);
    int status = child_finish(&child);
    child_close(&child);
    return status;
}

TEST(contradictory_command_lines_are_refused)
{
    CHECK_EQ(refuse(WORDS("--prompt", "hi")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "127.0.0.1:1", "--prompt", "hi")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--body", "-")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--body", "-", "--model", "m")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--id", "x", "--prompt", "hi")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--id", "")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--path", "x")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--path", "/a b")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--timeout", "0")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--token", "t", "--token-file",
                          "f")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--prompt", "hi", "--token", "a\r\nb")),
             COMMAND_FAILED);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--body", "/nowhere/at/all")), COMMAND_FAILED);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--body", "/dev/null")), COMMAND_FAILED);
    CHECK_EQ(refuse(WORDS("--help")), COMMAND_OK);
}
