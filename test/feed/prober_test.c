// SPDX-License-Identifier: Apache-2.0
//
// One or two stand-in backends in the loop of the prober, and a clock that is pushed from one
// question to the next.

#include "feed/prober.h"

#include "base/reclaim.h"
#include "base/text.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "net/certificates.h"
#include "net/stub_server.h"
#include "net/tls.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <unistd.h>

#define EMPTY "\r\ncontent-length: 0\r\n\r\n"

static const char well[] = "HTTP/1.1 200 OK" EMPTY;
static const char ill[] = "HTTP/1.1 503 Service Unavailable" EMPTY;
static const char missing[] = "HTTP/1.1 404 Not Found" EMPTY;

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct config *config;
    struct prober *prober;
    struct stub_server server;
    struct backend *backend;
    struct stub_route *health;
    struct stub_route *models;
    uint32_t changed_count;
    bool forgets; // the backend, as soon as there is news of it
};

static void changed(void *owner)
{
    struct scene *scene = owner;
    scene->changed_count++;
    if (scene->forgets) {
        scene->forgets = false;
        prober_forget(scene->prober, scene->backend);
    }
}

static struct config *read_config(const char *yaml)
{
    struct config *config = NULL;
    struct config_error error;
    ASSERT(config_parse(slice_str(yaml), "test", NULL, &config, &error) == STATUS_OK);
    return config;
}

static void say(struct stub_route *route, const char *answer)
{
    route->answer = slice_str(answer);
}

static void scene_open(struct scene *scene, const char *yaml)
{
    char text[1024];
    *scene = (struct scene){0};
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(text, sizeof(text), "backends: [http://127.0.0.1:1]\n%s", yaml);
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    reclaim_init(&scene->reclaim, 0);
    scene->config = read_config(text);
    scene->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 4, .pool_count = 1},
                                &scene->reclaim);
    scene->prober = prober_create(&(struct prober_options){.loop = scene->loop,
                                                           .fleet = scene->fleet,
                                                           .config = scene->config,
                                                           .changed = changed,
                                                           .owner = scene});
    ASSERT(scene->fleet != NULL && scene->prober != NULL);
    stub_start(&scene->server, scene->loop);
    scene->health = &scene->server.routes[0];
    scene->models = &scene->server.routes[1];
    *scene->health = (struct stub_route){.path = "/health"};
    *scene->models = (struct stub_route){.path = "/v1/models"};
    say(scene->health, well);
    say(scene->models, missing);
}

static void scene_close(struct scene *scene)
{
    prober_destroy(&scene->prober);
    ASSERT(scene->prober == NULL);
    stub_stop(&scene->server);
    fleet_destroy(&scene->fleet);
    config_destroy(&scene->config);
    loop_destroy(&scene->loop);
}

static struct backend *add_backend(struct scene *scene, const struct stub_server *server, bool tls)
{
    struct backend *backend =
        fleet_add(scene->fleet, &(struct fleet_spec){.url = "http://engine",
                                                     .host = "localhost",
                                                     .port = server->port,
                                                     .tls = tls,
                                                     .weight = 1,
                                                     .address = server->address});
    ASSERT(backend != NULL);
    return backend;
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

static void watch(struct scene *scene)
{
    scene->backend = add_backend(scene, &scene->server, false);
    prober_watch(scene->prober, scene->backend);
}

static enum backend_probe probe(const struct scene *scene)
{
    return (enum backend_probe)atomic_load(&scene->backend->shared.probe);
}

// The next answer to the next question about health.
static enum backend_probe probe_after(struct scene *scene, const char *answer)
{
    uint32_t accepted = scene->server.accepted_count + 1;
    say(scene->health, answer);
    clock_push_ms(scene->config->health.interval + scene->config->health.interval / 10);
    turn_until(scene, &scene->server.accepted_count, accepted);
    return probe(scene);
}

// "a, b": what the fleet knows of the backend.
static const char *models_of(const struct scene *scene, const struct backend *backend)
{
    static char space[256];
    struct text text = text_over(space, sizeof(space) - 1);
    const char *name;
    for (uint32_t i = 0; (name = fleet_model_name(scene->fleet, backend, i)) != NULL; i++) {
        text_add_str(&text, i > 0 ? ", " : "");
        text_add_str(&text, name);
    }
    space[text.size] = '\0';
    return space;
}

// An answer that lists one model.
static void say_model(struct stub_route *route, const char *name)
{
    static char spaces[4][256];
    static int next;
    char *space = spaces[next++ % 4];
    snprintf(space, sizeof(spaces[0]),
             "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n{\"data\":[{\"id\":\"%s\"}]}",
             strlen(name) + strlen("{\"data\":[{\"id\":\"\"}]}"), name);
    say(route, space);
}

static const char health_only[] =
    "models: {learn: false}\nhealth: {interval: 2s, rise: 3, fall: 3}";

TEST(the_first_response_decides_at_once)
{
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        scene_open(&scene, health_only);
        say(scene.health, i == 0 ? well : ill);
        watch(&scene);
        CHECK_EQ(probe(&scene), BACKEND_PROBE_UNKNOWN);
        CHECK_EQ(scene.changed_count, 0);
        turn_until(&scene, &scene.health->count, 1);
        CHECK_EQ(probe(&scene), i == 0 ? BACKEND_PROBE_UP : BACKEND_PROBE_DOWN);
        CHECK_EQ(scene.changed_count, 1);
        scene_close(&scene);
    }
}

