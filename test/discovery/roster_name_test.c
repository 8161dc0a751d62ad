// SPDX-License-Identifier: Apache-2.0
//
// Origins that are DNS names.

#include "discovery/roster_scene.h"

TEST(a_name_is_a_backend_for_each_of_its_addresses)
{
    struct scene scene;
    scene_open(&scene, "backends: ['http://10.0.0.1:8000', 'http://engines.test:8000']");
    set_records(&scene, two_and_three, 3);
    scene_start(&scene);
    CHECK_STR(fleet_text(&scene), "10.0.0.1:8000");
    CHECK(!roster_has_resolved_all(scene.roster));
    uint32_t changed_count = scene.changed_count;
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster));
    CHECK_STR(fleet_text(&scene), "10.0.0.1:8000 engines.test:8000#10.0.0.2 "
                                  "engines.test:8000#10.0.0.3 engines.test:8000#2001:db8::4");
    CHECK_EQ(scene.changed_count, changed_count + 1);
    const struct backend *backend = fleet_at(scene.fleet, 2);
    struct address expected;
    ASSERT(address_parse("10.0.0.3:8000", &expected) == STATUS_OK);
    CHECK(address_equal(&backend->address, &expected));
    CHECK_STR(backend->host, "engines.test");
    scene_close(&scene);
}

TEST(addresses_that_stay_in_the_records_keep_their_backends)
{
    struct scene scene;
    scene_open(&scene, engines);
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    uint64_t two = id_of(&scene, "http://engines.test:8000#10.0.0.2");
    fleet_set_weight(scene.fleet, fleet_find(scene.fleet, two), 9); // as the admin API does
    set_records(&scene, two_and_three, 2);
    clock_push_ms(19000);
    turn_often(&scene);
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    uint32_t changed_count = scene.changed_count;
    clock_push_ms(1000);
    TURN_UNTIL(&scene, fleet_is(&scene, "engines.test:8000#10.0.0.2 engines.test:8000#10.0.0.3"));
    CHECK_EQ(id_of(&scene, "http://engines.test:8000#10.0.0.2"), two);
    CHECK_EQ(fleet_member(scene.fleet, fleet_find(scene.fleet, two))->weight, 9);
    CHECK(scene.changed_count > changed_count);
    scene_close(&scene);
}

static void check_trouble(uint8_t rcode)
{
    struct scene scene;
    scene_open(&scene, engines);
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    scene.server.rcode = rcode;
    uint32_t asked = scene.server.question_count;
    clock_push_ms(20000);
    TURN_UNTIL(&scene, scene.server.question_count > asked);
    turn_often(&scene);
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    // It is asked for again soon, and not only when its time would have been over.
    scene.server.rcode = 0;
    set_records(&scene, two_and_three, 2);
    clock_push_ms(2000);
    turn_often(&scene);
    CHECK_STR(fleet_text(&scene), "engines.test:8000#10.0.0.2 engines.test:8000#10.0.0.3");
    scene_close(&scene);
}

TEST(a_name_that_stops_resolving_keeps_its_addresses)
{
    check_trouble(RCODE_NXDOMAIN);
    check_trouble(RCODE_SERVFAIL);
    check_trouble(RCODE_REFUSED);
}

TEST(a_name_that_is_not_there_yet_is_asked_for_until_it_is)
{
    struct scene scene;
    scene_open(&scene, engines);
    scene_start(&scene);
    CHECK(!roster_has_resolved_all(scene.roster));
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster)); // as far as it can be
    CHECK_STR(fleet_text(&scene), "");
    for (int i = 0; i < 5; i++) {
        uint32_t asked = scene.server.question_count;
        clock_push_ms(2000);
        turn_often(&scene);
        CHECK(scene.server.question_count > asked);
    }
    set_records(&scene, one_and_two, 2);
    clock_push_ms(2000);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    scene_close(&scene);
}

static void check_time_to_live(const struct dns_record *record, uint64_t expected_ms)
{
    struct scene scene;
    scene_open(&scene, engines);
    set_records(&scene, record, 1);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, "engines.test:8000#10.0.0.1"));
    uint32_t asked = scene.server.question_count;
    clock_push_ms(expected_ms - 1000);
    turn_often(&scene);
    CHECK_EQ(scene.server.question_count, asked);
    clock_push_ms(1000);
    turn_often(&scene);
    CHECK(scene.server.question_count > asked);
    scene_close(&scene);
}

TEST(the_time_to_live_has_bounds)
{
    static const struct dns_record brief = {"engines.test", "10.0.0.1", 1, TYPE_A};
    static const struct dns_record middling = {"engines.test", "10.0.0.1", 30, TYPE_A};
    static const struct dns_record endless = {"engines.test", "10.0.0.1", 86400, TYPE_A};
    check_time_to_live(&brief, 10000); // dns.ttl_min
    check_time_to_live(&middling, 30000);
    check_time_to_live(&endless, 60000); // dns.ttl_max
}

TEST(a_name_may_go_and_come_while_it_is_being_resolved)
{
    struct scene scene;
    scene_open(&scene, engines);
    set_records(&scene, one_and_two, 2);
    scene.server.silent = true;
    scene_start(&scene);
    turn_often(&scene);
    CHECK_EQ(scene.server.question_count, 2); // both families, and no answer
    set_config(&scene, "");
    CHECK(roster_has_resolved_all(scene.roster));
    scene.server.silent = false;
    set_config(&scene, engines);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    // The first query comes back as well, from a second try, and brings nothing.
    TURN_UNTIL(&scene, scene.server.question_count == 6);
    turn_often(&scene);
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    scene_close(&scene);
}

