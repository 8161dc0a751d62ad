// SPDX-License-Identifier: Apache-2.0
//
// A name server in the loop of the roster, a fleet that nobody asks anything (probes are off, and so is
// all else unless a test turns it on), and a clock that is pushed from one question to the next.

#include "discovery/roster.h"

#include "base/reclaim.h"
#include "base/text.h"
#include "config/config.h"
#include "feed/kv_poller.h"
#include "feed/prober.h"
#include "feed/scraper.h"
#include "fleet/fleet.h"
#include "net/dns_server.h"
#include "net/stub_server.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <signal.h>

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct dns_server server;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;
    struct kv_poller *poller; // NULL: nobody asks for events
    struct config *config;
    struct roster *roster;
    uint32_t changed_count;
};

static void changed(void *owner)
{
    struct scene *scene = owner;
    scene->changed_count++;
}

static struct config *read_config(const struct scene *scene, const char *yaml)
{
    char text[2048];
    struct config *config = NULL;
    struct config_error error;
    snprintf(text, sizeof(text),
             "limits: {backends: 8}\nhealth: {interval: 0}\nmodels: {learn: false}\n%s"
             "admin: {listen: '127.0.0.1:1', token: t}\n" // so that there may be no backends
             "dns: {servers: ['%s'], ttl_min: 10s, ttl_max: 60s}\n%s",
             strstr(yaml, "load:") == NULL ? "load: {scrape: false}\n" : "", scene->server.address,
             yaml);
    enum status status = config_parse(slice_str(text), "test", NULL, &config, &error);
    if (status != STATUS_OK) {
        printf("# %u:%u: %s\n", error.line, error.column, error.text);
    }
    ASSERT(status == STATUS_OK);
    return config;
}