TEST(only_failures_in_a_row_take_a_backend_out)
{
    struct scene scene;
    scene_open(&scene, health_only);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_UP);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_UP);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_UP);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_UP);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_UP);
    CHECK_EQ(scene.changed_count, 1);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_DOWN);
    CHECK_EQ(scene.changed_count, 2);
    scene_close(&scene);
}

TEST(only_successes_in_a_row_bring_it_back)
{
    struct scene scene;
    scene_open(&scene, health_only);
    say(scene.health, ill);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_DOWN);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_DOWN);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_DOWN);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_DOWN);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_DOWN);
    CHECK_EQ(scene.changed_count, 1);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_UP);
    CHECK_EQ(scene.changed_count, 2);
    scene_close(&scene);
}

static const char quick[] = "models: {learn: false}\nhealth: {interval: 2s, rise: 1, fall: 1}";

TEST(any_status_below_500_means_up)
{
    static const char *const alive[] = {
        "HTTP/1.1 204 No Content\r\n\r\n",      "HTTP/1.1 301 Moved Permanently" EMPTY,
        "HTTP/1.1 401 Unauthorized" EMPTY,      "HTTP/1.1 404 Not Found" EMPTY,
        "HTTP/1.1 429 Too Many Requests" EMPTY, "HTTP/1.1 499 What" EMPTY,
    };
    static const char *const dead[] = {
        "HTTP/1.1 500 Internal Server Error" EMPTY,
        "HTTP/1.1 502 Bad Gateway" EMPTY,
        "HTTP/1.1 503 Service Unavailable" EMPTY,
        "HTTP/1.1 599 What" EMPTY,
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: five" EMPTY,
    };
    struct scene scene;
    scene_open(&scene, quick);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    for (size_t i = 0; i < ARRAY_COUNT(alive); i++) {
        CHECK_EQ(probe_after(&scene, dead[i]), BACKEND_PROBE_DOWN);
        CHECK_EQ(probe_after(&scene, alive[i]), BACKEND_PROBE_UP);
    }
    scene_close(&scene);
}

TEST(a_backend_that_resets_or_says_nothing_is_down)
{
    struct scene scene;
    scene_open(&scene, quick);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    scene.server.slams = true;
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_DOWN);
    scene.server.slams = false;
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_UP);

    say(scene.health, "");
    uint32_t count = scene.health->count;
    clock_push_ms(2200);
    turn_often(&scene);
    CHECK_EQ(scene.health->count, count + 1);
    // Asked again only when this question has ended, however often the interval has passed.
    clock_push_ms(2200);
    turn_often(&scene);
    CHECK_EQ(scene.health->count, count + 1);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UP);
    clock_push_ms(5000 - 2200);
    turn_often(&scene);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_DOWN);
    scene_close(&scene);
}

TEST(a_backend_that_is_down_is_still_asked_and_comes_back)
{
    struct scene scene;
    scene_open(&scene, quick);
    say(scene.health, ill);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_DOWN);
    }
    CHECK_EQ(scene.health->count, 101);
    CHECK_EQ(scene.changed_count, 1);
    CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_UP);
    scene_close(&scene);
}

TEST(the_configured_path_is_asked_once_an_interval)
{
    struct scene scene;
    scene_open(&scene, "models: {learn: false}\nhealth: {interval: 100s, path: /ready}");
    scene.health->path = "/ready";
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    for (uint32_t i = 2; i < 6; i++) {
        clock_push_ms(94000);
        turn_often(&scene);
        CHECK_EQ(scene.health->count, i - 1);
        clock_push_ms(12000);
        turn_until(&scene, &scene.health->count, i);
    }
    CHECK_EQ(scene.models->count, 0);
    scene_close(&scene);
}

