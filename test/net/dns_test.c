// SPDX-License-Identifier: Apache-2.0

#include "net/dns.h"

#include "net/dns_scene.h"

#include <stdlib.h>

static const struct dns_record zone[] = {
    {"several.test", "10.0.0.9", 300, TYPE_A},
    {"several.test", "10.0.0.1", 40, TYPE_A},
    {"several.test", "9.0.0.200", 300, TYPE_A},
    {"several.test", "10.0.0.1", 300, TYPE_A},
    {"several.test", "2001:db8::2", 300, TYPE_AAAA},
    {"several.test", "2001:db8::1", 50, TYPE_AAAA},
    {"four.test", "10.4.4.4", 30, TYPE_A},
    {"six.test", "2001:db8::6", 60, TYPE_AAAA},
    {"alias.test", "several.test", 7, TYPE_CNAME},
    {"empty.test", "nowhere.test", 7, TYPE_CNAME},
    {"zero.test", "10.0.0.1", 0, TYPE_A},
    {"for-ever.test", "10.0.0.1", 0x7fffffff, TYPE_A},
};

static void scene_open_with(struct scene *scene, uint32_t timeout_ms)
{
    scene_start(scene, zone, ARRAY_COUNT(zone), timeout_ms);
}

// With more patience than a test has: what only a second try would bring fails.
static void scene_open(struct scene *scene)
{
    scene_open_with(scene, 60000);
}

static struct dns_answer resolve(struct scene *scene, const char *host)
{
    struct wait wait = {0};
    dns_resolve(scene->dns, host, 8000, note, &wait);
    wait_for(scene, &wait.done_count, 1);
    ASSERT(wait.done_count == 1);
    return wait.answer;
}

static const char several[] =
    "9.0.0.200:8000 10.0.0.1:8000 10.0.0.9:8000 [2001:db8::1]:8000 [2001:db8::2]:8000";

TEST(addresses_come_sorted_without_duplicates_and_with_the_port)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), several);
    CHECK_EQ(answer.ttl_ms, 40000);
    CHECK_EQ(scene.server.question_count, 2);
    scene_close(&scene);
}

TEST(one_family_is_enough)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "10.4.4.4:8000");
    CHECK_EQ(answer.ttl_ms, 30000);
    answer = resolve(&scene, "six.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "[2001:db8::6]:8000");
    CHECK_EQ(answer.ttl_ms, 60000);

    scene.server.rcode = RCODE_SERVFAIL;
    scene.server.rcode_type = TYPE_AAAA;
    answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "9.0.0.200:8000 10.0.0.1:8000 10.0.0.9:8000");
    scene_close(&scene);
}

TEST(an_alias_counts_for_the_time_to_live)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "alias.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), several);
    CHECK_EQ(answer.ttl_ms, 7000);
    scene_close(&scene);
}

TEST(a_time_to_live_is_never_zero_nor_longer_than_a_day)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "zero.test");
    CHECK_EQ(answer.ttl_ms, dns_ttl_default_ms);
    answer = resolve(&scene, "for-ever.test");
    CHECK_EQ(answer.ttl_ms, dns_ttl_max_ms);
    scene_close(&scene);
}

TEST(a_name_without_addresses_is_closed)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "absent.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "Domain name not found");
    CHECK_EQ(answer.address_count, 0);
    answer = resolve(&scene, "empty.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "DNS server returned answer with no data");
    scene_close(&scene);
}

TEST(an_invalid_name_is_closed)
{
    static char long_name[400];
    struct scene scene;
    scene_open(&scene);
    memset(long_name, 'a', sizeof(long_name) - 1);
    CHECK_EQ(resolve(&scene, long_name).status, STATUS_CLOSED);
    CHECK_EQ(resolve(&scene, "a..test").status, STATUS_CLOSED);
    CHECK_EQ(scene.server.question_count, 0);
    CHECK_EQ(resolve(&scene, "").status, STATUS_CLOSED); // the root's name, which is asked for
    scene_close(&scene);
}

