// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

enum {
    body_limit = 2 << 20,       // the rig's limits.body_size
    buffer_size = 32768 + 8192, // of a default configuration: a head, and room for what we add
    message_size_max = 4 << 20,
};

static struct rig rig;
static uint8_t body[body_limit + 1];
static uint8_t message[message_size_max];
static size_t message_size;

static void add(const void *bytes, size_t size)
{
    ASSERT(size <= sizeof(message) - message_size);
    memcpy(message + message_size, bytes, size);
    message_size += size;
}

static void add_text(const char *text)
{
    add(text, strlen(text));
}

// A request with a body of that size, in chunks of `chunk_size` or, with 0, of known length.
static void write_request(size_t size, size_t chunk_size)
{
    char line[64];

    message_size = 0;
    add_text(POST);
    if (chunk_size == 0) {
        snprintf(line, sizeof(line), "content-length: %zu\r\n\r\n", size);
        add_text(line);
        add(body, size);
        return;
    }
    add_text("transfer-encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < size; at += chunk_size) {
        size_t part = size - at < chunk_size ? size - at : chunk_size;
        snprintf(line, sizeof(line), "%zx\r\n", part);
        add_text(line);
        add(body + at, part);
        add_text("\r\n");
    }
    add_text("0\r\n\r\n");
}

// Sends it with another request right behind it, and checks what the backend gets of both.
static bool passes(struct peer *client, struct peer **backend, size_t size, size_t chunk_size)
{
    write_request(size, chunk_size);
    add_text(RIG_GET);
    if (!peer_send_bytes(client, message, message_size)) {
        return false;
    }
    *backend = *backend == NULL ? rig_accept(&rig, 0) : *backend;
    write_request(size, chunk_size == 0 ? 0 : size + 1); // chunks are put together
    bool passed = peer_expect_bytes(*backend, message, message_size) &&
                  peer_send(*backend, RIG_OK) && peer_expect(client, RIG_OK) &&
                  peer_expect(*backend, RIG_GET) && peer_send(*backend, RIG_OK) &&
                  peer_expect(client, RIG_OK) && rig_becomes_idle(&rig);
    if (!passed) {
        printf("# a body of %zu in chunks of %zu\n", size, chunk_size);
    }
    return passed;
}

TEST(bodies_of_every_size_arrive_whole_and_leave_the_next_request_alone)
{
    static const size_t sizes[] = {0,
                                   1,
                                   1000,
                                   128 << 10,
                                   1 << 20,
                                   (128 << 10) - 1,
                                   (128 << 10) + 1,
                                   (1 << 20) - 1,
                                   (1 << 20) + 1,
                                   body_limit - 1,
                                   body_limit};
    static const size_t chunk_sizes[] = {0, 4000, 1 << 20, body_limit};
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    rig_noise(body, sizeof(body), 1);
    struct peer *client = rig_connect(&rig);
    size_t each = ARRAY_COUNT(chunk_sizes);
    for (size_t i = 0; i < ARRAY_COUNT(sizes) * each; i++) {
        CHECK(passes(client, &backend, sizes[i / each], chunk_sizes[i % each]));
    }
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}

TEST(the_end_of_a_body_may_lie_anywhere_near_the_end_of_the_buffer)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    rig_noise(body, sizeof(body), 2);
    struct peer *client = rig_connect(&rig);
    write_request(buffer_size, 0);
    size_t head_size = message_size - buffer_size;
    size_t next_size = strlen(RIG_GET);
    // The body ends in the buffer, with it, or behind it; or the next request does.
    size_t fits = buffer_size - head_size;
    size_t both_fit = fits - next_size;
    // It is the end of the buffer indeed: what fits takes no memory for bodies.
    for (size_t i = 0; i < 2; i++) {
        struct peer *other = rig_connect(&rig);
        write_request(fits + i, 0);
        CHECK(peer_send_bytes(other, message, head_size));
        CHECK_EQ(rig_totals(&rig).body_memory > 0, i > 0);
        peer_close(other);
        CHECK(rig_becomes_idle(&rig));
    }
    for (size_t i = 0; i < 5; i++) {
        CHECK(passes(client, &backend, fits - 2 + i, 0));
        CHECK(passes(client, &backend, fits - 2 + i, 4000));
        CHECK(passes(client, &backend, both_fit - 2 + i, 0));
        CHECK(passes(client, &backend, both_fit - 2 + i, 4000));
    }
    CHECK(rig_stop(&rig));
}

TEST(a_body_above_the_limit_is_refused_before_it_is_read)
{
    static const char *const requests[] = {
        POST "content-length: 2097153\r\n\r\n",
        POST "content-length: 18446744073709551615\r\n\r\n",
        POST "expect: 100-continue\r\ncontent-length: 2097153\r\n\r\n",
        POST "transfer-encoding: chunked\r\n\r\n200001\r\n",
        POST "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n200000\r\n",
        POST "transfer-encoding: chunked\r\n\r\n1\r\nx\r\nffffffffffffffff\r\n",
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, requests[i]));
        CHECK(peer_expect_problem(client, 413, "body_too_large"));
        CHECK(peer_expect_end(client));
        peer_close(client);
    }
    // Not announced at once, but one by one.
    struct peer *client = rig_connect(&rig);
    write_request(body_limit + 1, 65536);
    CHECK(peer_send_bytes(client, message, message_size));
    CHECK(peer_expect_problem(client, 413, "body_too_large"));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_chunked_body_may_be_cut_anywhere_on_its_way)
{
    static const char sent[] = POST "transfer-encoding: chunked\r\n\r\n"
                                    "3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n"
                                    "x-sum: 17\r\nx-other: y\r\n\r\n" RIG_GET;
    static const char received[] = POST "transfer-encoding: chunked\r\n\r\n"
                                        "13\r\nabc0123456789abcdef\r\n0\r\n"
                                        "x-sum: 17\r\nx-other: y\r\n\r\n";
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    for (size_t cut = 1; cut < sizeof(sent) - 1; cut++) {
        CHECK(peer_send_bytes(client, sent, cut));
        CHECK(rig_turn(&rig));
        CHECK(peer_send(client, sent + cut));
        backend = backend == NULL ? rig_accept(&rig, 0) : backend;
        CHECK(peer_expect(backend, received));
        CHECK(peer_send(backend, RIG_OK));
        CHECK(peer_expect(client, RIG_OK));
        CHECK(peer_expect(backend, RIG_GET));
        CHECK(peer_send(backend, RIG_OK));
        CHECK(peer_expect(client, RIG_OK));
    }
    CHECK(rig_stop(&rig));
}

