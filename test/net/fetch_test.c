// SPDX-License-Identifier: Apache-2.0

#include "net/fetch.h"

#include "base/text.h"
#include "net/certificates.h"
#include "net/stub_server.h"
#include "net/tls.h"
#include "sys/pushed_clock.h"
#include "test.h"

enum { response_size_max = 1 << 20, timeout_ms = 60000 };

struct scene {
    struct stub_server server;
    struct loop *loop;
    bool takes_part;
    size_t bound; // of a response; 0: the usual one
    struct fetch_peer peer;
};

struct outcome {
    uint32_t done_count;
    uint16_t status;
    char text[256]; // the body, or why there is none
    size_t body_size;
    bool is_part;
    uint64_t took_us;
};

static void scene_open(struct scene *scene)
{
    scene->loop = NULL;
    scene->takes_part = false;
    scene->bound = 0;
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    stub_start(&scene->server, scene->loop);
    static char host[] = "127.0.0.1";
    static char authority[32];
    snprintf(authority, sizeof(authority), "%s:%u", host, scene->server.port);
    scene->peer =
        (struct fetch_peer){.address = scene->server.address, .host = host, .authority = authority};
}

static void scene_close(struct scene *scene)
{
    stub_stop(&scene->server);
    loop_destroy(&scene->loop);
}

static void note(void *owner, const struct fetch_result *result)
{
    struct outcome *outcome = owner;
    struct slice body = result->body;
    outcome->done_count++;
    outcome->status = result->status;
    outcome->body_size = body.size;
    outcome->took_us = result->took_us;
    outcome->is_part = result->is_part;
    if (result->status == 0) {
        ASSERT(result->why != NULL && body.size == 0);
        snprintf(outcome->text, sizeof(outcome->text), "%s", result->why);
    } else {
        snprintf(outcome->text, sizeof(outcome->text), "%.*s",
                 (int)(body.size < 255 ? body.size : 255), (const char *)body.bytes);
    }
}

static struct fetch *start(struct scene *scene, struct outcome *outcome)
{
    *outcome = (struct outcome){0};
    struct fetch *fetch = fetch_start(&(struct fetch_options){
        .loop = scene->loop,
        .peer = &scene->peer,
        .path = "/x",
        .timeout_ms = timeout_ms,
        .response_size_max = scene->bound,
        .takes_part = scene->takes_part,
        .done = note,
        .owner = outcome,
    });
    ASSERT(fetch != NULL && outcome->done_count == 0);
    return fetch;
}