TEST(a_server_that_fails_does_not_prove_absence)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.rcode = RCODE_SERVFAIL;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_IO);
    scene.server.rcode = RCODE_REFUSED;
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    CHECK(answer.why[0] != '\0');
    scene_close(&scene);
}

// The failure of one family comes first, the empty answer of the other last.
TEST(an_empty_family_does_not_hide_that_the_other_failed)
{
    static const uint16_t failing[] = {TYPE_A, TYPE_AAAA};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.rcode = RCODE_SERVFAIL;
        scene.server.rcode_type = failing[i];
        scene.server.held_type = failing[1 - i];
        scene.server.held_until = 3; // one question of the empty family, two tries of the other
        struct dns_answer answer = resolve(&scene, "empty.test");
        CHECK_EQ(answer.status, STATUS_IO);
        CHECK(scene.server.held_type == 0);
        scene_close(&scene);
    }
}

TEST(silence_ends_after_the_last_try)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    scene.server.silent = true;
    uint64_t start_ms = loop_now_ms(scene.loop);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    CHECK_STR(answer.why, "Timeout while contacting DNS servers");
    CHECK_EQ(scene.server.question_count, 4);         // two families, two tries
    CHECK(loop_now_ms(scene.loop) - start_ms >= 150); // 50 ms and twice that

    scene.server.silent = false;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_OK);
    scene_close(&scene);
}

TEST(a_refused_query_is_an_error)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    dns_server_stop(&scene.server);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    dns_destroy(&scene.dns);
    loop_destroy(&scene.loop);
}

TEST(the_second_server_is_asked_when_the_first_says_nothing)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_server second;
    dns_server_start(&second, scene.loop, zone, ARRAY_COUNT(zone));
    scene.server.silent = true;
    char servers[80];
    snprintf(servers, sizeof(servers), "%s,%s", scene.server.address, second.address);
    dns_destroy(&scene.dns);
    struct dns_options options = {.servers = servers, .timeout_ms = 50, .tries = 1};
    CHECK_EQ(dns_create(scene.loop, &options, &scene.dns), STATUS_OK);

    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(scene.server.question_count, 2);
    CHECK_EQ(second.question_count, 2);
    dns_server_stop(&second);
    scene_close(&scene);
}

TEST(addresses_may_change_between_queries)
{
    struct scene scene;
    struct dns_record records[] = {
        {"moving.test", "10.0.0.1", 1, TYPE_A},
        {"moving.test", "10.0.0.2", 1, TYPE_A},
    };
    scene_open(&scene);
    scene.server.records = records;
    scene.server.record_count = 1;
    struct dns_answer answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.1:8000");
    scene.server.record_count = 2;
    answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.1:8000 10.0.0.2:8000");
    records[0].value = "10.0.0.3";
    answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.2:8000 10.0.0.3:8000");
    scene.server.record_count = 0;
    CHECK_EQ(resolve(&scene, "moving.test").status, STATUS_CLOSED);
    scene_close(&scene);
}

TEST(a_response_too_large_for_a_datagram_comes_over_tcp)
{
    for (int drips = 0; drips < 2; drips++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.truncates = true;
        scene.server.drips = drips == 1;
        struct dns_answer answer = resolve(&scene, "several.test");
        CHECK_EQ(answer.status, STATUS_OK);
        CHECK_STR(addresses_text(&answer), several);
        CHECK_EQ(scene.server.question_count, 2);
        CHECK_EQ(scene.server.tcp_question_count, 2); // asked once: no answer came too late
        scene_close(&scene);
    }
}

enum { name_count = 100 };

