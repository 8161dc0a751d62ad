// SPDX-License-Identifier: Apache-2.0
//
// Backends of the configuration and of the admin API.  roster_name_test.c has names,
// roster_rank_test.c ranks.

#include "discovery/roster_scene.h"

TEST(addresses_are_backends_at_once_and_in_order)
{
    struct scene scene;
    scene_open(
        &scene,
        "api_key: common\n"
        "pools: [{name: a}, {name: b}]\n"
        "backends:\n"
        "- http://10.0.0.9:8000\n"
        "- {url: 'https://[2001:db8::1]', weight: 7, pool: b, models: [m, n], api_key: own}\n"
        "- http://10.0.0.1\n");
    scene_start(&scene);
    CHECK_STR(fleet_text(&scene), "10.0.0.9:8000 https://[2001:db8::1] 10.0.0.1");
    CHECK(roster_has_resolved_all(scene.roster));
    CHECK(scene.changed_count > 0);
    const struct backend *first = fleet_at(scene.fleet, 0);
    const struct backend *second = fleet_at(scene.fleet, 1);
    struct address expected;
    ASSERT(address_parse("10.0.0.9:8000", &expected) == STATUS_OK);
    CHECK(address_equal(&first->address, &expected));
    CHECK_STR(first->host, "10.0.0.9");
    CHECK_EQ(first->port, 8000);
    CHECK(!first->tls);
    CHECK_STR(first->authorization, "Bearer common");
    CHECK_EQ(fleet_member(scene.fleet, first)->weight, 1);
    CHECK(fleet_model_name(scene.fleet, first, 0) == NULL);
    ASSERT(address_parse("[2001:db8::1]:443", &expected) == STATUS_OK);
    CHECK(address_equal(&second->address, &expected));
    CHECK(second->tls);
    CHECK_EQ(second->pool, 1);
    CHECK_STR(second->authorization, "Bearer own");
    CHECK_EQ(fleet_member(scene.fleet, second)->weight, 7);
    CHECK_STR(fleet_model_name(scene.fleet, second, 1), "n");
    CHECK_EQ(scene.server.question_count, 0);
    scene_close(&scene);
}

TEST(a_new_configuration_adds_and_removes_and_leaves_the_rest_alone)
{
    struct scene scene;
    scene_open(&scene,
               "backends: ['http://10.0.0.1', 'http://10.0.0.2', 'http://engines.test:8000']");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster));
    uint64_t two = id_of(&scene, "http://10.0.0.2");
    uint64_t behind_name = id_of(&scene, "http://engines.test:8000#10.0.0.1");
    CHECK(two != 0 && behind_name != 0);
    uint32_t changed_count = scene.changed_count;
    set_config(&scene,
               "backends: ['http://10.0.0.3', 'http://10.0.0.2', 'http://engines.test:8000']");
    CHECK_STR(fleet_text(&scene), "10.0.0.2 engines.test:8000#10.0.0.1 engines.test:8000#10.0.0.2 "
                                  "10.0.0.3");
    CHECK_EQ(id_of(&scene, "http://10.0.0.2"), two);
    CHECK_EQ(id_of(&scene, "http://engines.test:8000#10.0.0.1"), behind_name);
    CHECK(scene.changed_count > changed_count);
    set_config(&scene, "backends: ['http://10.0.0.2']");
    CHECK_STR(fleet_text(&scene), "10.0.0.2");
    uint32_t asked = scene.server.question_count;
    clock_push_ms(100000);
    turn_often(&scene);
    CHECK_EQ(scene.server.question_count, asked); // the name is not asked for any more
    set_config(&scene, "");
    CHECK_STR(fleet_text(&scene), "");
    scene_close(&scene);
}

TEST(a_changed_weight_keeps_the_backend)
{
    struct scene scene;
    scene_open(&scene, "backends: [{url: 'http://10.0.0.9', weight: 2},"
                       " {url: 'http://engines.test:8000', weight: 2}]");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster));
    uint64_t ids[3];
    for (uint32_t i = 0; i < 3; i++) {
        ids[i] = fleet_at(scene.fleet, i)->id;
    }
    set_config(&scene, "backends: [{url: 'http://10.0.0.9', weight: 5},"
                       " {url: 'http://engines.test:8000', weight: 6}]");
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(fleet_at(scene.fleet, i)->id, ids[i]);
        CHECK_EQ(fleet_member(scene.fleet, fleet_at(scene.fleet, i))->weight, i == 0 ? 5 : 6);
    }
    // An address that comes later has it too.
    set_records(&scene, two_and_three, 2);
    clock_push_ms(20000);
    TURN_UNTIL(&scene, find_url(&scene, "http://engines.test:8000#10.0.0.3") != NULL);
    const struct backend *late = find_url(&scene, "http://engines.test:8000#10.0.0.3");
    CHECK_EQ(fleet_member(scene.fleet, late)->weight, 6);
    scene_close(&scene);
}