TEST(the_roster_may_end_with_queries_in_flight)
{
    struct scene scene;
    scene_open(&scene, engines);
    scene.server.silent = true;
    scene_start(&scene);
    turn_often(&scene);
    set_config(&scene, "backends: ['http://other.test', 'http://10.0.0.1']");
    turn_often(&scene);
    CHECK_EQ(scene.server.question_count, 4);
    scene_close(&scene); // and the sanitizer finds nothing left
}

TEST(an_added_name_is_resolved_and_goes_with_any_of_its_backends)
{
    struct scene scene;
    struct backend *backend = (struct backend *)&scene; // anything but NULL
    struct config_backend spec = spec_of("http://engines.test:8000", "engines.test");
    scene_open(&scene, "");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    CHECK(backend == NULL);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, 1)), STATUS_OK);
    CHECK_STR(fleet_text(&scene), "");
    scene_close(&scene);
}

TEST(an_added_name_that_does_not_resolve_takes_a_place_until_its_url_is_removed)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend late = spec_of("http://late.test", "late.test");
    scene_open(&scene, "");
    scene_start(&scene);
    for (int i = 0; i < 8; i++) {
        char url[32];
        snprintf(url, sizeof(url), "http://late.test:%d", i + 1);
        struct config_backend spec = spec_of(url, "late.test");
        CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    }
    CHECK_EQ(roster_add(scene.roster, &late, &backend), STATUS_EXHAUSTED);
    CHECK(!roster_has(scene.roster, "http://late.test"));
    TURN_UNTIL(&scene, roster_has_resolved_all(scene.roster));
    CHECK_EQ(roster_add(scene.roster, &late, &backend), STATUS_EXHAUSTED);
    CHECK(roster_has(scene.roster, "http://late.test:3"));
    CHECK_EQ(roster_remove_url(scene.roster, "http://late.test:3"), STATUS_OK);
    CHECK(!roster_has(scene.roster, "http://late.test:3"));
    CHECK_EQ(roster_remove_url(scene.roster, "http://late.test:3"), STATUS_MALFORMED);
    CHECK_EQ(roster_add(scene.roster, &late, &backend), STATUS_OK);
    scene_close(&scene);
}

TEST(a_url_is_removed_with_all_its_addresses_but_not_a_configured_name)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://engines.test:9000", "engines.test");
    spec.port = 9000;
    scene_open(&scene, engines);
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    TURN_UNTIL(&scene, fleet_at(scene.fleet, 3) != NULL);
    CHECK_EQ(roster_remove_url(scene.roster, "http://engines.test:9000"), STATUS_OK);
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    CHECK_EQ(roster_remove_url(scene.roster, "http://engines.test:8000"), STATUS_MALFORMED);
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    scene_close(&scene);
}

TEST(only_dns_records_remove_the_backends_of_a_configured_name)
{
    struct scene scene;
    scene_open(&scene, "backends: ['http://engines.test:8000']");
    set_records(&scene, one_and_two, 2);
    scene_start(&scene);
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(roster_remove(scene.roster, fleet_at(scene.fleet, i)), STATUS_MALFORMED);
    }
    CHECK_STR(fleet_text(&scene), engines_one_and_two);
    scene_close(&scene);
}

TEST(a_pool_may_move_while_a_name_in_it_is_being_resolved)
{
    struct scene scene;
    struct backend *backend = NULL;
    struct config_backend spec = spec_of("http://engines.test:8000", "engines.test");
    scene_open(&scene, "pools: [{name: a}, {name: b}]");
    set_records(&scene, one_and_two, 2);
    scene.server.silent = true;
    scene_start(&scene);
    spec.pool = 1;
    CHECK_EQ(roster_add(scene.roster, &spec, &backend), STATUS_OK);
    turn_often(&scene);
    set_config(&scene, "pools: [{name: b}, {name: a}]");
    turn_often(&scene);
    CHECK_EQ(scene.server.question_count, 2); // one query is enough
    scene.server.silent = false;
    TURN_UNTIL(&scene, fleet_is(&scene, engines_one_and_two));
    CHECK_EQ(fleet_at(scene.fleet, 0)->pool, 0);
    scene_close(&scene);
}

TEST(addresses_of_a_name_that_do_not_fit_come_when_there_is_room)
{
    struct scene scene;
    scene_open(&scene, engines);
    set_records(&scene, one_and_two, 2);
    scene.server.silent = true;
    scene_start(&scene);
    fill(&scene, 7);
    scene.server.silent = false;
    TURN_UNTIL(&scene, id_of(&scene, "http://engines.test:8000#10.0.0.1") != 0);
    CHECK_EQ(id_of(&scene, "http://engines.test:8000#10.0.0.2"), 0);
    CHECK_EQ(roster_remove(scene.roster, find_url(&scene, "http://10.1.0.3")), STATUS_OK);
    publish(&scene);
    clock_push_ms(2000); // and not the twenty seconds that the records live
    turn_often(&scene);
    CHECK(id_of(&scene, "http://engines.test:8000#10.0.0.2") != 0);
    scene_close(&scene);
}
