// SPDX-License-Identifier: Apache-2.0
//
// Clients in the loop of the admin API; what each path does is in admin_api_test.c.

#include "admin/admin.h"

#include "admin/keeper_scene.h"
#include "admin/short_memory.h"
#include "admin/stream.h"
#include "admin/told_scribe.h"
#include "base/text.h"
#include "net/tcp.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { connection_count_max = 64, request_size_max = 8 << 20, head_size_max = 65536 };

struct door {
    struct scene scene;
    struct admin *admin;
    struct address address;
    char listen[32];
};

struct client {
    size_t in_size;
    int fd;
    bool closed;
    char in[262144];
};

// A port that was free a moment ago.
static void free_port(struct door *door)
{
    struct address any;
    int fd = -1;
    ASSERT(address_parse("127.0.0.1:0", &any) == STATUS_OK && tcp_listen(&any, &fd) == STATUS_OK);
    ASSERT(tcp_local(fd, &door->address) == STATUS_OK);
    tcp_close(&fd);
    struct text text = text_over(door->listen, sizeof(door->listen) - 1);
    address_format(&door->address, &text);
    door->listen[text.size] = '\0';
}

static void door_open(struct door *door)
{
    char error[admin_error_size];
    enum status status = STATUS_IO;
    scene_open(&door->scene, "'http://10.0.0.1'");
    for (int i = 0; status != STATUS_OK && i < 10; i++) {
        free_port(door);
        door->scene.options.listen = door->listen;
        status = admin_open(&door->scene.options, &door->admin, error);
    }
    ASSERT(status == STATUS_OK);
}

static void door_close(struct door *door)
{
    admin_close(&door->admin);
    ASSERT(door->admin == NULL);
    loop_turn(door->scene.loop, 0);
    scene_close(&door->scene);
}

static void turn_often(struct door *door)
{
    for (int i = 0; i < 10; i++) {
        loop_turn(door->scene.loop, 1);
    }
}

static void client_open(const struct door *door, struct client *client)
{
    *client = (struct client){.fd = -1};
    ASSERT(tcp_connect(&door->address, &client->fd) == STATUS_OK);
}

// Takes what has come.
static void client_read(struct client *client)
{
    size_t size = 0;
    enum status status = STATUS_OK;
    while (!client->closed && status == STATUS_OK) {
        status = tcp_read(client->fd, client->in + client->in_size,
                          sizeof(client->in) - 1 - client->in_size, &size);
        client->in_size += status == STATUS_OK ? size : 0;
        client->closed = status == STATUS_CLOSED || status == STATUS_IO;
    }
    client->in[client->in_size] = '\0';
}

static void client_send(struct door *door, struct client *client, struct slice bytes)
{
    for (int i = 0; bytes.size > 0 && !client->closed && i < 4000; i++) {
        size_t size = 0;
        enum status status = tcp_write(client->fd, &bytes, 1, &size);
        if (status == STATUS_IO) {
            return; // the answer is there before all is said
        }
        if (status == STATUS_OK) {
            bytes = slice_of(bytes.bytes + size, bytes.size - size);
        }
        loop_turn(door->scene.loop, 1);
        client_read(client);
    }
}

// The status of the answer, whose connection must end; 0 when it ends without one.
static int client_finish(struct door *door, struct client *client)
{
    for (int i = 0; !client->closed && i < 4000; i++) {
        loop_turn(door->scene.loop, 5);
        client_read(client);
    }
    ASSERT(client->closed);
    tcp_close(&client->fd);
    return strncmp(client->in, "HTTP/1.1 ", 9) == 0 ? (int)strtol(client->in + 9, NULL, 10) : 0;
}

static struct client last;

static int ask(struct door *door, const char *request)
{
    client_open(door, &last);
    client_send(door, &last, slice_str(request));
    return client_finish(door, &last);
}

#define AUTHORIZED "host: x\r\nauthorization: Bearer t\r\n"