// Everything but the weight is part of what a backend is.
TEST(changed_models_pools_or_keys_make_another_backend)
{
    static const char *const yaml[] = {
        "backends: [{url: 'http://10.0.0.1', models: [m]}]",
        "backends: [{url: 'http://10.0.0.1', models: [m, n]}]",
        "backends: [{url: 'http://10.0.0.1', models: [n, m]}]",
        "backends: [{url: 'http://10.0.0.1'}]",
        "backends: [{url: 'http://10.0.0.1', api_key: k}]",
        "backends: [{url: 'http://10.0.0.1', api_key: other}]",
        "backends: [{url: 'http://10.0.0.1'}]\napi_key: common",
        "backends: [{url: 'http://10.0.0.1'}]\napi_key: rotated",
        "backends: [{url: 'http://10.0.0.1', pool: b}]\npools: [{name: a}, {name: b}]",
        "backends: [{url: 'http://10.0.0.1', pool: b}]\npools: [{name: b}, {name: a}]",
    };
    static const char *const keys[] = {
        NULL, NULL, NULL, NULL, "Bearer k", "Bearer other", "Bearer common", "Bearer rotated",
        NULL, NULL};
    struct scene scene;
    scene_open(&scene, yaml[0]);
    scene_start(&scene);
    for (size_t i = 1; i < ARRAY_COUNT(yaml); i++) {
        uint64_t before = fleet_at(scene.fleet, 0)->id;
        set_config(&scene, yaml[i]);
        CHECK_STR(fleet_text(&scene), "10.0.0.1");
        uint64_t id = fleet_at(scene.fleet, 0)->id;
        CHECK(id != before);
        const char *authorization = fleet_at(scene.fleet, 0)->authorization;
        CHECK_STR(authorization == NULL ? "" : authorization, keys[i] == NULL ? "" : keys[i]);
        set_config(&scene, yaml[i]); // the same again
        CHECK_EQ(fleet_at(scene.fleet, 0)->id, id);
        publish(&scene);
    }
    CHECK_EQ(fleet_at(scene.fleet, 0)->pool, 0);
    // The common key written down for one is the same key.
    set_config(&scene, "backends: [{url: 'http://10.0.0.1'}]\napi_key: k");
    uint64_t id = fleet_at(scene.fleet, 0)->id;
    set_config(&scene, "backends: [{url: 'http://10.0.0.1', api_key: k}]");
    CHECK_EQ(fleet_at(scene.fleet, 0)->id, id);
    scene_close(&scene);
}

TEST(a_reload_changes_which_names_are_accepted)
{
    static const struct {
        const char *yaml;
        bool is_accepted;
    } cases[] = {
        {"models: {learn: false, any_name: on}", true},
        {"models: {learn: false, any_name: off}", false},
        {"models: {learn: false, any_name: auto}", false},
        {"models: {learn: false, any_name: on}", true},
    };
    static const struct fleet_model model = {.name = "m", .document = "{}"};
    char yaml[256];
    struct scene scene;
    scene_open(&scene, "backends: ['http://10.0.0.1']");
    scene_start(&scene);
    fleet_set_models(scene.fleet, fleet_at(scene.fleet, 0), &model, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        snprintf(yaml, sizeof(yaml), "%s\nbackends: ['http://10.0.0.1']", cases[i].yaml);
        set_config(&scene, yaml);
        CHECK(fleet_publish(scene.fleet));
        const struct fleet_view *view = fleet_view(scene.fleet);
        CHECK_EQ(fleet_view_find(view, slice_str("other")) != NULL, cases[i].is_accepted);
    }
    scene_close(&scene);
}

