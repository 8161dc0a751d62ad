// SPDX-License-Identifier: Apache-2.0
//
// A name server in the loop of a router that dials.

#include "cluster/mesh_link.h"
#include "cluster/mesh_scene.h"
#include "net/dns_server.h"
#include "test.h"

static struct scene scene;
static struct scene_router *const a = &scene.routers[0];
static struct scene_router *const b = &scene.routers[1];
static struct scene_router *const c = &scene.routers[2];
static struct dns_server server;

static struct dns_record records[2];
static struct dns_record service_records[4];
static char hosts[2][64];

// Two routers on one port of two addresses; the first router dials the name, which stands for the
// first of them, or for both.
static void open_named(uint32_t record_count)
{
    const char *peers[] = {"routers.test:7946"};
    scene_start(&scene);
    scene_open(&scene, 1, NULL, 0);
    scene_open(&scene, 2, NULL, 0);
    for (uint32_t i = 0; i < 2; i++) {
        const char *address = scene.routers[1 + i].address;
        snprintf(hosts[i], sizeof(hosts[i]), "%.*s", (int)strcspn(address, ":"), address);
        records[i] = (struct dns_record){"routers.test", hosts[i], 1, TYPE_A};
    }
    dns_server_start(&server, a->loop, records, record_count);
    struct mesh_options options = scene_options(&scene, 0);
    options.peers = peers;
    options.peer_count = 1;
    options.dns_servers = server.address;
    scene_open_with(&scene, 0, &options);
}

static void close_named(void)
{
    link_close(&a->link);
    dns_server_stop(&server);
    scene_stop(&scene);
}

TEST(every_address_of_a_name_is_a_peer)
{
    open_named(2);
    SCENE_UNTIL(&scene, a->there == 6 && b->there == 1 && c->there == 1);
    scene_turn_for(&scene, 2500); // resolved again
    CHECK_EQ(a->came_count, 2);
    CHECK_EQ(a->left_count, 0);
    CHECK_EQ(scene_status(&scene, 0)->peer_count, 2);
    CHECK(server.question_count >= 4);
    close_named();
}

TEST(an_address_that_a_name_gains_or_loses_is_followed)
{
    open_named(1);
    SCENE_UNTIL(&scene, a->there == 2);
    server.record_count = 2;
    SCENE_UNTIL(&scene, a->there == 6);
    server.records = records + 1;
    server.record_count = 1;
    uint32_t asked = server.question_count;
    SCENE_UNTIL(&scene, server.question_count >= asked + 4);
    CHECK_EQ(a->there, 6); // the connection stays while the router is there
    link_close(&b->link);
    SCENE_UNTIL(&scene, a->there == 4);
    CHECK_EQ(scene_status(&scene, 0)->peer_count, 1); // and is not dialled any more
    close_named();
}

TEST(known_addresses_stay_while_no_server_responds)
{
    open_named(1);
    SCENE_UNTIL(&scene, a->there == 2);
    server.rcode = RCODE_SERVFAIL;
    uint32_t asked = server.question_count;
    SCENE_UNTIL(&scene, server.question_count >= asked + 4);
    link_close(&b->link);
    b->there = 0;
    SCENE_UNTIL(&scene, a->there == 0);
    scene_open(&scene, 1, NULL, 0);
    SCENE_UNTIL(&scene, a->there == 2);
    close_named();
}

// Two routers on two ports; a third dials a service that names the first of them, or both.
static void open_service(uint32_t service_count)
{
    static char values[2][64];
    const char *peers[] = {"dns+srv://_warmpath._tcp.test"};
    scene_start(&scene);
    scene_open(&scene, 1, NULL, 0);
    scene_open(&scene, 2, NULL, 0);
    for (uint32_t i = 0; i < 2; i++) {
        const char *address = scene.routers[1 + i].address;
        int host_size = (int)strcspn(address, ":");
        snprintf(hosts[i], sizeof(hosts[i]), "%.*s", host_size, address);
        snprintf(values[i], sizeof(values[i]), "0 %s router-%u.test", address + host_size + 1, i);
        service_records[i] =
            (struct dns_record){i == 0 ? "router-0.test" : "router-1.test", hosts[i], 1, TYPE_A};
        service_records[2 + i] = (struct dns_record){"_warmpath._tcp.test", values[i], 1, TYPE_SRV};
    }
    dns_server_start(&server, a->loop, service_records, 2 + service_count);
    struct mesh_options options = scene_options(&scene, 0);
    options.peers = peers;
    options.peer_count = 1;
    options.dns_servers = server.address;
    scene_open_with(&scene, 0, &options);
}

TEST(every_target_of_a_service_is_a_peer_at_its_own_port)
{
    open_service(2);
    SCENE_UNTIL(&scene, a->there == 6 && b->there == 1 && c->there == 1);
    scene_turn_for(&scene, 2500); // resolved again
    CHECK_EQ(a->came_count, 2);
    CHECK_EQ(a->left_count, 0);
    CHECK_EQ(scene_status(&scene, 0)->peer_count, 2);
    CHECK(server.question_count >= 10);
    close_named();
}

TEST(a_target_that_a_service_gains_is_dialled)
{
    open_service(1);
    SCENE_UNTIL(&scene, a->there == 2);
    server.record_count = 4;
    SCENE_UNTIL(&scene, a->there == 6);
    close_named();
}

TEST(a_service_that_is_withdrawn_is_not_dialled_any_more)
{
    open_service(1);
    SCENE_UNTIL(&scene, a->there == 2);
    server.record_count = 2;
    uint32_t asked = server.question_count;
    SCENE_UNTIL(&scene, server.question_count >= asked + 2);
    CHECK_EQ(a->there, 2); // the connection stays
    link_close(&b->link);
    SCENE_UNTIL(&scene, a->there == 0);
    CHECK_EQ(scene_status(&scene, 0)->peer_count, 0);
    close_named();
}

TEST(known_targets_stay_while_one_of_them_cannot_be_asked)
{
    open_service(2);
    SCENE_UNTIL(&scene, a->there == 6);
    server.failing_name = "router-0.test";
    uint32_t asked = server.question_count;
    SCENE_UNTIL(&scene, server.question_count >= asked + 10);
    link_close(&b->link);
    b->there = 0;
    SCENE_UNTIL(&scene, a->there == 4);
    scene_open(&scene, 1, NULL, 0);
    SCENE_UNTIL(&scene, a->there == 6);
    close_named();
}

static const char *why_not(const char *peer)
{
    static char error[link_error_size];
    struct link *link = NULL;
    scene_start(&scene);
    struct mesh_options options = scene_options(&scene, 0);
    options.peers = &peer;
    options.peer_count = 1;
    if (mesh_link_open(&options, &link, error) == STATUS_OK) {
        link_close(&link);
    }
    scene_stop(&scene);
    return error;
}

TEST(a_peer_is_what_the_configuration_accepts)
{
    static const char *const good[] = {
        "10.0.0.1:7946",
        "[::1]:1",
        "router-1.example.com:65535",
        "dns+srv://_warmpath._tcp.example.com",
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        CHECK_STR(why_not(good[i]), "");
    }
    CHECK_STR(why_not("10.0.0.1"), "peer 10.0.0.1: the port is missing");
    CHECK_STR(why_not("a:0"), "peer a:0: a port is a number from 1 to 65535");
    CHECK_STR(why_not("dns+srv://"),
              "peer dns+srv://: behind dns+srv:// goes the name of SRV records");
}