TEST(a_successful_probe_ends_an_ejection_unless_responses_caused_it)
{
    static const struct {
        enum backend_outcome outcome;
        const char *state;
    } cases[] = {{BACKEND_UNREACHED, "half_open"}, {BACKEND_FAULT, "ejected"}};
    struct backend_rules rules = {
        .eject_failures = 1, .eject_time_ms = 3600000, .eject_time_max_ms = 3600000};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct scene scene;
        scene_open(&scene, quick);
        watch(&scene);
        turn_until(&scene, &scene.health->count, 1);
        backend_judge(scene.backend, cases[i].outcome, false, loop_now_ms(scene.loop), &rules);
        CHECK_STR(backend_state(scene.backend, loop_now_ms(scene.loop)), "ejected");
        CHECK_EQ(probe_after(&scene, well), BACKEND_PROBE_UP);
        CHECK_STR(backend_state(scene.backend, loop_now_ms(scene.loop)), cases[i].state);
        scene_close(&scene);
    }
}

TEST(models_are_learned_and_learned_again)
{
    struct scene scene;
    scene_open(&scene, "models: {interval: 10s}\nhealth: {interval: 0}");
    say_model(scene.models, "one");
    watch(&scene);
    CHECK_STR(models_of(&scene, scene.backend), "");
    turn_until(&scene, &scene.models->count, 1);
    CHECK_STR(models_of(&scene, scene.backend), "one");
    CHECK_EQ(scene.changed_count, 1);
    say_model(scene.models, "two");
    clock_push_ms(9000);
    turn_often(&scene);
    CHECK_STR(models_of(&scene, scene.backend), "one");
    clock_push_ms(2000);
    turn_until(&scene, &scene.models->count, 2);
    CHECK_STR(models_of(&scene, scene.backend), "two");
    CHECK_EQ(scene.health->count, 0);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UNKNOWN);
    scene_close(&scene);
}

TEST(a_response_that_is_not_a_list_of_models_changes_nothing)
{
    static const char *const answers[] = {
        missing,
        "HTTP/1.1 500 No\r\ncontent-length: 25\r\n\r\n{\"data\":[{\"id\":\"other\"}]}",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnull",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"data\":[",
        "nonsense\r\n\r\n",
    };
    struct scene scene;
    scene_open(&scene, "models: {interval: 10s}\nhealth: {interval: 0}");
    say_model(scene.models, "one");
    watch(&scene);
    turn_until(&scene, &scene.models->count, 1);
    for (uint32_t i = 0; i < ARRAY_COUNT(answers); i++) {
        say(scene.models, answers[i]);
        clock_push_ms(11000);
        turn_until(&scene, &scene.models->count, 2 + i);
        CHECK_STR(models_of(&scene, scene.backend), "one");
        CHECK_EQ(scene.changed_count, 1);
    }
    scene_close(&scene);
}

TEST(after_an_empty_list_the_models_are_unknown_and_the_log_says_so_once)
{
    static const char none[] = "HTTP/1.1 200 OK\r\ncontent-length: 27\r\n\r\n"
                               "{\"object\":\"list\",\"data\":[]}";
    static char text[4096];
    struct scene scene;
    FILE *file = tmpfile();
    scene_open(&scene, "models: {interval: 10s}\nhealth: {interval: 0}");
    ASSERT(file != NULL && dup2(fileno(file), STDERR_FILENO) != -1);
    log_set_level(LOG_LEVEL_INFO);
    say_model(scene.models, "one");
    watch(&scene);
    turn_until(&scene, &scene.models->count, 1);
    for (uint32_t i = 2; i <= 4; i++) {
        say(scene.models, none);
        clock_push_ms(11000);
        turn_until(&scene, &scene.models->count, i);
        CHECK_STR(models_of(&scene, scene.backend), "");
    }
    ASSERT(pread(fileno(file), text, sizeof(text) - 1, 0) > 0);
    const char *line = strstr(text, "backend http://engine: list of models: empty; ");
    CHECK(line != NULL);
    CHECK(strstr(line + 1, "backend http://engine: list of models") == NULL);
    say_model(scene.models, "one");
    clock_push_ms(11000);
    turn_until(&scene, &scene.models->count, 5);
    CHECK_STR(models_of(&scene, scene.backend), "one");
    fclose(file);
    scene_close(&scene);
}

