// SPDX-License-Identifier: Apache-2.0
//
// Origins with data-parallel ranks, and the endpoints of their KV events.

#include "discovery/roster_scene.h"

// "rank/ranks events replay topic" of a backend.
static const char *events_text(const struct scene *scene, uint32_t position)
{
    static char text[512];
    const struct backend *backend = fleet_at(scene->fleet, position);
    snprintf(text, sizeof(text), "%u/%u %s %s '%s'", backend->rank, backend->rank_count,
             backend->events != NULL ? backend->events : "-",
             backend->events_replay != NULL ? backend->events_replay : "-", backend->events_topic);
    return text;
}

TEST(every_rank_is_a_backend_with_endpoints_of_its_own)
{
    struct scene scene;
    scene_open(&scene, "events: {endpoint: 'tcp://*:5557', replay: 'tcp://*:5657', topic: kv}\n"
                       "backends:\n"
                       "  - {url: 'http://10.0.0.1', ranks: 3}\n"
                       "  - {url: 'http://[2001:db8::1]', ranks: 2, events_replay: none}\n"
                       "  - {url: 'http://10.0.0.2', events: 'tcp://other:1', events_topic: t}\n"
                       "  - {url: 'http://10.0.0.3', events: none}\n");
    scene_start(&scene);
    CHECK_STR(fleet_text(&scene),
              "10.0.0.1#rank=0 10.0.0.1#rank=1 10.0.0.1#rank=2 [2001:db8::1]#rank=0 "
              "[2001:db8::1]#rank=1 10.0.0.2 10.0.0.3");
    CHECK_STR(events_text(&scene, 0), "0/3 tcp://10.0.0.1:5557 tcp://10.0.0.1:5657 'kv'");
    CHECK_STR(events_text(&scene, 2), "2/3 tcp://10.0.0.1:5559 tcp://10.0.0.1:5659 'kv'");
    CHECK_STR(events_text(&scene, 4), "1/2 tcp://[2001:db8::1]:5558 - 'kv'");
    CHECK_STR(events_text(&scene, 5), "0/1 tcp://other:1 tcp://10.0.0.2:5657 't'");
    CHECK_STR(events_text(&scene, 6), "0/1 - - 'kv'");
    uint64_t first = fleet_at(scene.fleet, 0)->id;
    CHECK_EQ(fleet_at(scene.fleet, 0)->server, first);
    CHECK_EQ(fleet_at(scene.fleet, 2)->server, first);
    CHECK(fleet_at(scene.fleet, 3)->server != first);
    CHECK(fleet_at(scene.fleet, 0)->identity != fleet_at(scene.fleet, 1)->identity);
    CHECK_EQ(fleet_at(scene.fleet, 5)->server, fleet_at(scene.fleet, 5)->id);
    scene_close(&scene);
}

static enum status ignore_events(void *owner, uint64_t backend_id, struct slice json)
{
    (void)owner;
    (void)backend_id;
    (void)json;
    return STATUS_OK;
}

// The poller forgets it with its ranks: a rank that was kept would be freed memory.
TEST(backends_that_want_to_be_asked_for_events_are)
{
    struct scene scene;
    struct stub_server server;
    char yaml[128];
    scene_open(&scene, "");
    stub_start(&server, scene.loop);
    server.routes[0] = (struct stub_route){.path = "/kv_cache_events"};
    scene.poller = kv_poller_create(&(struct kv_poller_options){
        .loop = scene.loop, .config = scene.config, .push = ignore_events});
    ASSERT(scene.poller != NULL);
    scene_start(&scene);
    snprintf(yaml, sizeof(yaml), "backends: [{url: 'http://127.0.0.1:%u', ranks: 2, events: poll}]",
             server.port);
    set_config(&scene, yaml);
    CHECK_STR(events_text(&scene, 1), "1/2 poll - ''");
    for (int i = 0; server.routes[0].count == 0 && i < 1000; i++) {
        loop_turn(scene.loop, 5);
    }
    CHECK_EQ(server.routes[0].count, 1);
    set_config(&scene, "");
    CHECK(fleet_at(scene.fleet, 0) == NULL);
    stub_stop(&server);
    scene_close(&scene);
}

TEST(every_address_of_a_name_has_all_ranks)
{
    struct scene scene;
    scene_open(&scene, "events: {endpoint: 'tcp://*:5557'}\n"
                       "backends: [{url: 'http://engines.test:8000', ranks: 2}]\n");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, "engines.test:8000#10.0.0.1#rank=0 "
                                        "engines.test:8000#10.0.0.1#rank=1 "
                                        "engines.test:8000#10.0.0.2#rank=0 "
                                        "engines.test:8000#10.0.0.2#rank=1"));
    CHECK_STR(events_text(&scene, 3), "1/2 tcp://10.0.0.2:5558 - ''");
    CHECK_EQ(fleet_at(scene.fleet, 1)->server, fleet_at(scene.fleet, 0)->id);
    CHECK_EQ(fleet_at(scene.fleet, 3)->server, fleet_at(scene.fleet, 2)->id);
    // An address that leaves takes its ranks with it.
    set_records(&scene, one_and_two, 1);
    clock_push_ms(66000);
    TURN_UNTIL(&scene, fleet_is(&scene, "engines.test:8000#10.0.0.1#rank=0 "
                                        "engines.test:8000#10.0.0.1#rank=1"));
    scene_close(&scene);
}