TEST(the_token_opens_everything_and_health_needs_none)
{
    struct door door;
    door_open(&door);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    CHECK(strstr(last.in, "\"backends\":1") != NULL);
    CHECK_EQ(ask(&door, "GET /backends?x=y HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /nothing HTTP/1.1\r\n" AUTHORIZED "\r\n"), 404);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\nhost: x\r\nAuthorization: bearer t\r\n\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.0\r\n" AUTHORIZED "\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /health?now HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\nauthorization: Bearer no\r\n\r\n"),
             200);
    door_close(&door);
}

TEST(without_the_token_nothing_else_answers)
{
    static const char addition[] =
        "POST /backends HTTP/1.1\r\nhost: x\r\ncontent-length: 25\r\n\r\n"
        "{\"url\":\"http://10.0.0.2\"}";
    static const char *const requests[] = {
        "GET /status HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /backends HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /health/ HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET //health HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /backends/1 HTTP/1.1\r\nhost: x\r\n\r\n",
        "DELETE /backends/1 HTTP/1.1\r\nhost: x\r\n\r\n",
        addition,
    };
    struct door door;
    door_open(&door);
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        CHECK_EQ(ask(&door, requests[i]), 401);
        CHECK(strstr(last.in, "\"invalid_token\"") != NULL);
    }
    CHECK(fleet_at(door.scene.fleet, 0) != NULL && fleet_at(door.scene.fleet, 1) == NULL);
    door_close(&door);
}

TEST(a_stranger_is_answered_before_the_body_that_he_announces)
{
    struct door door;
    door_open(&door);
    CHECK_EQ(ask(&door, "POST /explain HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n{"),
             401);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 8000000\r\n\r\n"), 200);
    door_close(&door);
}

TEST(only_the_whole_token_is_the_token)
{
    static const char *const wrong[] = {
        "Bearer secret-token-secret-toke",
        "Bearer secret-token-secret-tokenX",
        "Bearer secret-token-secret-tokeN",
        "Bearer Xecret-token-secret-token",
        "Bearer secret-token-",
        "Bearer secret-token-secret-tokensecret-token-secret-token",
        "Bearer s",
        "Bearer",
        "Bearer ",
        "secret-token-secret-token",
        "Basic secret-token-secret-token",
        "Bearersecret-token-secret-token",
        "Bearer  secret-token-secret-token",
        "Bearer secret-token-secret-token, x",
        "",
    };
    struct door door;
    char request[256];
    door_open(&door);
    door.scene.config->admin.token = "secret-token-secret-token";
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        snprintf(request, sizeof(request),
                 "GET /status HTTP/1.1\r\nhost: x\r\nauthorization: %s\r\n\r\n", wrong[i]);
        CHECK_EQ(ask(&door, request), 401);
    }
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\nhost: x\r\n"
                        "authorization: Bearer secret-token-secret-token\r\n\r\n"),
             200);
    door_close(&door);
}

TEST(the_token_is_the_one_of_the_configuration_in_force)
{
    struct door door;
    struct config_error error;
    struct config *old;
    door_open(&door);
    old = door.scene.config;
    ASSERT(config_parse(slice_str("admin: {listen: '127.0.0.1:1', token: new}"), "test", NULL,
                        &door.scene.config, &error) == STATUS_OK);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 401);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer new\r\n\r\n"),
             200);
    // A reload may take the admin API out of the file; then nobody comes in.
    door.scene.config->admin.token = NULL;
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer new\r\n\r\n"),
             401);
    config_destroy(&door.scene.config);
    door.scene.config = old;
    door_close(&door);
}

TEST(how_a_request_is_split_does_not_matter)
{
    static const char request[] =
        "POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: 25\r\n\r\n"
        "{\"url\":\"http://10.0.0.2\"}";
    struct door door;
    struct client client;
    door_open(&door);
    for (size_t at = 1; at < sizeof(request) - 1; at++) {
        client_open(&door, &client);
        client_send(&door, &client, slice_of(request, at));
        CHECK_EQ(client.in_size, 0);
        CHECK(!client.closed);
        client_send(&door, &client, slice_of(request + at, sizeof(request) - 1 - at));
        CHECK_EQ(client_finish(&door, &client), at == 1 ? 201 : 409);
    }
    client_open(&door, &client);
    for (size_t at = 0; at < sizeof(request) - 1; at++) {
        client_send(&door, &client, slice_of(request + at, 1));
    }
    CHECK_EQ(client_finish(&door, &client), 409);
    door_close(&door);
}