// Turns until `*count` is `target`; a test that waits for longer has failed.
static void turn_until(struct scene *scene, const uint32_t *count, uint32_t target)
{
    for (int i = 0; *count != target && i < 4000; i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(*count == target);
}

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

static struct outcome fetch(struct scene *scene)
{
    struct outcome outcome;
    start(scene, &outcome);
    turn_until(scene, &outcome.done_count, 1);
    // The connection is not kept, whatever the answer said.
    turn_until(scene, &scene->server.open_count, 0);
    ASSERT(outcome.done_count == 1);
    return outcome;
}

static struct outcome fetch_answer(struct scene *scene, const char *answer, enum stub_end end)
{
    scene->server.routes[0] =
        (struct stub_route){.path = "/x", .answer = slice_str(answer), .end = end};
    return fetch(scene);
}

TEST(asks_in_one_request_for_the_path_and_the_host)
{
    struct scene scene;
    char expected[512];
    static char v6[] = "[2001:db8::7]:1";
    static char key_text[] = "Bearer k";
    scene_open(&scene);
    CHECK_EQ(
        fetch_answer(&scene, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", STUB_STAYS).status,
        200);
    snprintf(expected, sizeof(expected),
             "GET /x HTTP/1.1\r\nhost: 127.0.0.1:%u\r\nuser-agent: warmpath\r\naccept: */*\r\n"
             "connection: close\r\n\r\n",
             scene.server.port);
    CHECK_STR(scene.server.request, expected);

    scene.peer.authority = v6;
    scene.peer.authorization = key_text;
    CHECK_EQ(fetch(&scene).status, 200);
    snprintf(expected, sizeof(expected),
             "GET /x HTTP/1.1\r\nhost: %s\r\nauthorization: Bearer k\r\n"
             "user-agent: warmpath\r\naccept: */*\r\nconnection: close\r\n\r\n",
             v6);
    CHECK_STR(scene.server.request, expected);
    CHECK_EQ(scene.server.accepted_count, 2);
    scene_close(&scene);
}

TEST(the_time_of_a_response_runs_from_the_sent_request)
{
    struct scene scene;
    scene_open(&scene);
    // One byte each millisecond.
    scene.server.routes[0] = (struct stub_route){
        .path = "/x",
        .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n12345678901234567890"),
        .portion = 1};
    struct outcome outcome = fetch(&scene);
    CHECK_EQ(outcome.status, 200);
    CHECK(outcome.took_us >= 40000 && outcome.took_us < timeout_ms * (uint64_t)1000);
    scene_close(&scene);
}

TEST(the_longest_key_and_path_of_a_configuration_are_sent_whole)
{
    struct scene scene;
    static char authorization[7 + 4096 + 1] = "Bearer ";
    static char path[4096 + 1] = "/";
    struct outcome outcome = {0};
    scene_open(&scene);
    memset(authorization + 7, 'k', 4096);
    memset(path + 1, 'p', 4095);
    scene.peer.authorization = authorization;
    scene.server.routes[0] = (struct stub_route){
        .path = path, .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")};
    fetch_start(&(struct fetch_options){.loop = scene.loop,
                                        .peer = &scene.peer,
                                        .path = path,
                                        .timeout_ms = timeout_ms,
                                        .done = note,
                                        .owner = &outcome});
    turn_until(&scene, &outcome.done_count, 1);
    CHECK_EQ(outcome.status, 200);
    CHECK(strstr(scene.server.request, authorization) != NULL);
    scene_close(&scene);
}

static struct outcome fetch_post(struct scene *scene, struct slice body)
{
    struct outcome outcome = {0};
    scene->server.routes[0] = (struct stub_route){
        .path = "/x", .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")};
    fetch_start(&(struct fetch_options){.loop = scene->loop,
                                        .peer = &scene->peer,
                                        .path = "/x",
                                        .body = body,
                                        .timeout_ms = timeout_ms,
                                        .done = note,
                                        .owner = &outcome});
    turn_until(scene, &outcome.done_count, 1);
    turn_until(scene, &scene->server.open_count, 0);
    return outcome;
}

TEST(a_body_is_posted_as_json_with_its_length)
{
    struct scene scene;
    char expected[512];
    static char key_text[] = "Bearer k";
    char body[] = "{\"a\":1}";
    scene_open(&scene);
    scene.peer.authorization = key_text;
    CHECK_EQ(fetch_post(&scene, slice_str(body)).status, 200);
    snprintf(expected, sizeof(expected),
             "POST /x HTTP/1.1\r\nhost: 127.0.0.1:%u\r\ncontent-type: application/json\r\n"
             "content-length: 7\r\nauthorization: Bearer k\r\nuser-agent: warmpath\r\n"
             "accept: */*\r\nconnection: close\r\n\r\n{\"a\":1}",
             scene.server.port);
    CHECK_STR(scene.server.request, expected);
    scene_close(&scene);
}

// The caller's bytes are its own again when fetch_start returns.
TEST(a_body_is_copied)
{
    struct scene scene;
    struct outcome outcome = {0};
    char body[] = "{\"a\":1}";
    scene_open(&scene);
    scene.server.routes[0] = (struct stub_route){
        .path = "/x", .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")};
    fetch_start(&(struct fetch_options){.loop = scene.loop,
                                        .peer = &scene.peer,
                                        .path = "/x",
                                        .body = slice_str(body),
                                        .timeout_ms = timeout_ms,
                                        .done = note,
                                        .owner = &outcome});
    memset(body, 'x', sizeof(body) - 1);
    turn_until(&scene, &outcome.done_count, 1);
    CHECK_STR(strstr(scene.server.request, "\r\n\r\n") + 4, "{\"a\":1}");
    scene_close(&scene);
}

TEST(a_body_of_more_than_sockets_hold_arrives_whole)
{
    enum { long_size = 32 << 20 };
    struct scene scene;
    char *body = malloc(long_size + 1);
    ASSERT(body != NULL);
    for (size_t i = 0; i < long_size; i++) {
        body[i] = (char)('a' + i * 2654435761u % 26);
    }
    body[long_size] = '\0';
    scene_open(&scene);
    CHECK_EQ(fetch_post(&scene, slice_of(body, long_size)).status, 200);
    const char *got = strstr(scene.server.request, "\r\n\r\n") + 4;
    CHECK_EQ(strlen(got), long_size);
    CHECK(memcmp(got, body, long_size) == 0);
    free(body);
    scene_close(&scene);
}

struct exchange {
    const char *answer;
    const char *body;
    enum stub_end end;
    uint16_t status;
};

static const struct exchange exchanges[] = {
    {"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", STUB_STAYS, 200},
    {"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello and more", "hello", STUB_STAYS, 200},
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", STUB_STAYS, 200},
    {"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", "ok", STUB_STAYS, 200},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", STUB_STAYS, 204},
    {"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", "", STUB_STAYS, 304},
    {"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy", "busy", STUB_STAYS, 503},
    {"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "", STUB_STAYS, 404},
    {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
     "hello", STUB_STAYS, 200},
    {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
     "1;a=b\r\nh\r\n00004\r\nello\r\n0;z\r\nx-sum: 1\r\n\r\nHTTP/1.1",
     "hello", STUB_STAYS, 200},
    {"HTTP/1.1 200 OK\r\n\r\nhello", "hello", STUB_CLOSES, 200},
    {"HTTP/1.1 200 OK\r\n\r\n", "", STUB_CLOSES, 200},
    {"HTTP/1.0 200 OK\r\nserver: x\r\n\r\nhello", "hello", STUB_CLOSES, 200},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello",
     STUB_STAYS, 200},
    {"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n"
     "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
     "hello", STUB_STAYS, 200},
};

TEST(a_response_ends_where_its_head_says)
{
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(exchanges); i++) {
        struct outcome outcome = fetch_answer(&scene, exchanges[i].answer, exchanges[i].end);
        CHECK_EQ(outcome.status, exchanges[i].status);
        CHECK_STR(outcome.text, exchanges[i].body);
        CHECK_EQ(outcome.body_size, strlen(exchanges[i].body));
    }
    scene_close(&scene);
}

// Whether it is taken as it should be when `portion` bytes come at a time.
static bool is_taken(struct scene *scene, const struct exchange *exchange, size_t portion)
{
    scene->server.routes[0] = (struct stub_route){.path = "/x",
                                                  .answer = slice_str(exchange->answer),
                                                  .portion = portion,
                                                  .end = exchange->end};
    struct outcome outcome = fetch(scene);
    return outcome.status == exchange->status && strcmp(outcome.text, exchange->body) == 0;
}

// 0 when there is none.  Small portions end everywhere, large ones leave a long rest.
static size_t portion_that_fails(struct scene *scene, const struct exchange *exchange)
{
    size_t size = strlen(exchange->answer);
    for (size_t portion = 1; portion < size; portion += portion < 4 ? 1 : 1 + size / 40) {
        if (!is_taken(scene, exchange, portion)) {
            return portion;
        }
    }
    return 0;
}

TEST(how_the_bytes_are_split_does_not_matter)
{
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(exchanges); i++) {
        CHECK_EQ(portion_that_fails(&scene, &exchanges[i]), 0);
    }
    scene_close(&scene);
}

TEST(bytes_that_are_not_http_fail)
{
    static const char *const answers[] = {
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello!\r\n0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nnonsense\r\n\r\n",
    };
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        struct outcome outcome = fetch_answer(&scene, answers[i], STUB_STAYS);
        CHECK_EQ(outcome.status, 0);
        CHECK_STR(outcome.text, "invalid HTTP response");
    }
    scene_close(&scene);
}

TEST(a_response_that_is_cut_off_fails)
{
    static const char *const answers[] = {
        "H",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(answers); i++) {
        struct outcome outcome = fetch_answer(&scene, answers[i], STUB_CLOSES);
        CHECK_EQ(outcome.status, 0);
        CHECK_STR(outcome.text, "the connection was closed");
    }
    scene_close(&scene);
}

TEST(a_reset_fails)
{
    struct scene scene;
    scene_open(&scene);
    struct outcome outcome =
        fetch_answer(&scene, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", STUB_RESETS);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "Connection reset by peer");
    scene.server.slams = true;
    outcome = fetch(&scene);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "Connection reset by peer");
    scene_close(&scene);
}

// An answer of `size` bytes: a head, then the letter x.
static struct outcome fetch_large(struct scene *scene, const char *head, size_t size)
{
    char *answer = malloc(size);
    ASSERT(answer != NULL && strlen(head) <= size);
    memset(answer, 'x', size);
    struct text text = text_over(answer, size);
    text_add_str(&text, head);
    scene->server.routes[0] =
        (struct stub_route){.path = "/x", .answer = slice_of(answer, size), .end = STUB_CLOSES};
    struct outcome outcome = fetch(scene);
    free(answer);
    return outcome;
}

TEST(a_response_of_a_megabyte_is_taken_and_a_larger_one_fails)
{
    static const char until_close[] = "HTTP/1.1 200 OK\r\n\r\n";
    char head[128];
    struct scene scene;
    scene_open(&scene);
    struct outcome outcome = fetch_large(&scene, until_close, response_size_max - 1);
    CHECK_EQ(outcome.status, 200);
    CHECK_EQ(outcome.body_size, response_size_max - 1 - strlen(until_close));
    outcome = fetch_large(&scene, until_close, response_size_max + 1);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "the response is too large");

    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", 1000000);
    outcome = fetch_large(&scene, head, strlen(head) + 1000000);
    CHECK_EQ(outcome.status, 200);
    CHECK_EQ(outcome.body_size, 1000000);
    snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n",
             response_size_max);
    outcome = fetch_large(&scene, head, strlen(head) + response_size_max);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "the response is too large");

    outcome =
        fetch_large(&scene, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7fffffff\r\n",
                    response_size_max + 100);
    CHECK_STR(outcome.text, "the response is too large");
    outcome = fetch_large(&scene, "HTTP/1.1 200 OK\r\nx: ", 70000); // a head without end
    CHECK_STR(outcome.text, "invalid HTTP response");
    scene_close(&scene);
}

