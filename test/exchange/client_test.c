// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "sys/clock.h"
#include "test.h"

#include <poll.h>
#include <sys/socket.h>

static struct rig rig;

static bool serve(struct peer *client, struct peer **backend)
{
    if (!peer_send(client, RIG_GET)) {
        return false;
    }
    *backend = *backend == NULL ? rig_accept(&rig, 0) : *backend;
    return peer_expect(*backend, RIG_GET) && peer_send(*backend, RIG_OK) &&
           peer_expect(client, RIG_OK);
}

TEST(a_client_that_rests_too_long_is_closed_without_a_word)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {keepalive: 600ms}"}));
    struct peer *client = rig_connect(&rig);
    // Each request begins the time anew.
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(serve(client, &backend));
        CHECK_EQ(poll(&(struct pollfd){.fd = client->fd, .events = POLLIN}, 1, 200), 0);
    }
    CHECK(peer_expect_end(client));
    CHECK(rig_has_connections(&rig, 0));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_never_says_anything_is_closed_after_the_time_for_a_head)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {header: 50ms}"}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_expect_end(client));
    CHECK(rig_has_connections(&rig, 0));
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}

TEST(a_deadline_may_come_closer_than_the_one_before)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {keepalive: 1h, body: 1h, "
                                                          "header: 100ms}"}));
    struct peer *client = rig_connect(&rig);
    CHECK(serve(client, &backend));
    CHECK(rig_turn(&rig)); // it rests, for an hour
    CHECK(peer_send(client, "GET /a"));
    CHECK(peer_expect_problem(client, 408, "request_timeout"));
    CHECK(rig_stop(&rig));
}

TEST(a_deadline_may_move_away_from_the_one_before)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {keepalive: 1h, body: 1h, "
                                                          "header: 100ms, first_byte: 0}"}));
    struct peer *client = rig_connect(&rig);
    CHECK(serve(client, &backend));
    CHECK(peer_send(client, "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n"));
    // The timer for the head has fired several times when the body comes.
    CHECK_EQ(poll(&(struct pollfd){.fd = client->fd, .events = POLLIN}, 1, 300), 0);
    CHECK(peer_send(client, "hi"));
    char head[1024];
    CHECK(peer_read_head(backend, head, sizeof(head)));
    CHECK(peer_expect(backend, "hi"));
    CHECK_EQ(poll(&(struct pollfd){.fd = client->fd, .events = POLLIN}, 1, 300), 0);
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK_EQ(poll(&(struct pollfd){.fd = client->fd, .events = POLLIN}, 1, 300), 0);
    CHECK(serve(client, &backend));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_sends_on_still_reads_why_it_was_refused)
{
    enum { body_size = 8 << 20 };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (uint32_t i = 0; i < 3; i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, i == 0   ? "POST /a HTTP/1.1\r\nhost: h\r\n"
                                           "content-length: 8388608\r\n\r\n"
                                : i == 1 ? "POST /a HTTP/1.1\r\nhost: h\r\n"
                                           "transfer-encoding: chunked\r\n\r\n800000\r\n"
                                         : "POST /a HTTP/1.1\r\n\r\n"));
        // All of it, before the first look at the answer.  Without the care that is tested here
        // there would be a reset, which throws away what was not read yet.
        CHECK(peer_send_zeros(client, body_size));
        CHECK_EQ(rig_totals(&rig).buffers_in_use, 0);
        CHECK(peer_expect_problem(client, i < 2 ? 413 : 400,
                                  i < 2 ? "body_too_large" : "malformed_request"));
        uint64_t answered_ns = clock_monotonic_ns();
        CHECK(peer_expect_end(client)); // right behind the answer, not when patience ends
        CHECK(clock_monotonic_ns() - answered_ns < 1500000000);
        peer_close(client);
        CHECK(rig_has_connections(&rig, 0));
    }
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_never_stops_sending_is_not_listened_to_for_ever)
{
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 999999999\r\n\r\n"));
    CHECK(peer_expect_problem(client, 413, "body_too_large"));
    uint64_t until_ns = clock_monotonic_ns() + (uint64_t)rig_patience_ms * 1000000;
    while (send(client->fd, "x", 1, MSG_NOSIGNAL) == 1 && clock_monotonic_ns() < until_ns) {
        poll(NULL, 0, 10);
    }
    CHECK(clock_monotonic_ns() < until_ns);
    CHECK(rig_has_connections(&rig, 0));
    CHECK(rig_stop(&rig));
}

TEST(any_number_of_requests_may_be_sent_ahead)
{
    enum { count = 500 };
    static const char request[] = "GET /v1/models/none HTTP/1.1\r\nhost: h\r\n\r\n";
    static const struct fleet_model models[] = {{.name = "m", .document = "{}"}};
    static char all[count * sizeof(request)];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, models, 1);
    CHECK(rig_publish(&rig));
    // Answered by the proxy itself, so that nothing but its own fairness stops it.
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        size += (size_t)snprintf(all + size, sizeof(all) - size, "%s", request);
    }
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, all));
    for (uint32_t i = 0; i < count; i++) {
        CHECK(peer_expect_problem(client, 404, "model_not_found"));
    }
    CHECK(peer_is_silent(client));
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_stop(&rig));
}

TEST(clients_that_come_and_go_leave_nothing)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (uint32_t i = 0; i < 200; i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(i % 4 != 0 || serve(client, &backend));
        CHECK(i % 4 != 1 || peer_send(client, "GET /a HT"));
        (i % 8 < 4 ? peer_close : peer_reset)(client);
    }
    CHECK(rig_has_connections(&rig, 0));
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(rig_totals(&rig).request_count, 50);
    CHECK(rig_stop(&rig));
}