TEST(a_connection_carries_one_request)
{
    struct door door;
    door_open(&door);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"
                        "DELETE /backends/1 HTTP/1.1\r\n" AUTHORIZED "\r\n"),
             200);
    CHECK(strstr(last.in + 1, "HTTP/1.1 ") == NULL);
    CHECK(fleet_at(door.scene.fleet, 0) != NULL);
    door_close(&door);
}

TEST(a_client_that_has_said_all_still_gets_its_answer)
{
    struct door door;
    struct client client;
    door_open(&door);
    client_open(&door, &client);
    client_send(&door, &client, slice_str("GET /status HTTP/1.1\r\n" AUTHORIZED));
    ASSERT(tcp_write(client.fd, &(struct slice){(const uint8_t *)"\r\n", 2}, 1, &(size_t){0}) ==
           STATUS_OK);
    ASSERT(shutdown(client.fd, SHUT_WR) == 0);
    CHECK_EQ(client_finish(&door, &client), 200);
    door_close(&door);
}

TEST(invalid_http_is_refused_with_the_reason)
{
    static const struct {
        const char *request;
        const char *why;
    } bad[] = {
        {"nonsense\r\n\r\n", "The request is not valid HTTP"},
        {"GET /status HTTP/1.1\r\n\r\n", "host is missing"},
        {"GET /status HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", "host is given more than once"},
        {"POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: x\r\n\r\n",
         "The request is not valid HTTP"},
        {"POST /backends HTTP/1.1\r\n" AUTHORIZED "transfer-encoding: chunked\r\n\r\n"
         "2\r\n{}\r\n0\r\n\r\n",
         "the admin API needs a content-length, not chunks"},
    };
    struct door door;
    door_open(&door);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(ask(&door, bad[i].request), 400);
        CHECK(strstr(last.in, bad[i].why) != NULL);
    }
    door_close(&door);
}

TEST(large_heads_bodies_and_targets_have_their_own_errors)
{
    enum { head_size = 86 };
    static char request[request_size_max + 65536];
    struct door door;
    door_open(&door);
    // At the limit, to the byte: a document of blanks around nothing.
    int head = snprintf(request, sizeof(request),
                        "POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: %d\r\n\r\n",
                        request_size_max - head_size);
    CHECK_EQ(head, head_size);
    memset(request + head, ' ', request_size_max - head_size);
    request[request_size_max] = '\0';
    CHECK_EQ(ask(&door, request), 422);
    snprintf(request, sizeof(request),
             "POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: %d\r\n\r\n",
             request_size_max - head_size + 1);
    CHECK_EQ(ask(&door, request), 413);
    snprintf(request, sizeof(request),
             "POST /backends HTTP/1.1\r\n" AUTHORIZED
             "content-length: 18446744073709551615\r\n\r\n");
    CHECK_EQ(ask(&door, request), 413);

    snprintf(request, sizeof(request), "GET /%0*d HTTP/1.1\r\n" AUTHORIZED "\r\n", 5000, 7);
    CHECK_EQ(ask(&door, request), 414);
    snprintf(request, sizeof(request), "GET /status HTTP/1.1\r\n" AUTHORIZED "x: %0*d\r\n\r\n",
             head_size_max, 7);
    CHECK_EQ(ask(&door, request), 431);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    door_close(&door);
}

TEST(slow_connections_are_dropped_and_quick_ones_are_not)
{
    static const char *const beginnings[] = {
        "",
        "GET /sta",
        "POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: 25\r\n\r\n{\"url\"",
    };
    struct door door;
    struct client clients[3];
    door_open(&door);
    for (size_t i = 0; i < 3; i++) {
        client_open(&door, &clients[i]);
        client_send(&door, &clients[i], slice_str(beginnings[i]));
    }
    turn_often(&door);
    clock_push_ms(9000);
    turn_often(&door);
    client_send(&door, &clients[1], slice_str("t")); // a sign of life prolongs nothing
    for (size_t i = 0; i < 3; i++) {
        client_read(&clients[i]);
        CHECK(!clients[i].closed);
    }
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    clock_push_ms(1000);
    turn_often(&door);
    for (size_t i = 0; i < 3; i++) {
        client_read(&clients[i]);
        CHECK(clients[i].closed);
        CHECK_EQ(clients[i].in_size, 0);
        tcp_close(&clients[i].fd);
    }
    door_close(&door);
}