static void scene_open(struct scene *scene, const char *yaml)
{
    *scene = (struct scene){0};
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    dns_server_start(&scene->server, scene->loop, NULL, 0);
    reclaim_init(&scene->reclaim, 0);
    scene->config = read_config(scene, yaml);
    scene->fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = 8, .pool_count = fleet_pool_count_max},
        &scene->reclaim);
    scene->prober = prober_create(&(struct prober_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    scene->scraper =
        scraper_create(&(struct scraper_options){.loop = scene->loop, .config = scene->config});
    ASSERT(scene->fleet != NULL && scene->prober != NULL && scene->scraper != NULL);
}

static void scene_start(struct scene *scene)
{
    scene->roster = roster_create(&(struct roster_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .prober = scene->prober,
                                                           .scraper = scene->scraper,
                                                           .poller = scene->poller,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    ASSERT(scene->roster != NULL);
}

static void scene_close(struct scene *scene)
{
    roster_destroy(&scene->roster);
    ASSERT(scene->roster == NULL);
    roster_destroy(&scene->roster); // nothing happens
    prober_destroy(&scene->prober);
    scraper_destroy(&scene->scraper);
    kv_poller_destroy(&scene->poller);
    dns_server_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

static void set_config(struct scene *scene, const char *yaml)
{
    struct config *config = read_config(scene, yaml);
    prober_set_config(scene->prober, config);
    scraper_set_config(scene->scraper, config);
    roster_set_config(scene->roster, config);
    config_destroy(&scene->config); // nothing of the old one is needed
    scene->config = config;
}

static void set_records(struct scene *scene, const struct dns_record *records, uint32_t count)
{
    scene->server.records = records;
    scene->server.record_count = count;
}

// What the keeper does now and then: shows the fleet to the workers, frees what they have left.
static void publish(struct scene *scene)
{
    ASSERT(fleet_publish(scene->fleet));
    fleet_reclaim(scene->fleet);
}

// The urls of the fleet in its order, without "http://".
static const char *fleet_text(const struct scene *scene)
{
    static char space[2048];
    struct text text = text_over(space, sizeof(space) - 1);
    const struct backend *backend;
    for (uint32_t i = 0; (backend = fleet_at(scene->fleet, i)) != NULL; i++) {
        text_add_str(&text, i > 0 ? " " : "");
        text_add_str(&text,
                     strncmp(backend->url, "http://", 7) == 0 ? backend->url + 7 : backend->url);
    }
    space[text.size] = '\0';
    return space;
}

// NULL when there is none.
static struct backend *find_url(const struct scene *scene, const char *url)
{
    struct backend *backend;
    uint32_t i = 0;
    while ((backend = fleet_at(scene->fleet, i)) != NULL && strcmp(backend->url, url) != 0) {
        i++;
    }
    return backend;
}

// The id of a backend by its url, 0 when there is none.
static uint64_t id_of(const struct scene *scene, const char *url)
{
    const struct backend *backend = find_url(scene, url);
    return backend == NULL ? 0 : backend->id;
}

static bool fleet_is(const struct scene *scene, const char *expected)
{
    return strcmp(fleet_text(scene), expected) == 0;
}

// Gives up after a while that is long whatever the clock was pushed by.
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

static const struct dns_record one_and_two[] = {
    {"engines.test", "10.0.0.1", 20, TYPE_A},
    {"engines.test", "10.0.0.2", 20, TYPE_A},
};

static const struct dns_record two_and_three[] = {
    {"engines.test", "10.0.0.2", 20, TYPE_A},
    {"engines.test", "10.0.0.3", 20, TYPE_A},
    {"engines.test", "2001:db8::4", 20, TYPE_AAAA},
};

static const char engines[] = "backends: ['http://engines.test:8000']";
static const char engines_one_and_two[] = "engines.test:8000#10.0.0.1 engines.test:8000#10.0.0.2";

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
    CHECK_EQ(fleet_weight(scene.fleet, first), 1);
    CHECK(fleet_model_name(scene.fleet, first, 0) == NULL);
    ASSERT(address_parse("[2001:db8::1]:443", &expected) == STATUS_OK);
    CHECK(address_equal(&second->address, &expected));
    CHECK(second->tls);
    CHECK_EQ(second->pool, 1);
    CHECK_STR(second->authorization, "Bearer own");
    CHECK_EQ(fleet_weight(scene.fleet, second), 7);
    CHECK_STR(fleet_model_name(scene.fleet, second, 1), "n");
    CHECK_EQ(scene.server.question_count, 0);
    scene_close(&scene);
}

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

TEST(records_are_followed_and_what_stays_is_not_touched)
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
    CHECK_EQ(fleet_weight(scene.fleet, fleet_find(scene.fleet, two)), 9);
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
    CHECK_EQ(scene.server.question_count, asked); // nobody asks for the name any more
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
        CHECK_EQ(fleet_weight(scene.fleet, fleet_at(scene.fleet, i)), i == 0 ? 5 : 6);
    }
    // An address that comes later has it too.
    set_records(&scene, two_and_three, 2);
    clock_push_ms(20000);
    TURN_UNTIL(&scene, find_url(&scene, "http://engines.test:8000#10.0.0.3") != NULL);
    const struct backend *late = find_url(&scene, "http://engines.test:8000#10.0.0.3");
    CHECK_EQ(fleet_weight(scene.fleet, late), 6);
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

TEST(the_end_may_come_with_queries_of_the_present_and_the_past_open)
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

// As config_load would make it, from what the admin API got.
static struct config_backend spec_of(const char *url, const char *host)
{
    return (struct config_backend){.url = url, .host = host, .port = 80, .weight = 1};
}

TEST(what_is_added_is_there_at_once_and_can_be_removed)
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

TEST(the_backends_of_a_configured_name_are_the_records_business)
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

TEST(what_was_added_stays_until_the_configuration_has_had_it)
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

TEST(what_was_added_follows_its_pool_by_name_and_goes_with_it)
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

TEST(what_was_added_without_a_key_gets_the_new_common_one)
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

static void fill(struct scene *scene, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char url[64];
        char host[32];
        struct backend *backend = NULL;
        snprintf(host, sizeof(host), "10.1.0.%u", i);
        snprintf(url, sizeof(url), "http://%s", host);
        struct config_backend spec = spec_of(url, host);
        ASSERT(roster_add(scene->roster, &spec, &backend) == STATUS_OK);
    }
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

TEST(who_is_in_the_fleet_is_asked_for_its_load_and_nobody_else)
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

// It leaves with them: whoever kept one of theirs would be asked for memory that is gone.
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

TEST(what_was_added_follows_the_events_of_all_unless_it_has_its_own)
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
