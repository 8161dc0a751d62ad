// SPDX-License-Identifier: Apache-2.0

#include "rig.h"
#include "test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static struct rig rig;

#define SESSION "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\nx-session-id: s\r\n\r\n"
#define OK_CLOSE                                                                                   \
    "HTTP/1.1 200 OK\r\nx-request-id: r\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"

// Serves a request wherever it goes, on a connection that is not kept.
static bool serve(struct peer *client, const char *request, uint32_t *index)
{
    if (!peer_send(client, request)) {
        return false;
    }
    struct peer *backend = rig_accept_any(&rig, index);
    bool served = peer_expect(backend, request) && peer_send(backend, OK_CLOSE) &&
                  peer_expect(client, RIG_OK);
    peer_close(backend);
    return served;
}

TEST(more_clients_than_allowed_wait_until_others_leave)
{
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "limits: {connections: 2}"}));
    struct peer *first = rig_connect(&rig);
    struct peer *second = rig_connect(&rig);
    CHECK(rig_has_connections(&rig, 2));
    struct peer *third = rig_connect(&rig); // by the kernel alone
    struct peer *fourth = rig_connect(&rig);
    CHECK(peer_send(third, RIG_GET));
    CHECK(peer_send(fourth, RIG_GET));
    CHECK(rig_has_no_call(&rig));
    CHECK_EQ(rig_totals(&rig).connection_count, 2);
    CHECK(serve(second, RIG_GET, &index)); // those inside are served
    peer_close(first);
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK_EQ(rig_totals(&rig).connection_count, 2);
    CHECK(peer_send(backend, OK_CLOSE));
    CHECK(peer_expect(third, RIG_OK));
    CHECK(peer_is_silent(fourth));
    peer_reset(second);
    backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, OK_CLOSE));
    CHECK(peer_expect(fourth, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_finds_no_descriptor_is_served_when_there_is_one)
{
    uint32_t index;
    struct rlimit before;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    int free_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(free_fd != -1);
    close(free_fd);
    // One descriptor is left, for the client's side.
    struct rlimit tight = {.rlim_cur = (rlim_t)free_fd + 1, .rlim_max = before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct peer *client = rig_connect(&rig);
    bool sent = peer_send(client, RIG_GET);
    uint32_t accepted = rig_totals(&rig).connection_count;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(sent);
    CHECK_EQ(accepted, 0);
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, OK_CLOSE));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(every_client_with_half_a_head_holds_a_buffer_and_gives_it_back)
{
    enum { count = 50 };
    struct peer *clients[count];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = rig_connect(&rig);
        CHECK(peer_send(clients[i], "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"));
    }
    CHECK_EQ(rig_totals(&rig).buffers_in_use, count);
    CHECK_EQ(rig_totals(&rig).in_flight, 0); // no request yet
    for (uint32_t i = 0; i < count; i += 2) {
        peer_close(clients[i]);
    }
    CHECK(rig_has_connections(&rig, count / 2));
    CHECK_EQ(rig_totals(&rig).buffers_in_use, count / 2);
    for (uint32_t i = 1; i < count; i += 2) {
        CHECK(peer_send(clients[i], "\r\n"));
        struct peer *backend = rig_accept(&rig, 0);
        CHECK(peer_expect(backend, RIG_GET));
        CHECK(peer_send(backend, OK_CLOSE));
        CHECK(peer_expect(clients[i], RIG_OK));
        peer_close(backend);
    }
    CHECK(rig_becomes_idle(&rig)); // although all of them are still connected
    CHECK_EQ(rig_totals(&rig).connection_count, count / 2);
    CHECK(rig_stop(&rig));
}

TEST(a_change_of_the_fleet_counts_for_the_very_next_request)
{
    char url[rig_url_size];
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 20; i++) {
        // As the keeper does it: published, woken, and not waited for.
        fleet_set_draining(rig.fleet, rig.backends[i % 2].backend, true);
        fleet_set_draining(rig.fleet, rig.backends[1 - i % 2].backend, false);
        CHECK(fleet_publish(rig.fleet));
        CHECK(serve(client, RIG_GET, &index));
        CHECK_EQ(index, 1 - i % 2);
    }
    fleet_set_draining(rig.fleet, rig.backends[1].backend, false);
    fleet_remove(rig.fleet, rig.backends[0].backend);
    rig.backends[0].backend = NULL;
    CHECK(fleet_publish(rig.fleet));
    CHECK(serve(client, RIG_GET, &index));
    CHECK_EQ(index, 1);
    // Somebody new.
    struct fleet_spec spec = rig_spec(&rig, 0, url);
    rig.backends[0].backend = fleet_add(rig.fleet, &spec);
    fleet_set_draining(rig.fleet, rig.backends[1].backend, true);
    CHECK(fleet_publish(rig.fleet));
    CHECK(serve(client, RIG_GET, &index));
    CHECK_EQ(index, 0);
    CHECK(rig_stop(&rig));
}

TEST(a_new_plan_brings_its_policy)
{
    uint32_t counts[4] = {0};
    uint32_t index;
    uint32_t first;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        CHECK(serve(client, SESSION, &index));
        counts[index]++;
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(counts[i], 2); // by turns
    }
    CHECK(rig_replan(&rig, "policy: consistent_hash"));
    CHECK(serve(client, SESSION, &first));
    for (uint32_t i = 0; i < 7; i++) {
        CHECK(serve(client, SESSION, &index));
        CHECK_EQ(index, first); // a session stays
    }
    CHECK(rig_stop(&rig));
}

TEST(a_new_plan_brings_its_timeouts_and_lets_old_requests_finish)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(rig_replan(&rig, "timeouts: {first_byte: 50ms}\nblocked_paths: [/b]"));
    // Later requests use the new plan,
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "GET /b HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 403, "path_blocked"));
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect_problem(client, 504, "first_byte_timeout"));
    // and what was under way has the time that it was given.
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(several_workers_share_the_clients_and_the_limits)
{
    enum { count = 32 };
    struct peer *clients[count];
    struct peer *backends[count];
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "limits: {requests: 31}", .worker_count = 2}));
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = rig_connect(&rig);
    }
    CHECK(rig_has_connections(&rig, count));
    for (uint32_t i = 0; i < count - 1; i++) {
        CHECK(peer_send(clients[i], RIG_GET));
        backends[i] = rig_accept(&rig, 0);
        CHECK(peer_expect(backends[i], RIG_GET));
    }
    CHECK_EQ(rig_totals(&rig).in_flight, count - 1);
    CHECK(peer_send(clients[count - 1], RIG_GET)); // whichever worker has it
    CHECK(peer_expect_problem(clients[count - 1], 503, "router_overloaded"));
    for (uint32_t i = 0; i < count - 1; i++) {
        CHECK(peer_send(backends[i], RIG_OK));
        CHECK(peer_expect(clients[i], RIG_OK));
    }
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(rig_totals(&rig).request_count, count);
    CHECK(rig_stop(&rig));
}