TEST(a_response_that_is_too_large_is_cut_if_the_caller_takes_part)
{
    static const char chunked[] = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    static const char until_close[] = "HTTP/1.1 200 OK\r\n\r\n";
    char head[128];
    struct scene scene;
    scene_open(&scene);
    scene.takes_part = true;
    struct outcome outcome = fetch_large(&scene, until_close, response_size_max - 1);
    CHECK(!outcome.is_part);
    CHECK_EQ(outcome.body_size, response_size_max - 1 - strlen(until_close));
    outcome = fetch_large(&scene, until_close, response_size_max + 1);
    CHECK(outcome.is_part);
    CHECK_EQ(outcome.status, 200);
    CHECK_EQ(outcome.body_size, response_size_max - strlen(until_close));

    snprintf(head, sizeof(head), "HTTP/1.1 404 No\r\ncontent-length: %d\r\n\r\n",
             response_size_max);
    outcome = fetch_large(&scene, head, strlen(head) + response_size_max);
    CHECK(outcome.is_part);
    CHECK_EQ(outcome.status, 404);
    CHECK_EQ(outcome.body_size, response_size_max - strlen(head));

    snprintf(head, sizeof(head), "%s7fffffff\r\n", chunked);
    outcome = fetch_large(&scene, head, response_size_max + 100);
    CHECK(outcome.is_part);
    CHECK_EQ(outcome.body_size,
             response_size_max - strlen(chunked)); // without the chunk's own line
    CHECK_EQ(outcome.text[0], 'x');
    outcome = fetch_large(&scene, "HTTP/1.1 200 OK\r\nx: ", 70000); // a head without end
    CHECK_EQ(outcome.status, 0);
    scene_close(&scene);
}

