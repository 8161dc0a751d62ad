// SPDX-License-Identifier: Apache-2.0
//
// One or two stand-in engines in the loop of the scraper, and a clock that is pushed from one
// question to the next.

#include "feed/scraper.h"

#include "base/reclaim.h"
#include "base/text.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "net/stub_server.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#define EMPTY "\r\ncontent-length: 0\r\n\r\n"

static const char missing[] = "HTTP/1.1 404 Not Found" EMPTY;
static const char ill[] = "HTTP/1.1 500 Internal Server Error" EMPTY;

enum { interval_ms = 1000 };

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct config *config;
    struct scraper *scraper;
    struct stub_server server;
    struct backend *backend;
    struct stub_route *page;
    struct stub_route *other;
};

static struct config *read_config(const char *yaml)
{
    struct config *config = NULL;
    struct config_error error;
    char text[1024];
    snprintf(text, sizeof(text), "backends: [http://127.0.0.1:1]\n%s", yaml);
    ASSERT(config_parse(slice_str(text), "test", NULL, &config, &error) == STATUS_OK);
    return config;
}

// A page, or a whole response if it looks like one.  The connection stays open: the scraper closes
// it after the response.
static void say(struct stub_route *route, const char *answer)
{
    static char spaces[8][2048];
    static int next;
    char *space = spaces[next++ % 8];

    if (answer[0] != '\0' && strncmp(answer, "HTTP/", 5) != 0) {
        int size =
            snprintf(space, sizeof(spaces[0]), "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n%s",
                     strlen(answer), answer);
        ASSERT(size < (int)sizeof(spaces[0]));
        answer = space;
    }
    route->answer = slice_str(answer);
}

static void set_routes(struct stub_server *server, const char *answer)
{
    server->routes[0] = (struct stub_route){.path = "/metrics"};
    server->routes[1] = (struct stub_route){.path = "/prometheus/metrics"};
    say(&server->routes[0], answer);
    say(&server->routes[1], missing);
}

static struct backend *watch(struct scene *scene, const struct stub_server *server)
{
    struct backend *backend =
        fleet_add(scene->fleet, &(struct fleet_spec){.url = "http://engine",
                                                     .host = "localhost",
                                                     .port = server->port,
                                                     .weight = 1,
                                                     .api_key = "secret",
                                                     .address = server->address});
    ASSERT(backend != NULL);
    scraper_watch(scene->scraper, backend);
    return backend;
}

static void scene_open(struct scene *scene, const char *yaml, const char *answer)
{
    *scene = (struct scene){0};
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    reclaim_init(&scene->reclaim, 0);
    scene->config = read_config(yaml);
    scene->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 64, .pool_count = 1},
                                &scene->reclaim);
    scene->scraper =
        scraper_create(&(struct scraper_options){.loop = scene->loop, .config = scene->config});
    ASSERT(scene->fleet != NULL && scene->scraper != NULL);
    stub_start(&scene->server, scene->loop);
    set_routes(&scene->server, answer);
    scene->page = &scene->server.routes[0];
    scene->other = &scene->server.routes[1];
    scene->backend = watch(scene, &scene->server);
}

static void scene_close(struct scene *scene)
{
    scraper_destroy(&scene->scraper);
    ASSERT(scene->scraper == NULL);
    stub_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

// Turns until `*count` is `target` and all connections are closed: whatever was asked has been
// answered and the answer was heard.
static void turn_until(struct scene *scene, const uint32_t *count, uint32_t target)
{
    for (int i = 0; (*count != target || scene->server.open_count > 0) && i < 4000; i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(*count == target && scene->server.open_count == 0);
}

static void turn_often(struct scene *scene)
{
    for (int i = 0; i < 20; i++) {
        loop_turn(scene->loop, 1);
    }
}

// Time passes in steps of half a second, each with turns enough for a question and its answer; only
// for an engine that does not answer are they waited out.
static void pass_ms(struct scene *scene, uint32_t time_ms)
{
    for (uint32_t passed_ms = 0; passed_ms < time_ms; passed_ms += interval_ms / 2) {
        clock_push_ms(interval_ms / 2);
        for (int i = 0; i < 30 && (i < 5 || scene->server.open_count > 0); i++) {
            loop_turn(scene->loop, i < 5 ? 0 : 1);
        }
    }
}

// An interval and its jitter, and the question that falls into it.
static void ask_once(struct scene *scene)
{
    uint32_t target = scene->page->count + 1;
    clock_push_ms(interval_ms + interval_ms / 10);
    turn_until(scene, &scene->page->count, target);
}

// "running waiting usage cache block" of the last report.
static const char *reported(const struct backend *backend)
{
    static char space[128];
    const struct load *load = &backend->load;
    struct text text = text_over(space, sizeof(space) - 1);
    if (atomic_load(&load->reported_ms) == 0) {
        return "never";
    }
    text_add_format(
        &text, "%g %g %g %llu %u", (double)atomic_load(&load->reported_running),
        (double)atomic_load(&load->reported_waiting), (double)atomic_load(&load->reported_kv_usage),
        (unsigned long long)atomic_load(&load->cache_tokens), atomic_load(&load->block_tokens));
    space[text.size] = '\0';
    return space;
}

static const char busy[] =
    "vllm:num_requests_running{engine=\"0\"} 7.0\nvllm:num_requests_waiting 2.0\n"
    "vllm:kv_cache_usage_perc 0.5\n"
    "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"101\"} 1.0\n";
static const char idle[] = "vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\n"
                           "vllm:kv_cache_usage_perc 0.0\n";
static const char busy_report[] = "7 2 0.5 1600 16";
static const char idle_report[] = "0 0 0 1600 16";

TEST(the_metrics_of_an_engine_become_its_load)
{
    struct scene scene;
    struct load_view view;
    scene_open(&scene, "", busy);
    CHECK_STR(reported(scene.backend), "never");
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), busy_report);
    load_read(&scene.backend->load, loop_now_ms(scene.loop), &view);
    CHECK_EQ(view.cache_tokens, 1600);
    CHECK(view.kv_usage == 0.5F && view.waiting > 0 && view.foreign_requests > 0);
    say(scene.page, idle);
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), idle_report);
    scene_close(&scene);
}

