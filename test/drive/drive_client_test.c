// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_client.h"

#include "net/certificates.h"
#include "net/stub_server.h"
#include "net/tls.h"
#include "sys/pushed_clock.h"
#include "test.h"

#define GOOD                                                                                       \
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 39\r\n\r\n"              \
    "{\"choices\":[{\"index\":0,\"text\":\"hey!\"}]}"

enum { timeout_ms = 60000 };

static const struct drive_shape shape = {.api = DRIVE_COMPLETIONS, .model = "m"};
static const struct piece pieces[] = {{1, 8}, {2, 8}};
static const char head[] = "POST /x HTTP/1.1\r\nhost: a\r\n";

struct scene {
    struct loop *loop;
    struct stub_server server;
    struct drive_client *client;
    struct drive_request request;
    uint32_t done_count;
    enum drive_error error;
    uint16_t status;
};

static void done(void *owner, struct drive_request *request, const struct drive_response *response)
{
    struct scene *scene = owner;
    ASSERT(request == &scene->request);
    scene->done_count++;
    scene->error = response->error;
    scene->status = response->status;
}

static void open_client(struct scene *scene, struct tls_context *tls)
{
    scene->client = drive_client_create(&(struct drive_client_options){
        .loop = scene->loop,
        .addresses = &scene->server.address,
        .address_count = 1,
        .host = "localhost",
        .tls = tls,
        .head = head,
        .shape = &shape,
        .connections_max = 2,
        .timeout_ms = timeout_ms,
        .done = done,
        .owner = scene,
    });
    ASSERT(scene->client != NULL);
}

static void scene_open(struct scene *scene, const char *answer, enum stub_end end)
{
    *scene = (struct scene){0};
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    stub_start(&scene->server, scene->loop);
    scene->server.routes[0] =
        (struct stub_route){.path = "/x", .answer = slice_str(answer), .end = end};
    open_client(scene, NULL);
}

static void scene_close(struct scene *scene)
{
    drive_client_destroy(&scene->client);
    stub_stop(&scene->server);
    loop_destroy(&scene->loop);
}

static void send_one(struct scene *scene)
{
    scene->request = (struct drive_request){
        .item = {.pieces = pieces, .piece_count = 2, .prompt_tokens = 16, .output_tokens = 3}};
    drive_client_send(scene->client, &scene->request);
}

// Turns until it is done; a test that waits for longer has failed.
static enum drive_error wait_for(struct scene *scene, uint32_t count)
{
    for (int i = 0; scene->done_count < count && i < 4000; i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(scene->done_count == count);
    return scene->error;
}

static enum drive_error ask(struct scene *scene)
{
    uint32_t before = scene->done_count;
    send_one(scene);
    ASSERT(scene->done_count == before);
    return wait_for(scene, before + 1);
}

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

TEST(a_request_is_the_head_its_length_and_the_body)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    CHECK_EQ(scene.status, 200);
    const char *request = scene.server.request;
    CHECK(strncmp(request, head, strlen(head)) == 0);
    const char *body = strstr(request, "\r\n\r\n") + 4;
    char length[64];
    snprintf(length, sizeof(length), "host: a\r\ncontent-length: %zu\r\n\r\n", strlen(body));
    CHECK(strstr(request, length) != NULL);
    CHECK(strncmp(body, "{\"model\":\"m\",\"prompt\":\"", 23) == 0);
    CHECK_EQ(body[strlen(body) - 1], '}');
    CHECK_EQ(drive_client_counts(scene.client).in_flight, 0);
    scene_close(&scene);
}

TEST(a_response_in_small_portions_is_read_to_its_end)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    scene.server.routes[0].portion = 3;
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    scene_close(&scene);
}

TEST(each_failure_has_its_kind_of_error)
{
    static const struct {
        const char *answer;
        enum stub_end end;
        enum drive_error error;
    } cases[] = {
        {"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n", STUB_STAYS, DRIVE_STATUS},
        {"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", STUB_CLOSES, DRIVE_INCOMPLETE},
        {"nonsense\r\n\r\n", STUB_STAYS, DRIVE_MALFORMED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;
        scene_open(&scene, cases[i].answer, cases[i].end);
        CHECK_EQ(ask(&scene), cases[i].error);
        scene_close(&scene);
    }
}

TEST(a_closed_port_is_a_refusal)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    stub_stop(&scene.server);
    CHECK_EQ(ask(&scene), DRIVE_REFUSED);
    CHECK_EQ(ask(&scene), DRIVE_REFUSED);
    CHECK(drive_client_has_room(scene.client));
    drive_client_destroy(&scene.client);
    loop_destroy(&scene.loop);
}

TEST(a_connection_that_the_server_resets_is_a_reset)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    scene.server.slams = true;
    CHECK_EQ(ask(&scene), DRIVE_RESET);
    scene_close(&scene);
}