// The long interval must not be what brings the new list.
TEST(a_backend_that_comes_back_is_asked_for_its_models_at_once)
{
    struct scene scene;
    scene_open(&scene, "models: {interval: 1h}\nhealth: {interval: 2s, rise: 1, fall: 1}");
    say_model(scene.models, "old");
    watch(&scene);
    turn_until(&scene, &scene.models->count, 1);
    CHECK_EQ(scene.health->count, 1);
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_DOWN);
    say_model(scene.models, "new");
    CHECK_EQ(scene.models->count, 1);
    CHECK_STR(models_of(&scene, scene.backend), "old");
    say(scene.health, well);
    clock_push_ms(2200);
    turn_until(&scene, &scene.models->count, 2);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UP);
    CHECK_STR(models_of(&scene, scene.backend), "new");
    scene_close(&scene);
}

TEST(models_keep_their_own_interval_when_probes_are_rarer)
{
    struct scene scene;
    scene_open(&scene, "models: {interval: 10s}\nhealth: {interval: 1h}");
    say_model(scene.models, "one");
    watch(&scene);
    turn_until(&scene, &scene.models->count, 1);
    say_model(scene.models, "two");
    clock_push_ms(11000);
    turn_until(&scene, &scene.models->count, 2);
    CHECK_STR(models_of(&scene, scene.backend), "two");
    CHECK_EQ(scene.health->count, 1);
    scene_close(&scene);
}

TEST(a_backend_can_be_forgotten_with_questions_in_flight)
{
    struct scene scene;
    scene_open(&scene, "health: {interval: 2s}");
    say(scene.health, "");
    say(scene.models, "");
    watch(&scene);
    for (int i = 0; i < 2; i++) {
        turn_often(&scene);
        CHECK_EQ(scene.server.open_count, 2);
        prober_forget(scene.prober, scene.backend);
        turn_often(&scene);
        CHECK_EQ(scene.server.open_count, 0);
        clock_push_ms(60000);
        turn_often(&scene);
        CHECK_EQ(scene.server.accepted_count, 2 * (i + 1));
        CHECK_EQ(scene.changed_count, 0);
        CHECK_EQ(probe(&scene), BACKEND_PROBE_UNKNOWN);
        // The same slot again: nothing of the last time is left.
        prober_watch(scene.prober, scene.backend);
    }
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 2); // the end comes with these under way
    scene_close(&scene);
}

TEST(a_backend_can_be_forgotten_on_hearing_the_news_of_it)
{
    static const char *const intervals[] = {"health: {interval: 2s}\nmodels: {learn: false}",
                                            "health: {interval: 0}\nmodels: {interval: 2s}"};
    for (size_t i = 0; i < ARRAY_COUNT(intervals); i++) {
        struct scene scene;
        scene_open(&scene, intervals[i]);
        say_model(scene.models, "one");
        scene.forgets = true;
        watch(&scene);
        turn_until(&scene, &scene.changed_count, 1);
        clock_push_ms(60000);
        turn_often(&scene);
        CHECK_EQ(scene.health->count + scene.models->count, 1);
        scene_close(&scene);
    }
}

TEST(all_are_asked_once_each_has_responded_or_failed)
{
    struct scene scene;
    struct stub_server other;
    scene_open(&scene, "health: {interval: 2s, timeout: 5s}");
    stub_start(&other, scene.loop);
    other.routes[0] = (struct stub_route){.path = "/health"};
    other.routes[1] = (struct stub_route){.path = "/v1/models"};
    CHECK(prober_has_asked_all(scene.prober)); // the fleet is empty
    watch(&scene);
    CHECK(!prober_has_asked_all(scene.prober));
    turn_until(&scene, &scene.models->count, 1);
    CHECK(prober_has_asked_all(scene.prober));

    prober_watch(scene.prober, add_backend(&scene, &other, false));
    CHECK(!prober_has_asked_all(scene.prober));
    say(&other.routes[0], well);
    turn_often(&scene);
    CHECK_EQ(other.routes[0].count, 1);
    CHECK(!prober_has_asked_all(scene.prober)); // its models are not known
    clock_push_ms(10000);
    turn_often(&scene);
    CHECK(prober_has_asked_all(scene.prober)); // nor will they be
    stub_stop(&other);
    scene_close(&scene);
}