TEST(a_head_that_comes_in_parts_counts_against_the_bound)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nserver: x\r\n\r\n"
                                 "a body of more than twenty bytes, and so of more than the bound";
    size_t head_size = (size_t)(strstr(answer, "a body") - answer);
    struct scene scene;
    scene_open(&scene);
    scene.bound = head_size + 20;
    scene.server.routes[0] =
        (struct stub_route){.path = "/x", .answer = slice_str(answer), .portion = head_size - 1};
    struct outcome outcome = fetch(&scene);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "the response is too large");
    scene.takes_part = true;
    outcome = fetch(&scene);
    CHECK_EQ(outcome.status, 200);
    CHECK(outcome.is_part);
    CHECK_STR(outcome.text, "a body of more than ");
    // A head that alone is too large leaves no part to take.
    scene.bound = head_size - 1;
    outcome = fetch(&scene);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "the response is too large");
    scene_close(&scene);
}

TEST(sixteen_interim_responses_are_skipped_and_more_fail)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    static const char last[] = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    static const struct {
        size_t count;
        size_t portion;
        const char *text;
        uint16_t status;
    } cases[] = {
        {16, 0, "hello", 200},
        {17, 0, "too many interim responses", 0},
        {17, 7, "too many interim responses", 0},
        {100000, 0, "too many interim responses", 0},
    };
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        size_t capacity = cases[i].count * strlen(interim) + strlen(last);
        uint8_t *space = malloc(capacity);
        ASSERT(space != NULL);
        struct text answer = text_over(space, capacity);
        for (size_t k = 0; k < cases[i].count; k++) {
            text_add_str(&answer, interim);
        }
        text_add_str(&answer, last);
        scene.server.routes[0] = (struct stub_route){
            .path = "/x", .answer = text_slice(&answer), .portion = cases[i].portion};
        struct outcome outcome = fetch(&scene);
        CHECK_EQ(outcome.status, cases[i].status);
        CHECK_STR(outcome.text, cases[i].text);
        free(space);
    }
    scene_close(&scene);
}

