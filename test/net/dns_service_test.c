// SPDX-License-Identifier: Apache-2.0

#include "net/dns_service.h"

#include "net/dns_scene.h"

#include <stdlib.h>

static const struct dns_record zone[] = {
    {"_two._tcp.test", "10 7947 b.test", 50, TYPE_SRV},
    {"_two._tcp.test", "20 7946 a.test", 60, TYPE_SRV},
    {"_two._tcp.test", "20 7946 A.test", 60, TYPE_SRV}, // the same
    {"_ports._tcp.test", "0 2 a.test", 60, TYPE_SRV},
    {"_ports._tcp.test", "0 1 a.test", 60, TYPE_SRV},
    {"_brief._tcp.test", "0 1 brief.test", 60, TYPE_SRV},
    {"_hour._tcp.test", "0 1 hour.test", 0, TYPE_SRV},
    {"_alias._tcp.test", "_two._tcp.test", 20, TYPE_CNAME},
    {"_half._tcp.test", "0 1 hour.test", 3600, TYPE_SRV},
    {"_half._tcp.test", "0 1 nowhere.test", 3600, TYPE_SRV},
    {"_empty._tcp.test", "0 1 nowhere.test", 60, TYPE_SRV},
    {"_off._tcp.test", "0 0 .", 60, TYPE_SRV},
    {"_zero._tcp.test", "0 0 a.test", 60, TYPE_SRV},
    {"_short._tcp.test", "0 1 b", 60, TYPE_SRV},
    {"a.test", "10.0.0.1", 300, TYPE_A},
    {"a.test", "2001:db8::1", 300, TYPE_AAAA},
    {"b.test", "10.0.0.2", 300, TYPE_A},
    {"brief.test", "10.0.0.3", 7, TYPE_A},
    {"hour.test", "10.0.0.4", 3600, TYPE_A},
};

static void scene_open_with(struct scene *scene, uint32_t timeout_ms)
{
    scene_start(scene, zone, ARRAY_COUNT(zone), timeout_ms);
}

// With more patience than a test has: only first attempts count.
static void scene_open(struct scene *scene)
{
    scene_open_with(scene, 60000);
}

static struct dns_answer resolve_service(struct scene *scene, const char *name)
{
    struct wait wait = {0};
    dns_resolve_service(scene->dns, name, note, &wait);
    wait_for(scene, &wait.done_count, 1);
    ASSERT(wait.done_count == 1);
    return wait.answer;
}

TEST(every_target_comes_with_its_own_port)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve_service(&scene, "_two._tcp.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "10.0.0.1:7946 10.0.0.2:7947 [2001:db8::1]:7946");
    CHECK_STR(answer.why, "");
    CHECK_EQ(scene.server.question_count, 5); // the service, and two families of two targets
    scene_close(&scene);
}

TEST(two_ports_of_a_target_are_two_addresses)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve_service(&scene, "_ports._tcp.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "10.0.0.1:1 10.0.0.1:2 [2001:db8::1]:1 [2001:db8::1]:2");
    scene_close(&scene);
}

TEST(the_shortest_time_to_live_of_service_alias_and_target_counts)
{
    struct scene scene;
    scene_open(&scene);
    CHECK_EQ(resolve_service(&scene, "_two._tcp.test").ttl_ms, 50000);
    CHECK_EQ(resolve_service(&scene, "_brief._tcp.test").ttl_ms, 7000);
    CHECK_EQ(resolve_service(&scene, "_hour._tcp.test").ttl_ms, dns_ttl_default_ms); // zero
    struct dns_answer answer = resolve_service(&scene, "_alias._tcp.test");
    CHECK_EQ(answer.address_count, 3);
    CHECK_EQ(answer.ttl_ms, 20000);
    scene_close(&scene);
}

TEST(a_service_without_records_is_closed)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve_service(&scene, "_absent._tcp.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "Domain name not found");
    answer = resolve_service(&scene, "a.test"); // which has addresses only
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "DNS server returned answer with no data");
    CHECK_EQ(resolve_service(&scene, "a..test").status, STATUS_CLOSED);
    CHECK_EQ(scene.server.question_count, 2); // no search list, no invalid name
    scene_close(&scene);
}