TEST(only_questions_that_are_asked_are_waited_for)
{
    static const char *const yaml[] = {"health: {interval: 0}\nmodels: {learn: false}",
                                       "health: {interval: 0}", "models: {learn: false}"};
    for (size_t i = 0; i < ARRAY_COUNT(yaml); i++) {
        struct scene scene;
        scene_open(&scene, yaml[i]);
        watch(&scene);
        CHECK_EQ(prober_has_asked_all(scene.prober), i == 0);
        turn_often(&scene);
        turn_until(&scene, &scene.server.accepted_count, i == 0 ? 0 : 1);
        CHECK(prober_has_asked_all(scene.prober));
        CHECK_EQ(scene.health->count, i == 2);
        CHECK_EQ(scene.models->count, i == 1);
        scene_close(&scene);
    }
}

static void set_config(struct scene *scene, const char *yaml)
{
    char text[1024];
    snprintf(text, sizeof(text), "backends: [http://127.0.0.1:1]\n%s", yaml);
    struct config *config = read_config(text);
    prober_set_config(scene->prober, config);
    config_destroy(&scene->config);
    scene->config = config;
}

TEST(a_new_configuration_takes_effect_at_once)
{
    struct scene scene;
    scene_open(&scene, "health: {interval: 1h}\nmodels: {learn: false}");
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    set_config(&scene, "health: {interval: 2s, path: /ready}\nmodels: {interval: 10s}");
    scene.health->path = "/ready";
    clock_push_ms(2200);
    turn_until(&scene, &scene.health->count, 2);
    clock_push_ms(8400);
    turn_until(&scene, &scene.models->count, 1);
    scene_close(&scene);
}

TEST(reloading_without_pause_does_not_put_questions_off)
{
    struct scene scene;
    scene_open(&scene, "health: {interval: 10s}\nmodels: {learn: false}");
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    for (int i = 0; i < 11; i++) {
        set_config(&scene, "health: {interval: 10s}\nmodels: {learn: false}");
        clock_push_ms(1000);
        loop_turn(scene.loop, 1);
    }
    turn_often(&scene);
    CHECK_EQ(scene.health->count, 2);
    scene_close(&scene);
}

TEST(without_probes_no_backend_stays_down)
{
    struct scene scene;
    scene_open(&scene, quick);
    say(scene.health, ill);
    watch(&scene);
    turn_until(&scene, &scene.health->count, 1);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_DOWN);
    say(scene.health, "");
    clock_push_ms(2200);
    turn_often(&scene);
    CHECK_EQ(scene.server.open_count, 1); // a question is under way
    set_config(&scene, "health: {interval: 0}\nmodels: {learn: false}");
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UNKNOWN);
    CHECK_EQ(scene.changed_count, 2);
    turn_until(&scene, &scene.health->count, 2);
    clock_push_ms(60000);
    turn_often(&scene);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UNKNOWN);
    CHECK_EQ(scene.health->count, 2);

    set_config(&scene, quick); // and back: the first answer decides again
    CHECK_EQ(probe_after(&scene, ill), BACKEND_PROBE_DOWN);
    scene_close(&scene);
}

TEST(a_backend_under_tls_must_be_one_that_is_trusted)
{
    static const char *const authorities[] = {"ca.pem", "other_ca.pem", "absent.pem", "ca.pem"};
    struct scene scene;
    char error[tls_error_size];
    char yaml[512];
    make_certificates();
    snprintf(yaml, sizeof(yaml), "%s\nbackend_tls: {ca: %s}", quick, file_in_dir("ca.pem"));
    scene_open(&scene, yaml);
    struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                          .key = file_in_dir("key.pem")};
    CHECK_EQ(tls_server_create(&identity, &scene.server.tls, error), STATUS_OK);
    scene.backend = add_backend(&scene, &scene.server, true);
    prober_watch(scene.prober, scene.backend);
    turn_until(&scene, &scene.health->count, 1);
    CHECK_EQ(probe(&scene), BACKEND_PROBE_UP);
    for (size_t i = 1; i < ARRAY_COUNT(authorities); i++) {
        snprintf(yaml, sizeof(yaml), "%s\nbackend_tls: {ca: %s}", quick,
                 file_in_dir(authorities[i]));
        set_config(&scene, yaml);
        clock_push_ms(2200);
        turn_often(&scene);
        turn_until(&scene, &scene.server.open_count, 0);
        CHECK_EQ(probe(&scene), i == 3 ? BACKEND_PROBE_UP : BACKEND_PROBE_DOWN);
    }
    CHECK_EQ(scene.health->count, 2);
    tls_context_destroy(&scene.server.tls);
    scene_close(&scene);
}