TEST(an_engine_is_asked_as_its_probes_ask)
{
    struct scene scene;
    scene_open(&scene, "load: {path: /stats}", busy);
    scene.page->path = "/stats";
    ask_once(&scene);
    CHECK(strncmp(scene.server.request, "GET /stats HTTP/1.1\r\n", 21) == 0);
    CHECK(strstr(scene.server.request, "\r\nauthorization: Bearer secret\r\n") != NULL);
    scene_close(&scene);
}

TEST(a_backend_is_asked_once_in_an_interval)
{
    struct scene scene;
    scene_open(&scene, "load: {interval: 100s}", busy);
    clock_push_ms(100000);
    turn_until(&scene, &scene.page->count, 1);
    for (uint32_t i = 2; i < 6; i++) {
        clock_push_ms(94000);
        turn_often(&scene);
        CHECK_EQ(scene.page->count, i - 1);
        clock_push_ms(12000);
        turn_until(&scene, &scene.page->count, i);
    }
    scene_close(&scene);
}

// Added in one turn, asked in many: some in each quarter of the interval.
TEST(backends_are_not_asked_all_at_once)
{
    enum { count = 60 };
    struct scene scene;
    scene_open(&scene, "load: {interval: 1h}", busy);
    for (uint32_t i = 1; i < count; i++) {
        watch(&scene, &scene.server);
    }
    uint32_t before = 0;
    for (int quarter = 0; quarter < 4; quarter++) {
        clock_push_ms(3600000 / 4);
        turn_often(&scene);
        turn_until(&scene, &scene.page->count, scene.page->count);
        CHECK(scene.page->count > before);
        before = scene.page->count;
    }
    CHECK_EQ(before, count);
    scene_close(&scene);
}

TEST(an_engine_that_fails_is_asked_ever_more_rarely_and_recovers)
{
    static const char *const failures[] = {ill, "HTTP/9 nonsense\r\n\r\n", "HTTP/1.1 401 No" EMPTY};
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        struct scene scene;
        scene_open(&scene, "", failures[i]);
        pass_ms(&scene, 600000);
        // 1, 2, 4, ... 32 and then 60 seconds: six and some nine more.
        CHECK(scene.page->count >= 12 && scene.page->count <= 18);
        CHECK_STR(reported(scene.backend), "never");
        say(scene.page, busy);
        pass_ms(&scene, 64000);
        CHECK_STR(reported(scene.backend), busy_report);
        say(scene.page, idle);
        ask_once(&scene); // as often as ever
        CHECK_STR(reported(scene.backend), idle_report);
        scene_close(&scene);
    }
}

TEST(an_engine_without_metrics_is_asked_once_a_minute)
{
    static const char *const pages[] = {missing, "python_gc_objects 3\n", "HTTP/1.1 200 OK" EMPTY,
                                        "<html></html>"};
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        struct scene scene;
        scene_open(&scene, "", pages[i]);
        pass_ms(&scene, 600000);
        CHECK(scene.page->count >= 9 && scene.page->count <= 12);
        CHECK_EQ(scene.other->count, 0);
        CHECK_STR(reported(scene.backend), "never");
        say(scene.page, busy);
        pass_ms(&scene, 64000);
        CHECK_STR(reported(scene.backend), busy_report);
        scene_close(&scene);
    }
}

