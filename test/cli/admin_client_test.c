// SPDX-License-Identifier: Apache-2.0

#include "cli/admin_client.h"

#include "config/option/command.h"
#include "net/stub_server.h"
#include "test.h"

#include <sys/mman.h>
#include <unistd.h>

static struct admin_client client;
static struct admin_client_options options;
static struct loop *loop;
static struct stub_server server;
static char url[64];
static char why[admin_why_size];
static uint16_t answer_status;
static bool is_answered;

static int read_flag(const char *text)
{
    struct flag_options {
        struct admin_client_options admin;
    } got;
#define OWNER struct flag_options
    static const struct config_option rows[] = {ADMIN_CLIENT_FLAGS("5s")};
    static const struct config_option_table table = FLAG_TABLE("test", rows);
#undef OWNER
    char word[64];
    snprintf(word, sizeof(word), "%s", text);
    return flags_read(&table, 1, (char *[]){word}, &got);
}

TEST(the_time_for_a_response_has_bounds)
{
    CHECK_EQ(read_flag("--timeout=1ms"), FLAGS_READ);
    CHECK_EQ(read_flag("--timeout=0"), COMMAND_USAGE);
    CHECK_EQ(read_flag("--timeout=4000"), COMMAND_USAGE);
}

static bool check(struct admin_client_options given)
{
    options = given;
    return admin_client_check(&client, "test", &options);
}

TEST(contradictory_options_are_refused)
{
    CHECK(!check((struct admin_client_options){.timeout = 1}));
    CHECK(!check((struct admin_client_options){.url = "127.0.0.1:1", .timeout = 1}));
    CHECK(!check((struct admin_client_options){
        .url = "http://h:1", .timeout = 1, .token = "t", .token_file = "f"}));
    CHECK(
        check((struct admin_client_options){.url = "http://h:1/base", .timeout = 1, .token = "t"}));
}

static void answered(void *owner, const struct fetch_result *result)
{
    CHECK(owner == &client);
    is_answered = true;
    answer_status = result->status;
    if (result->status != 200) {
        admin_client_why(result, why);
    }
}

static void set_up(struct admin_client_options given, const char *path, const char *answer)
{
    ASSERT(loop_create(&loop) == STATUS_OK);
    stub_start(&server, loop);
    server.routes[0] = (struct stub_route){.path = path, .answer = slice_str(answer)};
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", server.port);
    given.url = url;
    given.timeout = 5;
    ASSERT(check(given));
}

static void tear_down(void)
{
    admin_client_close(&client);
    stub_stop(&server);
    loop_destroy(&loop);
}

static void ask(const char *path)
{
    is_answered = false;
    ASSERT(admin_client_ask(&client, path, (struct slice){0}, 0, answered, &client) != NULL);
    while (!is_answered) {
        loop_turn(loop, 100);
    }
    loop_turn(loop, 0);
}

TEST(a_request_carries_the_token)
{
    set_up((struct admin_client_options){.token = "secret"}, "/overview?since=5",
           "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    CHECK(admin_client_open(&client, loop));
    ask("/overview?since=5");
    CHECK_EQ(answer_status, 200);
    CHECK(strstr(server.request, "GET /overview?since=5 HTTP/1.1\r\n") == server.request);
    CHECK(strstr(server.request, "\r\nauthorization: Bearer secret\r\n") != NULL);
    admin_client_turn(&client);
    CHECK_EQ(client.address, 0);
    tear_down();
    CHECK_EQ(client.authorization[0], '\0');
}

TEST(a_token_is_the_first_line_of_its_file)
{
    char path[64];
    int fd = memfd_create("token", MFD_CLOEXEC);
    CHECK(fd != -1);
    CHECK_EQ(write(fd, "from-file\nrest", 14), 14);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    set_up((struct admin_client_options){.token_file = path}, "/x", "");
    CHECK(admin_client_open(&client, loop));
    CHECK_STR(client.authorization, "Bearer from-file");
    tear_down();
    close(fd);
    set_up((struct admin_client_options){.token_file = "/nowhere/at/all"}, "/x", "");
    CHECK(!admin_client_open(&client, loop));
    tear_down();
    set_up((struct admin_client_options){.token = "a\r\nb"}, "/x", "");
    CHECK(!admin_client_open(&client, loop));
    tear_down();
}

TEST(a_refusal_has_the_routers_own_message)
{
    set_up(
        (struct admin_client_options){0}, "/x",
        "HTTP/1.1 401 X\r\ncontent-length: 37\r\n\r\n{\"error\":{\"message\":\"no such token\"}}");
    CHECK(admin_client_open(&client, loop));
    ask("/x");
    CHECK_STR(why, "the router responds with 401: no such token");
    CHECK(strstr(server.request, "authorization") == NULL);
    server.routes[0].answer = slice_str("HTTP/1.1 502 X\r\ncontent-length: 5\r\n\r\nsorry");
    ask("/x");
    CHECK_STR(why, "the router responds with 502");
    server.slams = true;
    ask("/x");
    CHECK_EQ(answer_status, 0);
    CHECK(strlen(why) > 0);
    tear_down();
}
