// SPDX-License-Identifier: Apache-2.0
//
// The command runs in a process of its own without a terminal; a stub server in this one plays the
// router.  test/e2e/test_87_top.py has a terminal.

#include "cli/child.h"
#include "config/option/command.h"
#include "net/stub_server.h"
#include "test.h"

static struct child child;
static struct loop *loop;
static struct stub_server server;
static char url[64];
static char answers[2][4096];

static const char overview[] =
    "{\"version\":\"0.1.0\",\"policy\":\"warm\",\"now_ms\":5000,\"uptime_s\":61,\"totals\":{},"
    "\"recent\":{\"hit_rate\":0.5},\"backends\":[{\"url\":\"http://a:1\",\"state\":\"up\"}]}";
static const char decisions[] =
    "{\"serial\":1,\"decisions\":[{\"serial\":1,\"time_ms\":2000,\"outcome\":\"ok\","
    "\"backend\":{\"url\":\"http://a:1\"},\"why\":\"It was idle.\"}]}";

static void set_answer(uint32_t route, const char *path, uint16_t status, const char *body)
{
    snprintf(answers[route], sizeof(answers[route]),
             "HTTP/1.1 %u X\r\ncontent-length: %zu\r\n\r\n%s", status, strlen(body), body);
    server.routes[route] = (struct stub_route){.path = path, .answer = slice_str(answers[route])};
}

static void set_up(uint16_t status, const char *body)
{
    ASSERT(loop_create(&loop) == STATUS_OK);
    stub_start(&server, loop);
    set_answer(0, "/overview", status, body);
    set_answer(1, "/decisions?limit=100&since=0", status, decisions);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
    ASSERT(setenv("COLUMNS", "80", 1) == 0); // NOLINT(concurrency-mt-unsafe)
    ASSERT(unsetenv("LINES") == 0);          // NOLINT(concurrency-mt-unsafe)
    ASSERT(setenv("LC_ALL", "C", 1) == 0);   // NOLINT(concurrency-mt-unsafe)
}

static void tear_down(void)
{
    child_close(&child);
    stub_stop(&server);
    loop_destroy(&loop);
}

static int top(const char *const *words)
{
    uint64_t end_ns = clock_monotonic_ns() + child_wait_ms * (uint64_t)1000000;
    child_start(&child, command_top, words);
    while (!child_is_over(&child) && clock_monotonic_ns() < end_ns) {
        loop_turn(loop, 2);
    }
    return child_finish(&child);
}

TEST(without_a_terminal_one_screen_is_printed)
{
    set_up(200, overview);
    CHECK_EQ(top(WORDS("--admin", url, "--token", "secret")), COMMAND_OK);
    const char *page = child_text(child.out);
    CHECK(strstr(page, "warmpath 0.1.0  policy warm  up 1m 1s") == page);
    CHECK(strstr(page, "\na:1               up ") != NULL);
    CHECK(strstr(page, "\n        It was idle.\n") != NULL);
    CHECK(strstr(page, "q quit") == NULL);
    CHECK(strchr(page, '\033') == NULL);
    CHECK_EQ(page[strlen(page) - 1], '\n');
    CHECK(page[strlen(page) - 2] != '\n');
    CHECK(strstr(server.request, "authorization: Bearer secret\r\n") != NULL);
    CHECK_STR(child_text(child.err), "");
    tear_down();
}

TEST(a_router_without_decisions_is_shown_all_the_same)
{
    set_up(200, overview);
    set_answer(1, "/decisions?limit=100&since=0", 404, "{}");
    CHECK_EQ(top(WORDS("--admin", url, "--once")), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "DECISIONS 0") != NULL);
    tear_down();
}

TEST(failures_are_reported_with_a_reason)
{
    char said[256];
    set_up(401, "{\"error\":{\"message\":\"the token is wrong\"}}");
    CHECK_EQ(top(WORDS("--admin", url, "--once")), COMMAND_FAILED);
    snprintf(said, sizeof(said),
             "warmpath top: %s: the router responds with 401: the token is wrong\n", url);
    CHECK_STR(child_text(child.err), said);
    CHECK_STR(child_text(child.out), "");
    tear_down();
    set_up(200, "{\"data\":[]}");
    CHECK_EQ(top(WORDS("--admin", url, "--once")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "the response is not an overview") != NULL);
    tear_down();
    set_up(200, overview);
    server.routes[0].answer = (struct slice){0};
    CHECK_EQ(top(WORDS("--admin", url, "--once", "--timeout", "50ms")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "timed out") != NULL);
    tear_down();
}

static int refuse(const char *const *words)
{
    child_start(&child, command_top, words);
    int status = child_finish(&child);
    child_close(&child);
    return status;
}

TEST(contradictory_command_lines_are_refused)
{
    CHECK_EQ(refuse(WORDS("--once")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "h:1")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--interval", "1ms")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--interval", "2h")), COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--token", "t", "--token-file", "f")),
             COMMAND_USAGE);
    CHECK_EQ(refuse(WORDS("--admin", "http://h:1", "--token-file", "/nowhere")), COMMAND_FAILED);
    CHECK_EQ(refuse(WORDS("--help")), COMMAND_OK);
}
