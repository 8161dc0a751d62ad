// SPDX-License-Identifier: Apache-2.0
//
// A stand-in engine in the loop of the poller, and a clock that is pushed from one question to the
// next.

#include "feed/kv_poller.h"

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
static const char empty[] = "HTTP/1.1 200 OK" EMPTY;
static const char one[] = "[{\"event_id\":0,\"data\":{\"type\":\"cleared\"}}]";

enum { interval_ms = 250 };

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct config *config;
    struct kv_poller *poller;
    struct stub_route *events;
    uint64_t ids[8]; // of what was handed on, and the last of it
    size_t size;
    struct stub_server server;
    uint32_t count;
    enum status status; // what is said to it
    char text[256];
};

static enum status push(void *owner, uint64_t backend_id, struct slice json)
{
    struct scene *scene = owner;
    scene->ids[scene->count++ % ARRAY_COUNT(scene->ids)] = backend_id;
    scene->size = json.size;
    snprintf(scene->text, sizeof(scene->text), "%.*s", (int)json.size, (const char *)json.bytes);
    return scene->status;
}

// A list, or a whole answer if it looks like one.
static void say(struct scene *scene, const char *answer)
{
    static char spaces[8][1024];
    static int next;
    char *space = spaces[next++ % 8];

    if (answer[0] != '\0' && strncmp(answer, "HTTP/", 5) != 0) {
        int size =
            snprintf(space, sizeof(spaces[0]), "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n%s",
                     strlen(answer), answer);
        ASSERT(size < (int)sizeof(spaces[0]));
        answer = space;
    }
    scene->events->answer = slice_str(answer);
}

// Rank 0 is a server by itself.
static struct backend *watch(struct scene *scene, const char *events, uint32_t rank,
                             uint64_t server)
{
    struct backend *backend =
        fleet_add(scene->fleet, &(struct fleet_spec){.url = "http://engine",
                                                     .host = "localhost",
                                                     .port = scene->server.port,
                                                     .weight = 1,
                                                     .api_key = "secret",
                                                     .server = server,
                                                     .rank = rank,
                                                     .rank_count = 4,
                                                     .events = events,
                                                     .address = scene->server.address});
    ASSERT(backend != NULL);
    kv_poller_watch(scene->poller, backend);
    return backend;
}

static void scene_open(struct scene *scene, const char *answer)
{
    struct config_error error;
    *scene = (struct scene){0};
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    reclaim_init(&scene->reclaim, 0);
    ASSERT(config_parse(slice_str("backends: ['http://127.0.0.1:1']"), "test", NULL, &scene->config,
                        &error) == STATUS_OK);
    scene->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 64, .pool_count = 1},
                                &scene->reclaim);
    scene->poller = kv_poller_create(&(struct kv_poller_options){
        .loop = scene->loop, .config = scene->config, .push = push, .owner = scene});
    ASSERT(scene->fleet != NULL && scene->poller != NULL);
    stub_start(&scene->server, scene->loop);
    scene->server.routes[0] = (struct stub_route){.path = "/kv_cache_events"};
    scene->events = &scene->server.routes[0];
    say(scene, answer);
}