TEST(a_refused_connection_is_reported_later_and_with_the_reason)
{
    struct scene scene;
    struct outcome outcome;
    scene_open(&scene);
    loop_remove(scene.loop, &scene.server.source);
    tcp_close(&scene.server.source.fd);
    for (int tls = 0; tls < 2; tls++) {
        struct tls_context *context = NULL;
        char error[tls_error_size];
        scene.peer.tls = tls == 1;
        struct tls_client_options trust = {0};
        CHECK_EQ(tls_client_create(&trust, &context, error), STATUS_OK);
        outcome = (struct outcome){0};
        fetch_start(&(struct fetch_options){.loop = scene.loop,
                                            .peer = &scene.peer,
                                            .tls = context,
                                            .path = "/x",
                                            .timeout_ms = timeout_ms,
                                            .done = note,
                                            .owner = &outcome});
        CHECK_EQ(outcome.done_count, 0);
        turn_until(&scene, &outcome.done_count, 1);
        CHECK_EQ(outcome.status, 0);
        CHECK_STR(outcome.text, "Connection refused");
        tls_context_destroy(&context);
    }
    scene_close(&scene);
}

TEST(silence_ends_with_the_timeout_and_not_before)
{
    struct scene scene;
    struct outcome outcome;
    scene_open(&scene);
    scene.server.routes[0] = (struct stub_route){.path = "/x"};
    start(&scene, &outcome);
    turn_until(&scene, &scene.server.routes[0].count, 1);
    clock_push_ms(timeout_ms - 5000);
    turn_often(&scene);
    CHECK_EQ(outcome.done_count, 0);
    clock_push_ms(5000);
    turn_until(&scene, &outcome.done_count, 1);
    CHECK_EQ(outcome.status, 0);
    CHECK_STR(outcome.text, "timed out");
    turn_until(&scene, &scene.server.open_count, 0);
    scene_close(&scene);
}

TEST(bytes_that_trickle_in_do_not_prolong_it)
{
    struct scene scene;
    struct outcome outcome;
    scene_open(&scene);
    scene.server.routes[0] = (struct stub_route){
        .path = "/x",
        .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        .portion = 1};
    start(&scene, &outcome);
    turn_until(&scene, &scene.server.open_count, 1);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(outcome.done_count, 0);
        for (int k = 0; k < 5; k++) {
            loop_turn(scene.loop, 1);
        }
        clock_push_ms(timeout_ms / 4);
    }
    loop_turn(scene.loop, 1);
    CHECK_EQ(outcome.done_count, 1);
    CHECK_STR(outcome.text, "timed out");
    scene_close(&scene);
}