// Resolves many names, each with its own address, all at once or with turns between; the count of
// right answers.  The names differ because c-ares may give two open questions the same number, and
// then knows them apart by the name only.
static uint32_t resolve_many(struct scene *scene, bool all_at_once)
{
    static struct dns_record records[name_count];
    static char names[name_count][16];
    static char values[name_count][16];
    static struct wait waits[name_count];
    uint32_t right = 0;

    memset(waits, 0, sizeof(waits));
    scene->server.records = records;
    scene->server.record_count = name_count;
    for (int i = 0; i < name_count; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d.test", i);
        snprintf(values[i], sizeof(values[i]), "10.0.1.%d", i);
        records[i] = (struct dns_record){names[i], values[i], 60, TYPE_A};
    }
    for (int i = 0; i < name_count; i++) {
        dns_resolve(scene->dns, names[i], 8000, note, &waits[i]);
        if (!all_at_once) {
            loop_turn(scene->loop, 0); // the earlier ones are under way in every possible stage
        }
    }
    for (int i = 0; i < name_count; i++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "%.23s:8000", values[i]);
        wait_for(scene, &waits[i].done_count, 1);
        right +=
            waits[i].done_count == 1 && strcmp(addresses_text(&waits[i].answer), expected) == 0;
    }
    return right;
}

TEST(a_hundred_queries_at_once_each_get_their_own_response)
{
    for (int all_at_once = 0; all_at_once < 2; all_at_once++) {
        struct scene scene;
        scene_open(&scene);
        CHECK_EQ(resolve_many(&scene, all_at_once == 1), name_count);
        CHECK_EQ(scene.server.question_count, 2 * name_count);
        scene_close(&scene);
    }
}

TEST(many_responses_over_one_connection_all_arrive)
{
    for (int all_at_once = 0; all_at_once < 2; all_at_once++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.truncates = true;
        CHECK_EQ(resolve_many(&scene, all_at_once == 1), name_count);
        CHECK_EQ(scene.server.tcp_question_count, 2 * name_count);
        scene_close(&scene);
    }
}

TEST(a_connection_that_is_already_open_is_written_to_at_once)
{
    struct scene scene;
    struct wait wait = {0};
    scene_open(&scene);
    scene.server.truncates = true;
    scene.server.silent_over_tcp = true;
    dns_resolve(scene.dns, "four.test", 8000, note, &wait);
    wait_for(&scene, &scene.server.tcp_question_count, 2);
    CHECK_EQ(scene.server.tcp_question_count, 2);
    // Nothing comes back on the connection, so no event tells that it can be written to.
    dns_resolve(scene.dns, "six.test", 8000, note, &wait);
    wait_for(&scene, &scene.server.tcp_question_count, 4);
    CHECK_EQ(scene.server.tcp_question_count, 4);
    CHECK_EQ(wait.done_count, 0);
    scene_close(&scene);
}

TEST(a_connection_that_ends_early_is_an_error)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.truncates = true;
    scene.server.hangs_up = true;
    struct dns_answer answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_IO);
    scene_close(&scene);
}

TEST(the_first_addresses_in_order_are_kept)
{
    enum { record_count = 100 };
    static struct dns_record records[record_count];
    static char values[record_count][16];
    struct scene scene;
    scene_open(&scene);
    for (int i = 0; i < record_count; i++) {
        // In an order that is neither up nor down.
        snprintf(values[i], sizeof(values[i]), "10.0.0.%d", i * 37 % record_count);
        records[i] = (struct dns_record){"many.test", values[i], 60, TYPE_A};
    }
    scene.server.records = records;
    scene.server.record_count = record_count;
    scene.server.truncates = true;
    struct dns_answer answer = resolve(&scene, "many.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(answer.address_count, dns_address_count_max);
    for (uint32_t i = 0; i < answer.address_count; i++) {
        CHECK_EQ(answer.addresses[i].bytes[7], i);
    }
    scene_close(&scene);
}

TEST(a_response_to_another_question_is_not_believed)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    scene.server.changes_id = true;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_IO);
    scene_close(&scene);
}