static void scene_close(struct scene *scene)
{
    kv_poller_destroy(&scene->poller);
    ASSERT(scene->poller == NULL);
    stub_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

// Turns until so many questions were asked and all connections are closed: the answers were heard.
static void turn_until(struct scene *scene, uint32_t target)
{
    for (int i = 0; (scene->events->count != target || scene->server.open_count > 0) && i < 4000;
         i++) {
        loop_turn(scene->loop, 5);
    }
    ASSERT(scene->events->count == target && scene->server.open_count == 0);
}

static void ask_once(struct scene *scene)
{
    clock_push_ms(interval_ms);
    turn_until(scene, scene->events->count + 1);
}

// Time passes in steps, each with turns enough for a question and its response; the turns are
// waited out only for an engine that does not respond.
static void pass_ms(struct scene *scene, uint32_t time_ms)
{
    for (uint32_t passed_ms = 0; passed_ms < time_ms; passed_ms += interval_ms) {
        clock_push_ms(interval_ms);
        for (int i = 0; i < 30 && (i < 5 || scene->server.open_count > 0); i++) {
            loop_turn(scene->loop, i < 5 ? 0 : 1);
        }
    }
}

TEST(a_list_of_events_is_pushed_on_as_it_is)
{
    struct scene scene;
    scene_open(&scene, one);
    struct backend *backend = watch(&scene, "poll", 0, 0);
    ask_once(&scene);
    CHECK_EQ(scene.count, 1);
    CHECK_EQ(scene.ids[0], backend->id);
    CHECK_STR(scene.text, one);
    CHECK(strncmp(scene.server.request, "POST /kv_cache_events HTTP/1.1\r\n", 32) == 0);
    CHECK(strstr(scene.server.request, "\r\nauthorization: Bearer secret\r\n") != NULL);
    ask_once(&scene);
    CHECK_EQ(scene.count, 2);
    scene_close(&scene);
}

TEST(an_empty_list_is_not_pushed_on)
{
    struct scene scene;
    scene_open(&scene, " [\n]");
    watch(&scene, "poll", 0, 0);
    for (uint32_t i = 0; i < 4; i++) { // and does not count as a failure
        ask_once(&scene);
    }
    CHECK_EQ(scene.count, 0);
    scene_close(&scene);
}

TEST(an_engine_is_asked_four_times_a_second)
{
    struct scene scene;
    scene_open(&scene, "[]");
    watch(&scene, "poll", 0, 0);
    pass_ms(&scene, 10000);
    CHECK(scene.events->count >= 38 && scene.events->count <= 41);
    scene_close(&scene);
}

TEST(only_polled_backends_are_asked)
{
    struct scene scene;
    scene_open(&scene, one);
    struct backend *published = watch(&scene, "tcp://127.0.0.1:5557", 0, 0);
    struct backend *silent = watch(&scene, NULL, 0, 0);
    pass_ms(&scene, 2000);
    CHECK_EQ(scene.events->count, 0);
    kv_poller_forget(scene.poller, published);
    kv_poller_forget(scene.poller, silent);
    scene_close(&scene);
}

// The engine forgets events once it has sent them.
TEST(one_rank_asks_for_all)
{
    struct scene scene;
    scene_open(&scene, one);
    struct backend *first = watch(&scene, "poll", 0, 0);
    struct backend *second = watch(&scene, "poll", 1, first->id);
    watch(&scene, "poll", 1, first->id + 99); // of another server
    ask_once(&scene);
    CHECK_EQ(scene.count, 2);
    CHECK_EQ(scene.ids[0], first->id);
    CHECK_EQ(scene.ids[1], second->id);
    scene_close(&scene);
}

TEST(an_engine_that_fails_is_asked_ever_more_rarely_and_recovers)
{
    static const char *const failures[] = {ill, "HTTP/9 nonsense\r\n\r\n", "{\"error\":1}", "7",
                                           empty};
    for (size_t i = 0; i < ARRAY_COUNT(failures); i++) {
        struct scene scene;
        scene_open(&scene, failures[i]);
        watch(&scene, "poll", 0, 0);
        pass_ms(&scene, 600000);
        // 0.25, 0.5, ... 32 and then 60 seconds: eight and some nine more.
        CHECK(scene.events->count >= 14 && scene.events->count <= 20);
        CHECK_EQ(scene.count, 0);
        say(&scene, one);
        pass_ms(&scene, 62000);
        CHECK(scene.count > 0);
        uint32_t count = scene.count;
        ask_once(&scene); // as often as ever
        CHECK_EQ(scene.count, count + 1);
        scene_close(&scene);
    }
}

TEST(an_engine_without_events_is_asked_once_a_minute)
{
    struct scene scene;
    scene_open(&scene, missing);
    watch(&scene, "poll", 0, 0);
    pass_ms(&scene, 600000);
    CHECK(scene.events->count >= 9 && scene.events->count <= 11);
    say(&scene, one);
    pass_ms(&scene, 62000);
    CHECK(scene.count > 0);
    scene_close(&scene);
}

// The follower has unread events enough: more would be lost.
TEST(a_follower_that_is_full_slows_the_questions_down)
{
    struct scene scene;
    scene_open(&scene, one);
    scene.status = STATUS_EXHAUSTED;
    watch(&scene, "poll", 0, 0);
    pass_ms(&scene, 8000);
    CHECK(scene.count >= 4 && scene.count <= 7);
    scene.status = STATUS_OK;
    pass_ms(&scene, 62000);
    uint32_t count = scene.count;
    ask_once(&scene);
    CHECK_EQ(scene.count, count + 1);
    scene_close(&scene);
}

TEST(a_backend_that_its_probes_find_up_again_is_asked_at_once)
{
    struct scene scene;
    scene_open(&scene, ill);
    struct backend *backend = watch(&scene, "poll", 0, 0);
    backend_set_probe(backend, BACKEND_PROBE_DOWN, loop_now_ms(scene.loop));
    pass_ms(&scene, 300000);
    uint32_t count = scene.events->count + 1;
    while (scene.events->count < count) { // the next would come in a minute
        pass_ms(&scene, interval_ms);
    }
    say(&scene, one);
    backend_set_probe(backend, BACKEND_PROBE_UP, loop_now_ms(scene.loop));
    clock_push_ms(1000);
    turn_until(&scene, count + 1);
    CHECK_EQ(scene.count, 1);
    scene_close(&scene);
}

TEST(responses_may_have_many_megabytes)
{
    enum { size = 9 << 20 };
    struct scene scene;
    char *answer = malloc(size);
    CHECK(answer != NULL);
    struct text text = text_over(answer, size);
    text_add_format(&text, "HTTP/1.1 200 OK\r\ncontent-length: %u\r\n\r\n[", size - 100);
    size_t end = text.size - 1 + size - 100;
    memset(answer + text.size, '1', end - text.size);
    answer[end - 1] = ']';
    scene_open(&scene, "[]");
    scene.events->answer = slice_of(answer, end);
    watch(&scene, "poll", 0, 0);
    ask_once(&scene);
    CHECK_EQ(scene.count, 1);
    CHECK_EQ(scene.size, size - 100);
    scene_close(&scene);
    free(answer);
}

TEST(a_backend_can_be_removed_with_a_question_in_flight)
{
    struct scene scene;
    scene_open(&scene, "");
    struct backend *backend = watch(&scene, "poll", 0, 0);
    pass_ms(&scene, 1500);
    CHECK_EQ(scene.server.open_count, 1);
    kv_poller_forget(scene.poller, backend);
    fleet_remove(scene.fleet, backend);
    fleet_publish(scene.fleet);
    fleet_reclaim(scene.fleet); // and nothing is left of it
    pass_ms(&scene, 2000);
    CHECK_EQ(scene.server.open_count, 0);
    CHECK_EQ(scene.events->count, 1);

    say(&scene, one); // in the same slot
    watch(&scene, "poll", 0, 0);
    ask_once(&scene);
    CHECK_EQ(scene.count, 1);
    kv_poller_set_config(scene.poller, scene.config);
    ask_once(&scene);
    CHECK_EQ(scene.count, 2);
    scene_close(&scene);
}
