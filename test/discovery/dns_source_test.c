// SPDX-License-Identifier: Apache-2.0
//
// A name server in the loop of the source, and a clock that is pushed past times to live.

#include "discovery/dns_source.h"

#include "config/config.h"
#include "net/dns_server.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <signal.h>

struct scene {
    struct loop *loop;
    struct dns_server server;
    struct config *config;
    struct dns_source *source;
    struct dns_name *name;
    uint32_t found_count; // calls
    uint32_t address_count;
    bool is_full;
};

static const struct dns_record one_and_two[] = {
    {"engines.test", "10.0.0.1", 20, TYPE_A},
    {"engines.test", "10.0.0.2", 20, TYPE_A},
};

static bool scene_found(void *owner, const struct address *addresses, uint32_t count)
{
    struct scene *scene = owner;
    ASSERT(count > 0 && addresses[0].size > 0);
    scene->found_count++;
    scene->address_count = count;
    return !scene->is_full;
}

static void scene_open(struct scene *scene, const struct dns_record *records, uint32_t count)
{
    char text[512];
    struct config_error error;
    *scene = (struct scene){0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    dns_server_start(&scene->server, scene->loop, records, count);
    snprintf(text, sizeof(text),
             "backends: ['http://127.0.0.1:1']\n"
             "dns: {servers: ['%s'], ttl_min: 10s, ttl_max: 60s}\n",
             scene->server.address);
    ASSERT(config_parse(slice_str(text), "test", NULL, &scene->config, &error) == STATUS_OK);
    scene->source = dns_source_create(scene->loop);
    ASSERT(scene->source != NULL);
    dns_source_set_config(scene->source, scene->config);
    scene->name = dns_name_follow(scene->source, "engines.test", 8000, scene_found, scene);
}

static void scene_close(struct scene *scene)
{
    dns_name_leave(&scene->name);
    dns_source_destroy(&scene->source);
    ASSERT(scene->source == NULL);
    dns_server_stop(&scene->server);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

#define TURN_UNTIL(scene, condition)                                                               \
    do {                                                                                           \
        for (int turns = 0; !(condition) && turns < 4000; turns++) {                               \
            loop_turn((scene)->loop, 5);                                                           \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

TEST(addresses_are_told_again_when_records_expire)
{
    struct scene scene;
    scene_open(&scene, one_and_two, 2);
    CHECK(!dns_name_has_resolved(scene.name));
    dns_name_resolve(scene.name);
    TURN_UNTIL(&scene, scene.found_count == 1);
    CHECK_EQ(scene.address_count, 2);
    CHECK(dns_name_has_resolved(scene.name));
    scene.server.record_count = 1;
    clock_push_ms(19000);
    turn_often(&scene);
    CHECK_EQ(scene.found_count, 1);
    clock_push_ms(1100);
    TURN_UNTIL(&scene, scene.found_count == 2);
    CHECK_EQ(scene.address_count, 1);
    scene_close(&scene);
}

TEST(addresses_that_do_not_fit_are_told_again_soon)
{
    struct scene scene;
    scene_open(&scene, one_and_two, 2);
    scene.is_full = true;
    dns_name_resolve(scene.name);
    TURN_UNTIL(&scene, scene.found_count == 1);
    scene.is_full = false;
    clock_push_ms(2000);
    TURN_UNTIL(&scene, scene.found_count == 2);
    clock_push_ms(2000);
    turn_often(&scene);
    CHECK_EQ(scene.found_count, 2);
    scene_close(&scene);
}

TEST(a_name_that_does_not_resolve_tells_nothing_and_is_tried_again)
{
    struct scene scene;
    scene_open(&scene, NULL, 0);
    dns_name_resolve(scene.name);
    TURN_UNTIL(&scene, dns_name_has_resolved(scene.name));
    CHECK_EQ(scene.found_count, 0);
    scene.server.records = one_and_two;
    scene.server.record_count = 2;
    clock_push_ms(2000);
    TURN_UNTIL(&scene, scene.found_count == 1);
    scene_close(&scene);
}

TEST(a_name_that_was_left_tells_nothing_when_its_query_ends)
{
    struct scene scene;
    scene_open(&scene, one_and_two, 2);
    dns_name_resolve(scene.name);
    dns_name_resolve(scene.name); // in flight already
    dns_name_leave(&scene.name);
    CHECK(scene.name == NULL);
    CHECK_EQ(dns_source_leaving_count(scene.source), 1);
    TURN_UNTIL(&scene, dns_source_leaving_count(scene.source) == 0);
    CHECK_EQ(scene.found_count, 0);
    scene_close(&scene);
}

TEST(the_source_may_go_while_the_query_of_a_left_name_is_in_flight)
{
    struct scene scene;
    scene_open(&scene, one_and_two, 2);
    dns_name_resolve(scene.name);
    scene_close(&scene);
    CHECK_EQ(scene.found_count, 0);
}
