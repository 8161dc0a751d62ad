// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
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

// Removes the backend and puts another into its slot, which is free as soon as the worker has let
// go of the old one, and not before: the sanitizers look.
static bool replace_backend(uint32_t slot)
{
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(&rig, 0, url);
    struct backend **place = &rig.backends[0].backend;

    fleet_remove(rig.fleet, *place);
    bool published = fleet_publish(rig.fleet);
    proxy_wake(rig.proxy);
    while (published &&
           ((*place = fleet_add(rig.fleet, &spec)) == NULL || (*place)->slot != slot)) {
        if (*place != NULL) {
            fleet_remove(rig.fleet, *place);
        }
        published = rig_publish(&rig);
        fleet_reclaim(rig.fleet);
    }
    return published && rig_publish(&rig);
}

TEST(a_backend_in_the_place_of_another_does_not_get_its_connections)
{
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 100; i++) {
        struct peer *backend = NULL;
        CHECK(serve(client, &backend));
        CHECK(replace_backend(rig.backends[0].backend->slot));
        CHECK(peer_expect_end(backend));
        peer_close(backend);
    }
    CHECK(rig_stop(&rig));
}

enum { wave_size = 8 };

// As many requests as are allowed, all at one backend, each on a connection of its own.
static bool serve_wave(struct peer *const clients[wave_size], uint32_t index)
{
    struct peer *backends[wave_size];
    bool good = true;

    for (uint32_t i = 0; i < rig.backend_count; i++) {
        fleet_set_draining(rig.fleet, rig.backends[i].backend, i != index);
    }
    good = rig_publish(&rig);
    for (uint32_t i = 0; good && i < wave_size; i++) {
        good = peer_send(clients[i], RIG_GET);
        backends[i] = rig_accept(&rig, index);
        good = good && peer_expect(backends[i], RIG_GET);
    }
    for (uint32_t i = 0; good && i < wave_size; i++) {
        good = peer_send(backends[i], RIG_OK) && peer_expect(clients[i], RIG_OK);
    }
    return good && rig_becomes_idle(&rig);
}

TEST(connections_that_rest_leave_room_for_those_that_are_needed)
{
    struct peer *clients[wave_size];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "limits: {requests: 8, backends: 4}\n"
                                                          "timeouts: {backend_keepalive: 1h}",
                                                .backend_count = 4}));
    for (uint32_t i = 0; i < wave_size; i++) {
        clients[i] = rig_connect(&rig);
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(serve_wave(clients, i));
    }
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}