TEST(no_response_changes_the_health_of_a_backend)
{
    struct scene scene;
    scene_open(&scene, "", ill);
    pass_ms(&scene, 10000);
    CHECK_EQ(atomic_load(&scene.backend->shared.probe), BACKEND_PROBE_UNKNOWN);
    CHECK_EQ(atomic_load(&scene.backend->shared.failures), 0);
    CHECK_EQ(atomic_load(&scene.backend->shared.request_count), 0);
    CHECK_EQ(atomic_load(&scene.backend->shared.in_flight), 0);
    CHECK_STR(backend_state(scene.backend, loop_now_ms(scene.loop)), "up");
    scene_close(&scene);
}

TEST(a_backend_that_its_probes_find_up_again_is_asked_at_once)
{
    struct scene scene;
    scene_open(&scene, "", ill);
    backend_set_probe(scene.backend, BACKEND_PROBE_DOWN, loop_now_ms(scene.loop));
    pass_ms(&scene, 300000);
    uint32_t count = scene.page->count + 1;
    while (scene.page->count < count) { // the next would come in a minute
        pass_ms(&scene, interval_ms / 2);
    }
    say(scene.page, busy);
    backend_set_probe(scene.backend, BACKEND_PROBE_UP, loop_now_ms(scene.loop));
    clock_push_ms(interval_ms);
    turn_until(&scene, &scene.page->count, count + 1);
    CHECK_STR(reported(scene.backend), busy_report);
    scene_close(&scene);
}

TEST(a_silent_engine_delays_no_other_and_is_asked_one_question_at_a_time)
{
    struct scene scene;
    struct stub_server other;
    scene_open(&scene, "health: {timeout: 5s}", "");
    stub_start(&other, scene.loop);
    set_routes(&other, busy);
    struct backend *backend = watch(&scene, &other);
    pass_ms(&scene, 4000);
    CHECK_EQ(scene.page->count, 1);
    CHECK_EQ(scene.server.open_count, 1);
    CHECK(other.routes[0].count >= 3);
    CHECK_STR(reported(backend), busy_report);
    pass_ms(&scene, 3000); // its time is up
    say(scene.page, busy);
    pass_ms(&scene, 64000);
    CHECK_STR(reported(scene.backend), busy_report);
    stub_stop(&other);
    scene_close(&scene);
}

#define STEPS(running)                                                                             \
    "[{\"numActiveRequests\":99},{\"numActiveRequests\":" #running ",\"numQueuedRequests\":0,"     \
    "\"kvCacheStats\":{\"maxNumBlocks\":100,\"usedNumBlocks\":50,\"tokensPerBlock\":16}}]"

TEST(a_list_of_steps_makes_it_try_the_other_path_once)
{
    struct scene scene;
    scene_open(&scene, "", STEPS(3));
    ask_once(&scene);
    turn_until(&scene, &scene.other->count, 1);
    CHECK_STR(reported(scene.backend), "3 0 0.5 1600 16");
    say(scene.page, STEPS(4));
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), "4 0 0.5 1600 16");
    say(scene.page, "[]"); // nothing has happened since
    ask_once(&scene);
    say(scene.page, STEPS(5));
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), "5 0 0.5 1600 16");
    CHECK_EQ(scene.other->count, 1);
    scene_close(&scene);
}

TEST(the_other_path_is_kept_to_while_it_has_something)
{
    struct scene scene;
    scene_open(&scene, "", "[]");
    say(scene.other, "trtllm_num_requests_running 6\n");
    ask_once(&scene);
    turn_until(&scene, &scene.other->count, 1);
    CHECK_STR(reported(scene.backend), "6 -1 -1 0 0");
    clock_push_ms(interval_ms + interval_ms / 10);
    turn_until(&scene, &scene.other->count, 2);
    CHECK_EQ(scene.page->count, 1);
    // Another engine has taken its place.
    say(scene.other, missing);
    say(scene.page, busy);
    pass_ms(&scene, 5000);
    CHECK_STR(reported(scene.backend), busy_report);
    CHECK_EQ(scene.other->count, 3);
    scene_close(&scene);
}

// The line that is cut, within its number, would be read as another number.
TEST(whole_lines_of_a_page_that_is_too_large_are_read)
{
    enum { size = 2 << 20, taken = 1 << 20 };
    static const char last[] = "vllm:num_requests_waiting 1";
    struct scene scene;
    char *answer = malloc(size + 1);
    CHECK(answer != NULL);
    struct text text = text_over(answer, size);
    text_add_str(&text, "HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n"
                        "vllm:num_requests_running 7\n#");
    while (text.size + strlen(last) + 1 < taken) {
        text_add_str(&text, "#");
    }
    text_add_str(&text, "\n");
    text_add_str(&text, last);
    CHECK_EQ(text.size, taken);
    while (text.size < size) {
        text_add_str(&text, "2");
    }
    answer[text.size] = '\0';
    scene_open(&scene, "", answer);
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), "7 -1 -1 0 0");
    scene_close(&scene);
    free(answer);
}