TEST(of_too_many_connections_the_last_are_closed)
{
    static struct client clients[connection_count_max + 3];
    struct door door;
    door_open(&door);
    for (size_t i = 0; i < ARRAY_COUNT(clients); i++) {
        client_open(&door, &clients[i]);
        turn_often(&door);
        client_read(&clients[i]);
        CHECK_EQ(clients[i].closed, i >= connection_count_max);
    }
    // Those that are there are served, and make room when they are.
    client_send(&door, &clients[7], slice_str("GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"));
    CHECK_EQ(client_finish(&door, &clients[7]), 200);
    tcp_close(&clients[9].fd); // or when they leave
    turn_often(&door);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    for (size_t i = 0; i < ARRAY_COUNT(clients); i++) {
        tcp_close(&clients[i].fd);
    }
    turn_often(&door);
    door_close(&door);
}

// Sends the request with memory for no allocation, for one, and so on until it suffices.  Returns
// the status of the last response; *odd_count is the number of others that were neither a closed
// connection nor 503, and one more if the request needs no memory at all.
static int ask_in_short_memory(struct door *door, const char *request, uint32_t *odd_count)
{
    *odd_count = 0;
    for (uint32_t good_count = 0;; good_count++) {
        short_memory_after(good_count);
        int status = ask(door, request);
        if (short_memory_end() == 0) {
            *odd_count += good_count == 0;
            return status;
        }
        *odd_count += status != 0 && status != 503;
    }
}

TEST(short_memory_costs_answers_but_not_the_process)
{
    static const struct {
        const char *request;
        int status;
    } rows[] = {
        {"GET /health HTTP/1.1\r\nhost: x\r\n\r\n", 200},
        {"GET /status HTTP/1.1\r\nhost: x\r\n\r\n", 401},
        {"GET /overview HTTP/1.1\r\n" AUTHORIZED "\r\n", 200},
        {"GET /decisions HTTP/1.1\r\n" AUTHORIZED "\r\n", 200},
        {"GET /metrics HTTP/1.1\r\n" AUTHORIZED "\r\n", 200},
        {"POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: 9\r\n\r\n{\"url\":1}", 422},
    };
    struct door door;
    door_open(&door);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t odd_count;
        CHECK_EQ(ask_in_short_memory(&door, rows[i].request, &odd_count), rows[i].status);
        CHECK_EQ(odd_count, 0);
    }
    door_close(&door);
}

// More than the buffers of a connection hold while nobody reads.
static void add_long_names(struct fleet *fleet)
{
    enum { model_count = 1000, name_size = 1000 };
    static char name[name_size + 1];
    const char *names[model_count];
    memset(name, 'm', name_size);
    for (int i = 0; i < model_count; i++) {
        names[i] = name;
    }
    for (int i = 0; i < backend_count_max - 1; i++) {
        struct fleet_spec spec = {.url = "http://10.0.0.9",
                                  .host = "10.0.0.9",
                                  .port = 80,
                                  .weight = 1,
                                  .models = names,
                                  .model_count = model_count};
        ASSERT(fleet_add(fleet, &spec) != NULL);
    }
}