TEST(a_service_that_is_not_offered_is_closed)
{
    static const char *const names[] = {"_off._tcp.test", "_zero._tcp.test"};
    struct scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct dns_answer answer = resolve_service(&scene, names[i]);
        CHECK_EQ(answer.status, STATUS_CLOSED);
        CHECK_STR(answer.why, "the service is not offered");
        CHECK_EQ(answer.address_count, 0);
    }
    CHECK_EQ(scene.server.question_count, 2);
    scene_close(&scene);
}

TEST(a_target_without_an_address_is_left_out_and_soon_asked_again)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve_service(&scene, "_half._tcp.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "10.0.0.4:1");
    CHECK_EQ(answer.ttl_ms, dns_ttl_default_ms);
    answer = resolve_service(&scene, "_empty._tcp.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "no target of the service has an address");
    scene_close(&scene);
}

TEST(a_target_that_cannot_be_asked_is_an_error)
{
    static const char *const failing[] = {"a.test", "b.test"};
    for (size_t i = 0; i < ARRAY_COUNT(failing); i++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.failing_name = failing[i];
        struct dns_answer answer = resolve_service(&scene, "_two._tcp.test");
        CHECK_EQ(answer.status, STATUS_IO);
        CHECK_STR(answer.why, "Could not contact DNS servers");
        CHECK_EQ(answer.address_count, 0);
        scene_close(&scene);
    }
}

TEST(silence_about_the_service_or_a_target_ends_after_the_last_try)
{
    static const char *const silent[] = {"_two._tcp.test", "b.test"};
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
        struct scene scene;
        scene_open_with(&scene, 50);
        scene.server.silent_name = silent[i];
        struct dns_answer answer = resolve_service(&scene, "_two._tcp.test");
        CHECK_EQ(answer.status, STATUS_IO);
        CHECK_STR(answer.why, "Timeout while contacting DNS servers");
        scene.server.silent_name = NULL;
        CHECK_EQ(resolve_service(&scene, "_two._tcp.test").status, STATUS_OK);
        scene_close(&scene);
    }
}

TEST(a_failing_server_does_not_prove_that_a_service_is_gone)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.rcode = RCODE_SERVFAIL;
    CHECK_EQ(resolve_service(&scene, "_two._tcp.test").status, STATUS_IO);
    CHECK_EQ(resolve_service(&scene, "_absent._tcp.test").status, STATUS_IO);
    scene_close(&scene);
}

TEST(a_record_that_ends_early_is_an_error)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.cuts_services = true;
    struct dns_answer answer = resolve_service(&scene, "_two._tcp.test");
    CHECK_EQ(answer.status, STATUS_IO);
    CHECK_STR(answer.why, "Misformatted DNS reply");
    CHECK_EQ(scene.server.question_count, 1);
    scene_close(&scene);
}

TEST(a_service_too_large_for_a_datagram_comes_over_tcp)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.truncates = true;
    struct dns_answer answer = resolve_service(&scene, "_two._tcp.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(answer.address_count, 3);
    CHECK_EQ(scene.server.tcp_question_count, 5);
    scene.server.hangs_up = true;
    CHECK_EQ(resolve_service(&scene, "_two._tcp.test").status, STATUS_IO);
    scene_close(&scene);
}

TEST(the_search_list_adds_nothing_to_a_service_or_a_target)
{
    struct scene scene;
    ASSERT(setenv("LOCALDOMAIN", "test", 1) == 0); // NOLINT(concurrency-mt-unsafe)
    scene_open(&scene);
    ASSERT(unsetenv("LOCALDOMAIN") == 0); // NOLINT(concurrency-mt-unsafe)
    CHECK_EQ(resolve_service(&scene, "_two._tcp").status, STATUS_CLOSED);
    CHECK_EQ(scene.server.question_count, 1);
    CHECK_EQ(resolve_service(&scene, "_short._tcp.test").status, STATUS_CLOSED);
    struct wait wait = {0};
    dns_resolve(scene.dns, "b", 1, note, &wait); // of a host it is asked
    wait_for(&scene, &wait.done_count, 1);
    CHECK_STR(addresses_text(&wait.answer), "10.0.0.2:1");
    scene_close(&scene);
}