TEST(a_pool_that_is_gone_keeps_no_models)
{
    struct scene scene;
    scene_open(&scene, "pools: [{name: a}, {name: b, models: [m]}]\n"
                       "backends: [{url: 'http://10.0.0.1', models: [m]},"
                       " {url: 'http://10.0.0.2', pool: b}]");
    scene_start(&scene);
    publish(&scene);
    CHECK_EQ(fleet_view_find(fleet_view(scene.fleet), slice_str("m"))->pool, 1);
    set_config(&scene, "pools: [{name: a}]\nbackends: [{url: 'http://10.0.0.1', models: [m]}]");
    publish(&scene);
    const struct fleet_group *group = fleet_view_find(fleet_view(scene.fleet), slice_str("m"));
    CHECK(group != NULL);
    CHECK_EQ(group->pool, 0);
    CHECK_EQ(group->count, 1);
    scene_close(&scene);
}

TEST(an_added_backend_is_in_the_fleet_at_once_and_can_be_removed)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://10.0.0.2", "10.0.0.2");
    scene_open(&scene, "backends: ['http://10.0.0.1']\napi_key: common");
    scene_start(&scene);
    uint32_t changed_count = scene.changed_count;
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    CHECK(backend != NULL && backend == fleet_at(scene.fleet, 1));
    CHECK_STR(backend->url, "http://10.0.0.2");
    CHECK_STR(backend->authorization, "Bearer common");
    CHECK(scene.changed_count > changed_count);

    changed_count = scene.changed_count;
    CHECK_EQ(roster_remove(scene.roster, backend), STATUS_OK);
    CHECK_STR(fleet_text(&scene), "10.0.0.1");
    CHECK(scene.changed_count > changed_count);
    CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, 0)), STATUS_OK); // configured or not
    CHECK_STR(fleet_text(&scene), "");
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    CHECK_STR(fleet_text(&scene), "10.0.0.2");
    set_config(&scene, "backends: ['http://10.0.0.1']\napi_key: common"); // which wants it back
    CHECK_STR(fleet_text(&scene), "10.0.0.2 10.0.0.1");
    scene_close(&scene);
}

TEST(a_url_is_there_once)
{
    static const char *const hosts[] = {"10.0.0.1", "10.0.0.2", "engines.test", "late.test"};
    static const char *const urls[] = {"http://10.0.0.1", "http://10.0.0.2",
                                       "http://engines.test:8000", "http://late.test"};
    struct scene scene;
    struct backend *backend = NULL;
    scene_open(&scene, "backends: ['http://10.0.0.1', 'http://engines.test:8000']");
    scene_start(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(urls); i++) {
        struct config_backend spec = spec_of(urls[i], hosts[i]);
        bool is_new = i % 2 == 1;
        CHECK_EQ(roster_add(scene.roster, &spec, &backend), is_new ? STATUS_OK : STATUS_MALFORMED);
        uint32_t changed_count = scene.changed_count;
        CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_MALFORMED);
        CHECK_EQ(scene.changed_count, changed_count);
    }
    CHECK_STR(fleet_text(&scene), "10.0.0.1 10.0.0.2");
    scene_close(&scene);
}

TEST(an_added_backend_stays_until_a_configuration_has_listed_and_dropped_it)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://10.0.0.2", "10.0.0.2");
    scene_open(&scene, "backends: ['http://10.0.0.1']");
    scene_start(&scene);
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    uint64_t id = backend->id;
    set_config(&scene, "backends: ['http://10.0.0.3']");
    CHECK_STR(fleet_text(&scene), "10.0.0.2 10.0.0.3");
    set_config(&scene, "backends: ['http://10.0.0.3', 'http://10.0.0.2']");
    CHECK_EQ(id_of(&scene, "http://10.0.0.2"), id);
    set_config(&scene, "backends: ['http://10.0.0.3']");
    CHECK_STR(fleet_text(&scene), "10.0.0.3");
    scene_close(&scene);
}

TEST(an_added_backend_follows_its_pool_by_name_and_is_removed_with_it)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend specs[] = {spec_of("http://10.0.0.2", "10.0.0.2"),
                                     spec_of("http://engines.test:8000", "engines.test")};
    scene_open(&scene, "pools: [{name: a}, {name: b}]");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    for (size_t i = 0; i < 2; i++) {
        specs[i].pool = 1;
        CHECK_EQ(roster_add(scene.roster, &specs[i], &backend), STATUS_OK);
    }
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster));
    set_config(&scene, "pools: [{name: c}, {name: b}]");
    CHECK_EQ(fleet_at(scene.fleet, 0)->pool, 1);
    uint64_t id = fleet_at(scene.fleet, 0)->id;
    set_config(&scene, "pools: [{name: b}, {name: c}]");
    publish(&scene);
    TURN_UNTIL(&scene, fleet_at(scene.fleet, 2) != NULL);
    CHECK(fleet_at(scene.fleet, 0)->id != id);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(fleet_at(scene.fleet, i)->pool, 0);
    }
    set_config(&scene, "pools: [{name: c}]");
    CHECK_STR(fleet_text(&scene), "");
    scene_close(&scene);
}