TEST(changed_ranks_or_events_make_other_backends)
{
    static const char *const fields[] = {
        "ranks: 2",
        "ranks: 3",
        "ranks: 3, events: 'tcp://*:5557'",
        "ranks: 3, events: 'tcp://*:5567'",
        "ranks: 3, events: 'tcp://*:5567', events_topic: t",
        "ranks: 3, events: 'tcp://*:5567', events_topic: t, events_replay: 'tcp://*:1'",
        "ranks: 1",
        "events: 'tcp://*:1'",
    };
    struct scene scene;
    uint64_t id = 0;
    char line[256];
    scene_open(&scene, "");
    scene_start(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        snprintf(line, sizeof(line), "backends: [{url: 'http://10.0.0.1', %s}]", fields[i]);
        set_config(&scene, line);
        publish(&scene);
        CHECK(fleet_at(scene.fleet, 0)->id > id);
        id = fleet_at(scene.fleet, 0)->id;
        set_config(&scene, line); // the same again changes nothing
        CHECK_EQ(fleet_at(scene.fleet, 0)->id, id);
        CHECK_EQ(fleet_at(scene.fleet, 0)->rank_count, scene.config->backends[0].ranks);
    }
    CHECK_STR(fleet_text(&scene), "10.0.0.1");
    // The same as the default of all is the same.
    set_config(&scene, "events: {endpoint: 'tcp://*:1'}\nbackends: ['http://10.0.0.1']");
    CHECK_EQ(fleet_at(scene.fleet, 0)->id, id);
    scene_close(&scene);
}

TEST(ranks_are_added_and_removed_together_and_take_a_slot_each)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://10.0.0.2", "10.0.0.2");
    scene_open(&scene, "backends: [{url: 'http://10.0.0.1', ranks: 4}]");
    scene_start(&scene);
    spec.ranks = 5;
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_EXHAUSTED);
    CHECK_STR(fleet_text(&scene),
              "10.0.0.1#rank=0 10.0.0.1#rank=1 10.0.0.1#rank=2 10.0.0.1#rank=3");
    publish(&scene);
    spec.ranks = 2;
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    CHECK_STR(backend->url, "http://10.0.0.2#rank=0");
    CHECK(roster_has(scene.roster, "http://10.0.0.2"));
    CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, 5)), STATUS_OK);
    CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, 2)), STATUS_OK);
    CHECK_STR(fleet_text(&scene), "");
    scene_close(&scene);
}

TEST(an_added_backend_gets_the_common_events_unless_it_has_its_own)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend follows = spec_of("http://10.0.0.2", "10.0.0.2");
    struct config_backend own = spec_of("http://10.0.0.3", "10.0.0.3");
    own.events = "tcp://*:7";
    follows.ranks = 2;
    scene_open(&scene, "events: {endpoint: 'tcp://*:5'}");
    scene_start(&scene);
    CHECK_EQ(roster_add(scene.roster, &own, &backend), STATUS_OK);
    CHECK_EQ(roster_add(scene.roster, &follows, &backend), STATUS_OK);
    CHECK_STR(events_text(&scene, 0), "0/1 tcp://10.0.0.3:7 - ''");
    CHECK_STR(events_text(&scene, 2), "1/2 tcp://10.0.0.2:6 - ''");
    uint64_t id = fleet_at(scene.fleet, 0)->id;
    set_config(&scene, "events: {endpoint: 'tcp://*:15'}");
    CHECK_EQ(fleet_at(scene.fleet, 0)->id, id);
    CHECK_STR(events_text(&scene, 0), "0/1 tcp://10.0.0.3:7 - ''");
    CHECK_STR(events_text(&scene, 2), "1/2 tcp://10.0.0.2:16 - ''");
    // A default without ports for its ranks serves the first of them.
    set_config(&scene, "events: {endpoint: 'ipc:///kv'}");
    CHECK_STR(events_text(&scene, 1), "0/2 ipc:///kv - ''");
    CHECK_STR(events_text(&scene, 2), "1/2 - - ''");
    scene_close(&scene);
}

TEST(ranks_that_do_not_fit_come_when_there_is_room)
{
    struct scene scene;
    scene_open(&scene, "backends: [{url: 'http://10.0.0.1', ranks: 7}]");
    scene_start(&scene);
    set_config(&scene, "backends: [{url: 'http://10.0.0.2', ranks: 3}]");
    CHECK_STR(fleet_text(&scene), "10.0.0.2#rank=0"); // the others are still seen by workers
    publish(&scene);
    clock_push_ms(2100);
    TURN_UNTIL(&scene, fleet_is(&scene, "10.0.0.2#rank=0 10.0.0.2#rank=1 10.0.0.2#rank=2"));
    CHECK_EQ(fleet_at(scene.fleet, 2)->server, fleet_at(scene.fleet, 0)->id);
    scene_close(&scene);
}