TEST(silence_ends_by_the_timeout)
{
    struct scene scene;
    scene_open(&scene, "", STUB_STAYS);
    send_one(&scene);
    turn_often(&scene);
    CHECK_EQ(scene.done_count, 0);
    clock_push_ms(timeout_ms);
    CHECK_EQ(wait_for(&scene, 1), DRIVE_TIMEOUT);
    // The connection is gone with it.
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 0);
    scene_close(&scene);
}

TEST(a_stream_that_stalls_ends_by_the_timeout)
{
    struct scene scene;
    scene_open(&scene,
               "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
               "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n",
               STUB_STAYS);
    send_one(&scene);
    turn_often(&scene);
    clock_push_ms(timeout_ms);
    CHECK_EQ(wait_for(&scene, 1), DRIVE_TIMEOUT);
    scene_close(&scene);
}

TEST(a_connection_that_was_closed_while_idle_is_replaced)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    stub_drop(scene.server.connections, TRANSPORT_ORDERLY);
    turn_often(&scene);
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    CHECK_EQ(drive_client_counts(scene.client).connections, 2);
    CHECK_EQ(drive_client_counts(scene.client).stale, 0);
    scene_close(&scene);
}

TEST(a_request_that_meets_a_connection_just_closed_is_sent_again)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    stub_drop(scene.server.connections, TRANSPORT_ORDERLY);
    CHECK_EQ(ask(&scene), DRIVE_FINE); // no turn between: nobody has told us
    CHECK_EQ(drive_client_counts(scene.client).stale, 1);
    CHECK_EQ(scene.server.routes[0].count, 2);
    scene_close(&scene);
}

TEST(a_connection_that_breaks_later_is_a_reset_and_not_asked_twice)
{
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    send_one(&scene); // the stub does not answer twice on one connection
    turn_often(&scene);
    clock_push_ms(1000);
    loop_turn(scene.loop, 1);
    CHECK_EQ(scene.done_count, 1);
    stub_drop(scene.server.connections, TRANSPORT_ORDERLY);
    CHECK_EQ(wait_for(&scene, 2), DRIVE_RESET);
    CHECK_EQ(drive_client_counts(scene.client).stale, 0);
    scene_close(&scene);
}

TEST(there_is_room_up_to_the_limit)
{
    struct scene scene;
    scene_open(&scene, "", STUB_STAYS);
    send_one(&scene);
    CHECK(drive_client_has_room(scene.client));
    drive_client_send(scene.client, &scene.request);
    CHECK(!drive_client_has_room(scene.client));
    CHECK_EQ(drive_client_counts(scene.client).in_flight_max, 2);
    turn_often(&scene);
    clock_push_ms(timeout_ms);
    wait_for(&scene, 2);
    loop_turn(scene.loop, 0);
    CHECK(drive_client_has_room(scene.client));
    scene_close(&scene);
}

TEST(a_request_that_is_too_large_is_not_sent)
{
    static const struct piece huge[] = {{1, drive_request_size_max / content_token_size}};
    struct scene scene;
    scene_open(&scene, GOOD, STUB_STAYS);
    scene.request = (struct drive_request){.item = {.pieces = huge, .piece_count = 1}};
    drive_client_send(scene.client, &scene.request);
    CHECK_EQ(wait_for(&scene, 1), DRIVE_TOO_LARGE);
    // On a connection that is open already, too.
    CHECK_EQ(ask(&scene), DRIVE_FINE);
    scene.request = (struct drive_request){.item = {.pieces = huge, .piece_count = 1}};
    drive_client_send(scene.client, &scene.request);
    CHECK_EQ(wait_for(&scene, 3), DRIVE_TOO_LARGE);
    scene_close(&scene);
}

TEST(over_tls_only_trusted_servers_get_requests)
{
    struct scene scene;
    char error[tls_error_size];
    make_certificates();
    scene_open(&scene, GOOD, STUB_STAYS);
    struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                          .key = file_in_dir("key.pem")};
    CHECK_EQ(tls_server_create(&identity, &scene.server.tls, error), STATUS_OK);
    for (int trusts = 0; trusts < 2; trusts++) {
        struct tls_context *context = NULL;
        struct tls_client_options options = {.ca = file_in_dir(trusts ? "ca.pem" : "other_ca.pem"),
                                             .verify = true};
        CHECK_EQ(tls_client_create(&options, &context, error), STATUS_OK);
        drive_client_destroy(&scene.client);
        open_client(&scene, context);
        CHECK_EQ(ask(&scene), trusts ? DRIVE_FINE : DRIVE_TLS);
        drive_client_destroy(&scene.client);
        tls_context_destroy(&context);
    }
    CHECK_EQ(scene.server.routes[0].count, 1);
    tls_context_destroy(&scene.server.tls);
    scene_close(&scene);
}