// Asks a few times at once and adds up how that ended; false when something did not end.
static bool ask_burst(struct scene *scene, uint32_t seen[STATUS_IO + 1])
{
    struct wait waits[8] = {0};
    bool all_done = true;

    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        dns_resolve(scene->dns, "alias.test", 8000, note, &waits[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        wait_for(scene, &waits[i].done_count, 1);
        all_done = all_done && waits[i].done_count == 1;
        seen[waits[i].answer.status]++;
    }
    return all_done;
}

TEST(garbage_ends_in_a_result_and_never_in_a_crash)
{
    struct scene scene;
    uint32_t seen[STATUS_IO + 1] = {0};
    scene_open_with(&scene, 2);
    scene.server.changes_bytes = true;
    for (int round = 0; round < 300; round++) {
        CHECK(ask_burst(&scene, seen));
    }
    printf("# ok %u, closed %u, io %u\n", seen[STATUS_OK], seen[STATUS_CLOSED], seen[STATUS_IO]);
    CHECK(seen[STATUS_OK] > 0);
    CHECK(seen[STATUS_IO] > 0);
    scene_close(&scene);
}

TEST(the_hosts_file_is_asked_before_any_server)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "localhost");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK(strstr(addresses_text(&answer), "127.0.0.1:8000") != NULL);
    CHECK_EQ(answer.ttl_ms, dns_ttl_default_ms);
    CHECK_EQ(scene.server.question_count, 0);
    scene_close(&scene);
}

TEST(a_literal_resolves_to_itself_at_once)
{
    struct scene scene;
    struct wait wait = {0};
    scene_open(&scene);
    dns_resolve(scene.dns, "192.0.2.1", 80, note, &wait);
    CHECK_EQ(wait.done_count, 1);
    CHECK_STR(addresses_text(&wait.answer), "192.0.2.1:80");
    CHECK_EQ(wait.answer.status, STATUS_OK);
    CHECK_EQ(wait.answer.ttl_ms, dns_ttl_max_ms);
    dns_resolve(scene.dns, "::1", 80, note, &wait);
    CHECK_STR(addresses_text(&wait.answer), "[::1]:80");
    scene_close(&scene);
}

struct chain {
    struct dns *dns;
    uint32_t done_count;
};

static void ask_again(void *owner, const struct dns_answer *answer)
{
    struct chain *chain = owner;
    chain->done_count += answer->status == STATUS_OK;
    if (chain->done_count % 3 != 0) {
        dns_resolve(chain->dns, chain->done_count % 3 == 1 ? "localhost" : "six.test", 1, ask_again,
                    chain);
    }
}

TEST(a_callback_may_ask_again)
{
    struct scene scene;
    scene_open(&scene);
    struct chain chain = {.dns = scene.dns};
    dns_resolve(scene.dns, "four.test", 1, ask_again, &chain);
    wait_for(&scene, &chain.done_count, 3);
    CHECK_EQ(chain.done_count, 3);
    scene_close(&scene);
}

TEST(destroying_drops_open_queries_without_their_callbacks)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct scene scene;
        struct wait wait = {0};
        scene_open(&scene);
        scene.server.silent = tcp == 0;
        scene.server.truncates = tcp == 1;
        scene.server.held_type = 0;
        for (int i = 0; i < 10; i++) {
            dns_resolve(scene.dns, "four.test", 1, note, &wait);
        }
        loop_turn(scene.loop, 0);
        CHECK_EQ(wait.done_count, 0);
        dns_destroy(&scene.dns);
        CHECK(scene.dns == NULL);
        dns_destroy(&scene.dns);
        for (int i = 0; i < 10; i++) {
            loop_turn(scene.loop, 20);
        }
        CHECK_EQ(wait.done_count, 0);
        scene_close(&scene);
    }
}

TEST(servers_that_cannot_be_read_are_refused)
{
    static const char *const bad[] = {"", "not an address", "10.0.0.1,name.example", "10.0.0.1:x"};
    struct loop *loop = NULL;
    struct dns *dns = NULL;
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct dns_options options = {.servers = bad[i]};
        CHECK_EQ(dns_create(loop, &options, &dns), STATUS_MALFORMED);
        CHECK(dns == NULL);
    }
    struct dns_options options = {.servers = "10.0.0.1,[2001:db8::1]:5353,10.0.0.2:54"};
    CHECK_EQ(dns_create(loop, &options, &dns), STATUS_OK);
    dns_destroy(&dns);
    CHECK_EQ(dns_create(loop, NULL, &dns), STATUS_OK);
    dns_destroy(&dns);
    loop_destroy(&loop);
}