TEST(a_client_that_reads_late_gets_all_of_a_long_list)
{
    static char in[8 << 20];
    struct door door;
    struct client client;
    size_t size = 0;
    size_t got = 0;
    enum status status = STATUS_OK;
    door_open(&door);
    add_long_names(door.scene.fleet);
    client_open(&door, &client);
    struct slice request = slice_str("GET /backends HTTP/1.1\r\n" AUTHORIZED "\r\n");
    CHECK_EQ(tcp_write(client.fd, &request, 1, &size), STATUS_OK);
    turn_often(&door);
    for (int i = 0; status != STATUS_CLOSED && status != STATUS_IO && i < 20000; i++) {
        status = tcp_read(client.fd, in + got, sizeof(in) - 1 - got, &size);
        got += status == STATUS_OK ? size : 0;
        loop_turn(door.scene.loop, status == STATUS_AGAIN ? 1 : 0);
    }
    CHECK_EQ(status, STATUS_CLOSED);
    in[got] = '\0';
    const char *document = strstr(in, "\r\n\r\n") + 4;
    CHECK_EQ(strtoul(strstr(in, "content-length: ") + 16, NULL, 10), strlen(document));
    CHECK(strlen(document) > 7000000);
    tcp_close(&client.fd);
    door_close(&door);
}

TEST(the_end_closes_what_is_open)
{
    struct door door;
    struct client client;
    door_open(&door);
    client_open(&door, &client);
    turn_often(&door);
    admin_close(&door.admin);
    CHECK(door.admin == NULL);
    admin_close(&door.admin); // nothing happens
    turn_often(&door);
    client_read(&client);
    CHECK(client.closed);
    CHECK_EQ(client_finish(&door, &client), 0);
    int fd = -1;
    enum status status = tcp_connect(&door.address, &fd); // and nobody listens
    if (status == STATUS_OK) {
        turn_often(&door);
        CHECK_EQ(tcp_error(fd), ECONNREFUSED);
        tcp_close(&fd);
    }
    door_close(&door);
}

// That have come since it was last asked.
static uint32_t rounds_of(struct client *client)
{
    uint32_t count = 0;
    client->in_size = 0;
    client_read(client);
    for (const char *at = client->in; (at = strstr(at, "event: overview\n")) != NULL; at++) {
        count++;
    }
    return count;
}

static void ask_for_stream(struct door *door, struct client *client)
{
    client_open(door, client);
    struct slice request = slice_str("GET /stream HTTP/1.1\r\n" AUTHORIZED "\r\n");
    ASSERT(tcp_write(client->fd, &request, 1, &(size_t){0}) == STATUS_OK);
    turn_often(door);
}

TEST(a_stream_goes_on_beyond_the_time_of_an_answer)
{
    struct door door;
    struct client client;
    door_open(&door);
    ask_for_stream(&door, &client);
    CHECK_EQ(rounds_of(&client), 1);
    CHECK(strstr(client.in, "\r\ncontent-type: text/event-stream\r\n") != NULL);
    CHECK(strstr(client.in, "access-control") == NULL);
    for (uint32_t i = 0; i < 12; i++) {
        clock_push_ms(stream_step_ms);
        turn_often(&door);
        CHECK_EQ(rounds_of(&client), 1);
    }
    CHECK(!client.closed);
    tcp_close(&client.fd);
    turn_often(&door);
    door_close(&door);
}

TEST(a_stream_needs_the_token)
{
    struct door door;
    door_open(&door);
    CHECK_EQ(ask(&door, "GET /stream HTTP/1.1\r\nhost: x\r\n\r\n"), 401);
    CHECK_EQ(ask(&door, "GET /stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\n\r\n"), 401);
    CHECK_EQ(ask(&door, "POST /stream HTTP/1.1\r\n" AUTHORIZED "\r\n"), 405);
    door_close(&door);
}

TEST(of_too_many_streams_the_last_is_refused_until_one_has_gone)
{
    static struct client clients[stream_count_max];
    struct door door;
    door_open(&door);
    for (size_t i = 0; i < ARRAY_COUNT(clients); i++) {
        ask_for_stream(&door, &clients[i]);
        CHECK_EQ(rounds_of(&clients[i]), 1);
    }
    CHECK_EQ(ask(&door, "GET /stream HTTP/1.1\r\n" AUTHORIZED "\r\n"), 503);
    CHECK(strstr(last.in, "too many streams are open") != NULL);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    tcp_close(&clients[5].fd);
    turn_often(&door);
    ask_for_stream(&door, &clients[5]);
    CHECK_EQ(rounds_of(&clients[5]), 1);
    // The end of all ends these.
    admin_close(&door.admin);
    turn_often(&door);
    for (size_t i = 0; i < ARRAY_COUNT(clients); i++) {
        client_read(&clients[i]);
        CHECK(clients[i].closed);
        tcp_close(&clients[i].fd);
    }
    door_close(&door);
}

