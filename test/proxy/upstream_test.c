// SPDX-License-Identifier: Apache-2.0

#include "rig.h"
#include "test.h"

#include <poll.h>

static struct rig rig;

// One request over that client, served on the connection that `backend` is or, if it is NULL, on a
// new one.
static bool serve(struct peer *client, struct peer **backend)
{
    if (!peer_send(client, RIG_GET)) {
        return false;
    }
    *backend = *backend == NULL ? rig_accept(&rig, 0) : *backend;
    return peer_expect(*backend, RIG_GET) && peer_send(*backend, RIG_OK) &&
           peer_expect(client, RIG_OK) && rig_has_no_call(&rig);
}

TEST(the_connection_used_last_is_used_next)
{
    enum { count = 3 };
    struct peer *clients[count];
    struct peer *backends[count];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = rig_connect(&rig);
        CHECK(peer_send(clients[i], RIG_GET));
        backends[i] = rig_accept(&rig, 0);
        CHECK(peer_expect(backends[i], RIG_GET));
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(peer_send(backends[i], RIG_OK));
        CHECK(peer_expect(clients[i], RIG_OK));
        CHECK(rig_turn(&rig));
    }
    CHECK(serve(clients[0], &backends[2]));
    CHECK(serve(clients[1], &backends[2]));
    // Two at a time: the one on top and the one below it.
    CHECK(peer_send(clients[0], RIG_GET));
    CHECK(peer_expect(backends[2], RIG_GET));
    CHECK(serve(clients[1], &backends[1]));
    CHECK(peer_send(backends[2], RIG_OK));
    CHECK(peer_expect(clients[0], RIG_OK));
    CHECK(peer_is_silent(backends[0]));
    CHECK(rig_stop(&rig));
}

TEST(a_connection_that_the_backend_closes_is_not_used_again)
{
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 6; i++) {
        struct peer *backend = NULL;
        CHECK(serve(client, &backend));
        (i % 2 == 0 ? peer_close : peer_reset)(backend);
    }
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), 0);
    CHECK_EQ(rig_totals(&rig).retry_count, 0);
    CHECK(rig_stop(&rig));
}

TEST(a_connection_is_kept_for_as_long_as_the_configuration_says)
{
    struct peer *backend = NULL;
    struct peer *other = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {backend_keepalive: 800ms}"}));
    struct peer *client = rig_connect(&rig);
    // Each use begins the time anew.
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(serve(client, &backend));
        poll(NULL, 0, 400);
    }
    CHECK(peer_expect_end(backend));
    CHECK(serve(client, &other));
    CHECK(rig_stop(&rig));
}

TEST(connections_to_a_backend_that_leaves_the_fleet_are_closed)
{
    struct peer *backend = NULL;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    fleet_set_draining(rig.fleet, rig.backends[1].backend, true);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    struct peer *other = rig_connect(&rig);
    CHECK(serve(client, &backend)); // one that rests,
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect(backend, RIG_GET));
    struct peer *idle = NULL;
    CHECK(peer_send(other, RIG_GET));
    idle = rig_accept(&rig, 0);
    CHECK(peer_expect(idle, RIG_GET));
    CHECK(peer_send(idle, RIG_OK));
    CHECK(peer_expect(other, RIG_OK));
    CHECK(rig_turn(&rig));
    // and one with a request on it.
    fleet_set_draining(rig.fleet, rig.backends[1].backend, false);
    fleet_remove(rig.fleet, rig.backends[0].backend);
    CHECK(rig_publish(&rig));
    CHECK(peer_expect_end(idle));
    CHECK(peer_is_silent(backend));
    fleet_reclaim(rig.fleet); // the request keeps it
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(peer_expect_end(backend));
    rig.backends[0].backend = NULL;
    CHECK(rig_becomes_idle(&rig));
    fleet_reclaim(rig.fleet);
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect(rig_accept(&rig, 1), RIG_GET));
    CHECK(rig_stop(&rig));
}

TEST(a_backend_in_the_place_of_another_does_not_get_its_connections)
{
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 100; i++) {
        char url[rig_url_size];
        struct fleet_spec spec = rig_spec(&rig, 0, url);
        struct peer *backend = NULL;
        struct backend *old = rig.backends[0].backend;
        uint32_t slot = old->slot;
        CHECK(serve(client, &backend));
        fleet_remove(rig.fleet, old);
        rig.backends[0].backend = NULL;
        CHECK(fleet_publish(rig.fleet));
        proxy_wake(rig.proxy);
        // Freed as soon as the worker has let go of it, and not before: the sanitizers look.
        while (rig.backends[0].backend == NULL || rig.backends[0].backend->slot != slot) {
            fleet_reclaim(rig.fleet);
            if (rig.backends[0].backend != NULL) {
                fleet_remove(rig.fleet, rig.backends[0].backend);
            }
            rig.backends[0].backend = fleet_add(rig.fleet, &spec);
            CHECK(rig.backends[0].backend != NULL || rig_publish(&rig));
        }
        CHECK(rig_publish(&rig));
        CHECK(peer_expect_end(backend));
        peer_close(backend);
    }
    CHECK(rig_stop(&rig));
}

TEST(connections_that_rest_leave_room_for_those_that_are_needed)
{
    enum { count = 8, backend_count = 4 };
    struct peer *clients[count];
    struct peer *backends[count];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "limits: {requests: 8, backends: 4}\n"
                                                          "timeouts: {backend_keepalive: 1h}",
                                                .backend_count = backend_count}));
    for (uint32_t i = 0; i < count; i++) {
        clients[i] = rig_connect(&rig);
    }
    // All requests at one backend, then all at the next: each time the connections are kept.
    for (uint32_t round = 0; round < backend_count; round++) {
        for (uint32_t i = 0; i < backend_count; i++) {
            fleet_set_draining(rig.fleet, rig.backends[i].backend, i != round);
        }
        CHECK(rig_publish(&rig));
        for (uint32_t i = 0; i < count; i++) {
            CHECK(peer_send(clients[i], RIG_GET));
            backends[i] = rig_accept(&rig, round);
            CHECK(peer_expect(backends[i], RIG_GET));
        }
        for (uint32_t i = 0; i < count; i++) {
            CHECK(peer_send(backends[i], RIG_OK));
            CHECK(peer_expect(clients[i], RIG_OK));
        }
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}