TEST(a_backend_can_be_removed_with_a_question_in_flight)
{
    struct scene scene;
    scene_open(&scene, "", "");
    pass_ms(&scene, 1500);
    CHECK_EQ(scene.server.open_count, 1);
    scraper_forget(scene.scraper, scene.backend);
    fleet_remove(scene.fleet, scene.backend);
    fleet_publish(scene.fleet);
    fleet_reclaim(scene.fleet); // and nothing is left of it
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 0);
    pass_ms(&scene, 10000);
    CHECK_EQ(scene.page->count, 1);

    say(scene.page, busy); // in the same slot
    scene.backend = watch(&scene, &scene.server);
    CHECK_EQ(scene.backend->slot, 0);
    CHECK_STR(reported(scene.backend), "never");
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), busy_report);
    say(scene.page, "");
    pass_ms(&scene, 1500);
    CHECK_EQ(scene.server.open_count, 1); // the end comes with this under way
    scene_close(&scene);
}

static void set_config(struct scene *scene, const char *yaml)
{
    struct config *config = read_config(yaml);
    scraper_set_config(scene->scraper, config);
    config_destroy(&scene->config);
    scene->config = config;
}

TEST(a_new_configuration_takes_effect_at_once)
{
    struct scene scene;
    scene_open(&scene, "load: {interval: 1h}", missing);
    clock_push_ms(3600000);
    turn_until(&scene, &scene.page->count, 1);
    set_config(&scene, "load: {path: /stats}");
    scene.page->path = "/stats";
    say(scene.page, busy);
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), busy_report);

    say(scene.page, ""); // a question for the old path is not waited for
    pass_ms(&scene, 1500);
    CHECK_EQ(scene.server.open_count, 1);
    set_config(&scene, "");
    scene.page->path = "/metrics";
    say(scene.page, idle);
    pass_ms(&scene, 1500);
    CHECK_STR(reported(scene.backend), idle_report);
    scene_close(&scene);
}

TEST(reloading_without_pause_does_not_put_questions_off)
{
    struct scene scene;
    scene_open(&scene, "load: {interval: 10s}", busy);
    for (int i = 0; i < 11; i++) {
        set_config(&scene, "load: {interval: 10s}");
        clock_push_ms(1000);
        turn_often(&scene);
    }
    CHECK_STR(reported(scene.backend), busy_report);
    scene_close(&scene);
}

TEST(without_scraping_no_backend_is_asked)
{
    struct scene scene;
    scene_open(&scene, "load: {scrape: false}", busy);
    pass_ms(&scene, 5000);
    CHECK_EQ(scene.server.accepted_count, 0);
    set_config(&scene, "");
    ask_once(&scene);
    CHECK_STR(reported(scene.backend), busy_report);
    say(scene.page, "");
    pass_ms(&scene, 1500);
    CHECK_EQ(scene.server.open_count, 1);
    set_config(&scene, "load: {scrape: false}");
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 0);
    pass_ms(&scene, 5000);
    CHECK_EQ(scene.page->count, 2);
    scene_close(&scene);
}

TEST(each_rank_of_a_server_gets_its_own_series)
{
    struct scene scene;
    struct backend *ranks[2];
    scene_open(&scene, "", missing);
    scraper_forget(scene.scraper, scene.backend);
    say(scene.page, "vllm:num_requests_running{engine=\"0\"} 3\n"
                    "vllm:num_requests_running{engine=\"1\"} 5\n");
    for (uint32_t i = 0; i < 2; i++) {
        ranks[i] = fleet_add(scene.fleet, &(struct fleet_spec){.url = "http://engine#rank",
                                                               .host = "localhost",
                                                               .port = scene.server.port,
                                                               .weight = 1,
                                                               .address = scene.server.address,
                                                               .server = i > 0 ? ranks[0]->id : 0,
                                                               .rank = i,
                                                               .rank_count = 2});
        scraper_watch(scene.scraper, ranks[i]);
    }
    clock_push_ms(interval_ms);
    turn_until(&scene, &scene.page->count, 2);
    CHECK_EQ(atomic_load(&ranks[0]->load.reported_running), 3);
    CHECK_EQ(atomic_load(&ranks[1]->load.reported_running), 5);
    scene_close(&scene);
}
