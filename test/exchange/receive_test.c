// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

static struct rig rig;

TEST(more_requests_than_allowed_are_refused_and_the_connection_goes_on)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "limits: {requests: 1}"}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    struct peer *second = rig_connect(&rig);
    CHECK(peer_send(second, RIG_GET));
    CHECK(peer_expect_problem(second, 503, "router_overloaded"));
    CHECK(
        peer_send(second, POST "content-length: 2\r\n\r\nhi")); // here in full, so nothing is lost
    CHECK(peer_expect_problem(second, 503, "router_overloaded"));
    CHECK_EQ(rig_totals(&rig).in_flight, 1);
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(rig_becomes_idle(&rig));
    CHECK(peer_send(second, RIG_GET));
    CHECK(peer_expect(pair.backend, RIG_GET));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(second, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(a_blocked_path_reaches_no_backend_whatever_follows_it)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "blocked_paths: [/flush, /x]"}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "POST /flush HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi"));
    CHECK(peer_expect_problem(client, 403, "path_blocked"));
    CHECK(peer_send(client, "GET /flush?now=1 HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 403, "path_blocked"));
    CHECK(peer_send(client, "GET http://h/x HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 403, "path_blocked"));
    CHECK(rig_has_no_call(&rig));
    CHECK(peer_send(client, "GET /flushed HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, "GET /flushed HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n"));
    CHECK(rig_stop(&rig));
}

TEST(a_malformed_head_gets_a_response_that_names_the_fault)
{
    static const struct {
        const char *head;
        int status;
        const char *code;
    } cases[] = {
        {"GET /a HTTP/1.1\r\n\r\n", 400, "malformed_request"},
        {"GET /a HTTP/2.0\r\nhost: h\r\n\r\n", 400, "malformed_request"},
        {POST "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400, "malformed_request"},
        {"\x16\x03\x01\x02", 400, "malformed_request"},
    };
    static char large[40000];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, cases[i].head));
        CHECK(peer_expect_problem(client, cases[i].status, cases[i].code));
        CHECK(peer_expect_end(client));
        peer_close(client);
    }
    snprintf(large, sizeof(large), "GET /%039000d", 0);
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, large));
    CHECK(peer_expect_problem(client, 414, "uri_too_long"));
    snprintf(large, sizeof(large), "GET / HTTP/1.1\r\nhost: h\r\nx: %039000d", 0);
    client = rig_connect(&rig);
    CHECK(peer_send(client, large));
    CHECK(peer_expect_problem(client, 431, "header_too_large"));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_request_without_an_id_gets_one_that_both_sides_see)
{
    char sent[512];
    char answered[512];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "GET /a HTTP/1.1\r\nhost: h\r\n\r\n"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_read_head(backend, sent, sizeof(sent)));
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    CHECK(peer_read_head(client, answered, sizeof(answered)));
    const char *given = strstr(sent, "\r\nx-request-id: ");
    const char *seen = strstr(answered, "\r\nx-request-id: ");
    CHECK(given != NULL && seen != NULL);
    CHECK_EQ(strspn(given + 16, "0123456789abcdef"), 32);
    CHECK(strncmp(given, seen, 16 + 32 + 2) == 0);
    CHECK(rig_stop(&rig));
}