TEST(a_chunked_body_that_is_malformed_is_refused)
{
    static const char *const bodies[] = {
        "x\r\n",         "3\nabc\r\n",     "3\r\nabcd\r\n",
        "3\r\nabc0\r\n", "-1\r\n",         "11111111111111111\r\n",
        "0\r\n x\r\n",   "0\r\nx\r\n\r\n", "3 ;a\r\nabc\r\n",
    };
    char request[256];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        struct peer *client = rig_connect(&rig);
        snprintf(request, sizeof(request), POST "transfer-encoding: chunked\r\n\r\n%s", bodies[i]);
        CHECK(peer_send(client, request));
        CHECK(peer_expect_problem(client, 400, "malformed_request"));
        CHECK(peer_expect_end(client));
        peer_close(client);
    }
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_expects_a_100_gets_it_and_others_do_not)
{
    static const char head[] = POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    static const char received[] = POST "content-length: 5\r\n\r\nhello";
    struct peer *client;
    struct peer *backend;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    client = rig_connect(&rig);
    CHECK(peer_send(client, head));
    CHECK(peer_expect(client, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(peer_is_silent(client)); // once
    CHECK(rig_has_no_call(&rig));
    CHECK(peer_send(client, "hel"));
    CHECK(peer_is_silent(client));
    CHECK(peer_send(client, "lo"));
    backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, received));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    // A client that has begun to send does not wait.
    CHECK(peer_send(client, POST "expect: 100-continue\r\ncontent-length: 5\r\n\r\nhello"));
    CHECK(peer_expect(backend, received));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    // A body larger than the buffer, and a chunked one.
    write_request(100000, 0);
    CHECK(peer_send(client, POST "expect: 100-continue\r\ncontent-length: 100000\r\n\r\n"));
    CHECK(peer_expect(client, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(peer_send_bytes(client, message + message_size - 100000, 100000));
    CHECK(peer_expect_bytes(backend, message, message_size));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(peer_send(client, POST "expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n"));
    CHECK(peer_expect(client, "HTTP/1.1 100 Continue\r\n\r\n"));
    CHECK(peer_send(client, "0\r\n\r\n"));
    CHECK(peer_expect(backend, POST "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    // HTTP/1.0 has no interim responses.
    peer_close(client);
    client = rig_connect(&rig);
    CHECK(
        peer_send(client, "POST /a HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"));
    CHECK(peer_is_silent(client));
    CHECK(rig_stop(&rig));
}

TEST(bodies_beyond_their_memory_are_refused_until_some_is_free_again)
{
    static const char refused[] = POST "content-length: 900000\r\n\r\n";
    char head[1024];
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "limits: {body_size: 1m, body_memory: 1m}"}));
    // One request holds all of it; its body is on its way.
    struct peer *first = rig_connect(&rig);
    write_request(900000, 0);
    CHECK(peer_send_bytes(first, message, message_size - 1));
    CHECK(rig_holds_bodies(&rig, 1 << 20));
    struct peer *second = rig_connect(&rig);
    CHECK(peer_send(second, refused));
    CHECK(peer_read_head(second, head, sizeof(head)));
    CHECK(strstr(head, "HTTP/1.1 503 ") == head);
    CHECK(strstr(head, "\r\nretry-after: 1\r\n") != NULL);
    peer_close(second);
    second = rig_connect(&rig);
    CHECK(peer_send(second, POST "transfer-encoding: chunked\r\n\r\n1\r\n"));
    CHECK(peer_expect_problem(second, 503, "router_overloaded"));
    peer_close(second);
    // A body that fits beside its head needs none.
    second = rig_connect(&rig);
    CHECK(peer_send(second, POST "content-length: 2\r\n\r\nhi"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, POST "content-length: 2\r\n\r\nhi"));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(second, RIG_OK));
    // The memory is free when the answer begins.
    CHECK(peer_send_bytes(first, message + message_size - 1, 1));
    CHECK(peer_expect_bytes(backend, message, message_size));
    CHECK_EQ(rig_totals(&rig).body_memory, 1 << 20);
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n\r\n"));
    CHECK(peer_expect(first, "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n\r\n"));
    CHECK_EQ(rig_totals(&rig).body_memory, 0);
    CHECK(rig_stop(&rig));
}

TEST(a_body_as_large_as_all_the_memory_for_bodies_is_not_refused)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "limits: {body_size: 2m, body_memory: 2m}"}));
    struct peer *client = rig_connect(&rig);
    CHECK(passes(client, &backend, body_limit, 0));
    CHECK(passes(client, &backend, body_limit, 65536));
    CHECK(rig_stop(&rig));
}