TEST(a_cancelled_fetch_closes_its_connection_without_its_callback)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
    struct scene scene;
    struct outcome outcome;
    scene_open(&scene);
    // Before anything, while connected, with the request sent, with half an answer.
    for (int turns = 0; turns < 30; turns++) {
        scene.server.routes[0] =
            (struct stub_route){.path = "/x", .answer = slice_str(answer), .portion = 1};
        struct fetch *it = start(&scene, &outcome);
        for (int i = 0; i < turns; i++) {
            loop_turn(scene.loop, 1);
        }
        CHECK_EQ(outcome.done_count, 0);
        fetch_cancel(&it);
        CHECK(it == NULL);
        turn_often(&scene);
        turn_until(&scene, &scene.server.open_count, 0);
        CHECK_EQ(outcome.done_count, 0);
        clock_push_ms((uint64_t)2 * timeout_ms);
        loop_turn(scene.loop, 0);
        CHECK_EQ(outcome.done_count, 0);
    }
    struct fetch *nothing = NULL;
    fetch_cancel(&nothing);
    scene_close(&scene);
}

TEST(a_fetch_that_cannot_connect_can_be_cancelled_before_it_says_so)
{
    struct scene scene;
    struct outcome outcome;
    scene_open(&scene);
    scene.peer.tls = true; // without a context
    struct fetch *it = start(&scene, &outcome);
    fetch_cancel(&it);
    turn_often(&scene);
    CHECK_EQ(outcome.done_count, 0);
    start(&scene, &outcome);
    turn_until(&scene, &outcome.done_count, 1);
    CHECK_STR(outcome.text, "TLS could not be set up");
    CHECK_EQ(scene.server.accepted_count, 0);
    scene_close(&scene);
}

struct rivals {
    struct fetch *fetches[2];
    uint32_t done_count;
};

static void cancel_rivals(void *owner, const struct fetch_result *result)
{
    struct rivals *rivals = owner;
    rivals->done_count++;
    ASSERT(result->status == 200);
    // Whichever of the two is over: the other one.
    uint32_t first = result->body.bytes[0] == 'a' ? 0 : 1;
    rivals->fetches[first] = NULL;
    fetch_cancel(&rivals->fetches[1 - first]);
}