// The ranks of one server, the first of which is the scene's backend.
static void watch_ranks(struct scene *scene, struct backend **ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = fleet_add(scene->fleet, &(struct fleet_spec){.url = "http://engine#rank",
                                                                .host = "localhost",
                                                                .port = scene->server.port,
                                                                .weight = 1,
                                                                .address = scene->server.address,
                                                                .server = i > 0 ? ranks[0]->id : 0,
                                                                .rank = i,
                                                                .rank_count = count});
        ASSERT(ranks[i] != NULL);
        prober_watch(scene->prober, ranks[i]);
    }
    scene->backend = ranks[0];
}

static const char *probes_of(struct backend *const *ranks, uint32_t count)
{
    static const char words[] = {'?', 'u', 'd'};
    static char text[8];
    for (uint32_t i = 0; i < count; i++) {
        text[i] = words[atomic_load(&ranks[i]->shared.probe)];
    }
    text[count] = '\0';
    return text;
}

TEST(one_rank_of_a_server_is_probed_and_all_share_its_verdict)
{
    struct scene scene;
    struct backend *ranks[3];
    struct backend *other = NULL;
    scene_open(&scene, "health: {interval: 2s, fall: 1}\nmodels: {learn: false}");
    struct stub_server healthy;
    stub_start(&healthy, scene.loop);
    healthy.routes[0] = (struct stub_route){.path = "/health", .answer = slice_str(well)};
    other = add_backend(&scene, &healthy, false);
    prober_watch(scene.prober, other);
    watch_ranks(&scene, ranks, 3);
    turn_until(&scene, &scene.server.accepted_count, 1);
    turn_often(&scene);
    CHECK(prober_has_asked_all(scene.prober));
    CHECK_STR(probes_of(ranks, 3), "uuu");
    probe_after(&scene, ill);
    CHECK_STR(probes_of(ranks, 3), "ddd");
    CHECK_EQ(atomic_load(&other->shared.probe), BACKEND_PROBE_UP);
    probe_after(&scene, well);
    CHECK_STR(probes_of(ranks, 3), "uuu");
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(atomic_load(&ranks[i]->shared.lives), 1); // the process was gone, with all of them
    }
    CHECK_EQ(atomic_load(&other->shared.lives), 0);
    CHECK_EQ(scene.server.accepted_count, 3);
    stub_stop(&healthy);
    scene_close(&scene);
}

TEST(all_ranks_serve_the_models_of_the_first)
{
    struct scene scene;
    struct backend *ranks[3];
    scene_open(&scene, "health: {interval: 0}\nmodels: {interval: 10s}");
    say_model(scene.models, "m");
    watch_ranks(&scene, ranks, 2);
    turn_until(&scene, &scene.server.accepted_count, 1);
    CHECK_STR(models_of(&scene, ranks[0]), "m");
    CHECK_STR(models_of(&scene, ranks[1]), "m");
    // One that comes late does not wait for the interval.
    ranks[2] = fleet_add(scene.fleet, &(struct fleet_spec){.url = "http://engine#rank=2",
                                                           .host = "localhost",
                                                           .port = scene.server.port,
                                                           .weight = 1,
                                                           .address = scene.server.address,
                                                           .server = ranks[0]->id,
                                                           .rank = 2,
                                                           .rank_count = 3});
    prober_watch(scene.prober, ranks[2]);
    turn_until(&scene, &scene.server.accepted_count, 2);
    CHECK_STR(models_of(&scene, ranks[2]), "m");
    scene_close(&scene);
}

TEST(a_rank_that_joins_later_gets_the_verdict_of_the_first)
{
    struct scene scene;
    struct backend *ranks[2];
    scene_open(&scene, "health: {interval: 2s}\nmodels: {learn: false}");
    say(scene.health, ill);
    watch_ranks(&scene, ranks, 1);
    turn_until(&scene, &scene.server.accepted_count, 1);
    CHECK_STR(probes_of(ranks, 1), "d");
    ranks[1] = fleet_add(scene.fleet, &(struct fleet_spec){.url = "http://engine#rank=1",
                                                           .host = "localhost",
                                                           .port = scene.server.port,
                                                           .weight = 1,
                                                           .address = scene.server.address,
                                                           .server = ranks[0]->id,
                                                           .rank = 1,
                                                           .rank_count = 2});
    prober_watch(scene.prober, ranks[1]);
    CHECK_STR(probes_of(ranks, 2), "dd");
    turn_often(&scene);
    CHECK_EQ(scene.server.accepted_count, 1);
    scene_close(&scene);
}