TEST(an_added_backend_without_a_key_gets_the_new_common_key)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend with = spec_of("http://10.0.0.1", "10.0.0.1");
    struct config_backend without = spec_of("http://10.0.0.2", "10.0.0.2");
    with.api_key = "own";
    scene_open(&scene, "api_key: common");
    scene_start(&scene);
    CHECK_EQ(roster_add(scene.roster, &with, &backend), STATUS_OK);
    CHECK_EQ(roster_add(scene.roster, &without, &backend), STATUS_OK);
    uint64_t id = id_of(&scene, "http://10.0.0.1");
    set_config(&scene, "api_key: rotated");
    CHECK_EQ(id_of(&scene, "http://10.0.0.1"), id);
    CHECK_STR(find_url(&scene, "http://10.0.0.1")->authorization, "Bearer own");
    CHECK_STR(find_url(&scene, "http://10.0.0.2")->authorization, "Bearer rotated");
    scene_close(&scene);
}

TEST(a_full_fleet_takes_no_more_until_one_has_left)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://10.0.0.1", "10.0.0.1");
    scene_open(&scene, "");
    scene_start(&scene);
    fill(&scene, 8);
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_EXHAUSTED);
    CHECK(backend == NULL);
    CHECK(fleet_at(scene.fleet, 7) != NULL && fleet_at(scene.fleet, 8) == NULL);
    CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, 3)), STATUS_OK);
    publish(&scene);
    clock_push_ms(60000);
    turn_often(&scene);
    CHECK(fleet_at(scene.fleet, 7) == NULL); // what was refused does not come by itself
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    CHECK(backend != NULL);
    scene_close(&scene);
}

// Its slot is free again only when no worker can see the old one.
TEST(a_backend_that_is_replaced_in_a_full_fleet_comes_when_there_is_room)
{
    struct scene scene;
    scene_open(&scene, "backends: ['http://10.0.0.1']");
    scene_start(&scene);
    fill(&scene, 7);
    set_config(&scene, "backends: [{url: 'http://10.0.0.1', models: [m]}]");
    CHECK_EQ(id_of(&scene, "http://10.0.0.1"), 0);
    uint32_t changed_count = scene.changed_count;
    clock_push_ms(2000);
    turn_often(&scene);
    CHECK_EQ(id_of(&scene, "http://10.0.0.1"), 0);
    publish(&scene);
    clock_push_ms(2000);
    TURN_UNTIL(&scene, id_of(&scene, "http://10.0.0.1") != 0);
    CHECK(scene.changed_count > changed_count);
    set_config(&scene, "");
    CHECK_EQ(id_of(&scene, "http://10.0.0.1"), 0);
    scene_close(&scene);
}

TEST(only_backends_of_the_fleet_are_asked_for_their_load)
{
    static const char page[] = "HTTP/1.1 200 OK\r\ncontent-length: 28\r\n\r\n"
                               "vllm:num_requests_waiting 3\n";
    struct scene scene;
    struct stub_server engine;
    char yaml[128];
    scene_open(&scene, "load: {interval: 1s}");
    stub_start(&engine, scene.loop);
    engine.routes[0] = (struct stub_route){.path = "/metrics", .answer = slice_str(page)};
    scene_start(&scene);
    snprintf(yaml, sizeof(yaml), "load: {interval: 1s}\nbackends: ['http://127.0.0.1:%u']",
             engine.port);
    set_config(&scene, yaml);
    for (int i = 0; (engine.routes[0].count < 1 || engine.open_count > 0) && i < 4000; i++) {
        clock_push_ms(5);
        loop_turn(scene.loop, 1);
    }
    CHECK_EQ(engine.routes[0].count, 1);
    CHECK(atomic_load(&fleet_at(scene.fleet, 0)->load.reported_waiting) == 3);

    set_config(&scene, "load: {interval: 1s}");
    publish(&scene); // and it is gone
    for (int i = 0; i < 100; i++) {
        clock_push_ms(100);
        loop_turn(scene.loop, 0);
    }
    CHECK_EQ(engine.routes[0].count, 1);
    stub_stop(&engine);
    scene_close(&scene);
}