// The record at `i` has the priority i * 37 % count: the lowest are neither first nor last.
TEST(of_many_records_those_with_the_lowest_priority_numbers_are_used)
{
    enum { record_count = dns_service_record_count_max + 10 };
    static struct dns_record records[record_count + 1];
    static char values[record_count][32];
    struct scene scene;
    scene_open(&scene);
    for (uint32_t i = 0; i < record_count; i++) {
        uint32_t priority = i * 37 % record_count;
        snprintf(values[i], sizeof(values[i]), "%u %u a.test", priority, 5000 - priority);
        records[i] = (struct dns_record){"_many._tcp.test", values[i], 60, TYPE_SRV};
    }
    records[record_count] = (struct dns_record){"a.test", "10.0.0.1", 60, TYPE_A};
    scene.server.records = records;
    scene.server.record_count = record_count + 1;
    scene.server.truncates = true;
    struct dns_answer answer = resolve_service(&scene, "_many._tcp.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(answer.address_count, dns_service_record_count_max);
    for (uint32_t i = 0; i < answer.address_count; i++) {
        uint32_t port = (uint32_t)answer.addresses[i].bytes[2] << 8 | answer.addresses[i].bytes[3];
        CHECK_EQ(port, 5000 - dns_service_record_count_max + 1 + i);
    }
    scene_close(&scene);
}

struct service_chain {
    struct dns *dns;
    uint32_t done_count;
};

static void ask_again(void *owner, const struct dns_answer *answer)
{
    struct service_chain *chain = owner;
    chain->done_count += answer->status == STATUS_OK;
    if (chain->done_count == 1) {
        dns_resolve_service(chain->dns, "_two._tcp.test", ask_again, chain);
    }
}

TEST(a_callback_may_ask_for_a_service_again)
{
    struct scene scene;
    scene_open(&scene);
    struct service_chain chain = {.dns = scene.dns};
    dns_resolve_service(scene.dns, "_ports._tcp.test", ask_again, &chain);
    wait_for(&scene, &chain.done_count, 2);
    CHECK_EQ(chain.done_count, 2);
    scene_close(&scene);
}

TEST(destroying_drops_open_services_without_their_callbacks)
{
    static const char *const silent[] = {"_two._tcp.test", "b.test"};
    for (size_t i = 0; i < ARRAY_COUNT(silent); i++) {
        struct scene scene;
        struct wait wait = {0};
        scene_open(&scene);
        scene.server.silent_name = silent[i];
        for (int ask = 0; ask < 3; ask++) {
            dns_resolve_service(scene.dns, "_two._tcp.test", note, &wait);
        }
        // The service; for the second name also two families of two targets.
        wait_for(&scene, &scene.server.question_count, i == 0 ? 3 : 15);
        CHECK_EQ(scene.server.question_count, i == 0 ? 3 : 15);
        loop_turn(scene.loop, 20);
        dns_destroy(&scene.dns);
        loop_turn(scene.loop, 20);
        CHECK_EQ(wait.done_count, 0);
        scene_close(&scene);
    }
}

// Asks a few times at once and adds up how that ended; false when something did not end,
// or ended with an inconsistent answer.
static bool ask_burst(struct scene *scene, uint32_t seen[STATUS_IO + 1])
{
    struct wait waits[8] = {0};
    bool all_done = true;
    bool is_sound = true;

    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        dns_resolve_service(scene->dns, "_brief._tcp.test", note, &waits[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        wait_for(scene, &waits[i].done_count, 1);
        const struct dns_answer *answer = &waits[i].answer;
        bool is_ok = answer->status == STATUS_OK;
        all_done = all_done && waits[i].done_count == 1;
        is_sound =
            is_sound && is_ok == (answer->address_count > 0) && is_ok == (answer->ttl_ms > 0);
        seen[answer->status]++;
    }
    return all_done && is_sound;
}

TEST(garbage_about_services_ends_in_a_result_and_never_in_a_crash)
{
    struct scene scene;
    uint32_t seen[STATUS_IO + 1] = {0};
    scene_open_with(&scene, 2);
    scene.server.changes_bytes = true;
    scene.server.changes_one_in = 3;
    for (int round = 0; round < 300; round++) {
        CHECK(ask_burst(&scene, seen));
    }
    printf("# ok %u, closed %u, io %u\n", seen[STATUS_OK], seen[STATUS_CLOSED], seen[STATUS_IO]);
    CHECK(seen[STATUS_OK] > 0);
    CHECK(seen[STATUS_IO] > 0);
    scene_close(&scene);
}