TEST(a_callback_may_cancel_another_fetch_that_is_ready_in_the_same_turn)
{
    struct scene scene;
    struct rivals rivals = {0};
    static const char *const paths[] = {"/a", "/b"};
    scene_open(&scene);
    scene.server.routes[0] = (struct stub_route){
        .path = "/a", .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na")};
    scene.server.routes[1] = (struct stub_route){
        .path = "/b", .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb")};
    for (int i = 0; i < 2; i++) {
        rivals.fetches[i] = fetch_start(&(struct fetch_options){.loop = scene.loop,
                                                                .peer = &scene.peer,
                                                                .path = paths[i],
                                                                .timeout_ms = timeout_ms,
                                                                .done = cancel_rivals,
                                                                .owner = &rivals});
    }
    turn_until(&scene, &rivals.done_count, 1);
    turn_often(&scene);
    CHECK_EQ(rivals.done_count, 1);
    CHECK_EQ(scene.server.routes[0].count + scene.server.routes[1].count, 2);
    CHECK_EQ(scene.server.open_count, 0);
    scene_close(&scene);
}

struct chain {
    struct scene *scene;
    uint32_t done_count;
};

static void fetch_next(void *owner, const struct fetch_result *result)
{
    struct chain *chain = owner;
    ASSERT(result->status == 200);
    if (++chain->done_count < 3) {
        fetch_start(&(struct fetch_options){.loop = chain->scene->loop,
                                            .peer = &chain->scene->peer,
                                            .path = "/x",
                                            .timeout_ms = timeout_ms,
                                            .done = fetch_next,
                                            .owner = chain});
    }
}

TEST(a_callback_may_start_the_next_one)
{
    struct scene scene;
    struct chain chain = {.scene = &scene};
    scene_open(&scene);
    scene.server.routes[0] = (struct stub_route){
        .path = "/x", .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")};
    fetch_next(&chain, &(struct fetch_result){.status = 200});
    turn_until(&scene, &chain.done_count, 3);
    CHECK_EQ(scene.server.routes[0].count, 2);
    scene_close(&scene);
}

static void need_certificates(void)
{
    static bool made;
    if (!made) {
        make_certificates();
    }
    made = true;
}

TEST(over_tls_only_a_trusted_server_is_asked)
{
    struct scene scene;
    char error[tls_error_size];
    static const char *const authorities[] = {"ca.pem", "other_ca.pem"};
    static char host[] = "localhost";
    need_certificates();
    scene_open(&scene);
    struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                          .key = file_in_dir("key.pem")};
    CHECK_EQ(tls_server_create(&identity, &scene.server.tls, error), STATUS_OK);
    scene.peer.tls = true;
    scene.peer.host = host;
    scene.server.routes[0] = (struct stub_route){
        .path = "/x",
        .answer = slice_str("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        .portion = 7};
    for (int i = 0; i < 2; i++) {
        struct tls_context *context = NULL;
        struct tls_client_options trust = {.ca = file_in_dir(authorities[i]), .verify = true};
        CHECK_EQ(tls_client_create(&trust, &context, error), STATUS_OK);
        struct outcome outcome = {0};
        fetch_start(&(struct fetch_options){.loop = scene.loop,
                                            .peer = &scene.peer,
                                            .tls = context,
                                            .path = "/x",
                                            .timeout_ms = timeout_ms,
                                            .done = note,
                                            .owner = &outcome});
        turn_until(&scene, &outcome.done_count, 1);
        CHECK_EQ(outcome.status, i == 0 ? 200 : 0);
        CHECK(strstr(outcome.text, i == 0 ? "hello" : "certificate") != NULL);
        turn_until(&scene, &scene.server.open_count, 0);
        tls_context_destroy(&context);
    }
    CHECK_EQ(scene.server.routes[0].count, 1);
    tls_context_destroy(&scene.server.tls);
    scene_close(&scene);
}

// Under TLS a read is a record of 16 KiB at most, and the kernel has room for many of them.
TEST(a_long_response_leaves_others_their_turns_and_arrives_whole)
{
    enum { body_size = 1000000, record_size = 16384, reads_per_turn = 16 };
    static char answer[body_size + 128];
    static char host[] = "localhost";
    struct tls_context *context = NULL;
    struct outcome outcome = {0};
    char error[tls_error_size];
    struct scene scene;
    uint32_t turns = 0;
    need_certificates();
    scene_open(&scene);
    struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                          .key = file_in_dir("key.pem")};
    struct tls_client_options trust = {.ca = file_in_dir("ca.pem"), .verify = true};
    CHECK_EQ(tls_server_create(&identity, &scene.server.tls, error), STATUS_OK);
    CHECK_EQ(tls_client_create(&trust, &context, error), STATUS_OK);
    scene.peer.tls = true;
    scene.peer.host = host;
    int head_size = snprintf(answer, sizeof(answer),
                             "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", body_size);
    memset(answer + head_size, 'x', body_size);
    scene.server.routes[0] = (struct stub_route){
        .path = "/x", .answer = slice_of(answer, (size_t)head_size + body_size)};
    fetch_start(&(struct fetch_options){.loop = scene.loop,
                                        .peer = &scene.peer,
                                        .tls = context,
                                        .path = "/x",
                                        .timeout_ms = timeout_ms,
                                        .done = note,
                                        .owner = &outcome});
    turn_until(&scene, &scene.server.routes[0].count, 1);
    for (; outcome.done_count == 0 && turns < 4000; turns++) {
        loop_turn(scene.loop, 5);
    }
    CHECK_EQ(outcome.status, 200);
    CHECK_EQ(outcome.body_size, body_size);
    CHECK(turns >= body_size / record_size / reads_per_turn);
    turn_until(&scene, &scene.server.open_count, 0);
    tls_context_destroy(&context);
    tls_context_destroy(&scene.server.tls);
    scene_close(&scene);
}