TEST(a_stream_is_not_spoken_to)
{
    struct door door;
    struct client client;
    door_open(&door);
    ask_for_stream(&door, &client);
    client_send(&door, &client, slice_str("GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"));
    turn_often(&door);
    client_read(&client);
    CHECK(client.closed);
    CHECK(strstr(client.in + 1, "HTTP/1.1 ") == NULL);
    tcp_close(&client.fd);
    door_close(&door);
}

TEST(an_address_that_is_taken_is_said)
{
    struct door door;
    struct admin *second = NULL;
    char error[admin_error_size];
    char expected[admin_error_size];
    door_open(&door);
    CHECK_EQ(admin_open(&door.scene.options, &second, error), STATUS_IO);
    snprintf(expected, sizeof(expected),
             "cannot listen on %s for the admin API: Address already in use", door.listen);
    CHECK_STR(error, expected);
    CHECK(second == NULL);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    door_close(&door);
}

// Opens both, or the one for metrics alone.
static void metrics_door_open(struct door *door, struct door *api)
{
    char error[admin_error_size];
    enum status status = STATUS_IO;
    scene_open(&door->scene, "'http://10.0.0.1'");
    for (int i = 0; status != STATUS_OK && i < 10; i++) {
        free_port(door);
        door->scene.options.metrics_listen = door->listen;
        if (api != NULL) {
            free_port(api);
            door->scene.options.listen = api->listen;
        }
        status = admin_open(&door->scene.options, &door->admin, error);
    }
    ASSERT(status == STATUS_OK);
}

TEST(metrics_need_the_token_on_the_api)
{
    struct door door;
    door_open(&door);
    CHECK_EQ(ask(&door, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"), 401);
    CHECK_EQ(ask(&door, "GET /metrics HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    CHECK(strstr(last.in, "# TYPE warmpath_requests_total counter\n") != NULL);
    CHECK_EQ(ask(&door, "POST /metrics HTTP/1.1\r\n" AUTHORIZED "\r\n"), 405);
    door_close(&door);
}

TEST(the_listener_for_metrics_has_them_for_anybody_and_nothing_else)
{
    struct door door;
    metrics_door_open(&door, NULL);
    CHECK_EQ(ask(&door, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"), 200);
    CHECK(strstr(last.in, "# TYPE warmpath_requests_total counter\n") != NULL);
    CHECK_EQ(ask(&door, "GET /metrics?x HTTP/1.1\r\n" AUTHORIZED "\r\n"), 200);
    CHECK_EQ(ask(&door, "POST /metrics HTTP/1.1\r\n" AUTHORIZED "\r\n"), 404);
    CHECK_EQ(ask(&door, "GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"), 404);
    CHECK_EQ(ask(&door, "GET /health HTTP/1.1\r\nhost: x\r\n\r\n"), 404);
    CHECK_EQ(ask(&door, "POST /backends HTTP/1.1\r\n" AUTHORIZED "content-length: 2\r\n\r\n{}"),
             404);
    CHECK_EQ(ask(&door, "nonsense\r\n\r\n"), 400);
    door_close(&door);
}

TEST(strangers_at_the_listener_for_metrics_take_no_place_from_operators)
{
    static struct client strangers[connection_count_max + 1];
    struct door door;
    struct door api;
    metrics_door_open(&door, &api);
    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        client_open(&door, &strangers[i]);
        turn_often(&door);
    }
    CHECK_EQ(client_finish(&door, &strangers[connection_count_max]), 0);
    client_open(&api, &last);
    client_send(&door, &last, slice_str("GET /status HTTP/1.1\r\n" AUTHORIZED "\r\n"));
    CHECK_EQ(client_finish(&door, &last), 200);
    for (size_t i = 0; i < connection_count_max; i++) {
        tcp_close(&strangers[i].fd);
    }
    door_close(&door);
}
