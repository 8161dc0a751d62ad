// SPDX-License-Identifier: Apache-2.0
//
// One or two engines in the loop of the certifier, each with a dialect of its own, and a clock that
// is pushed to the next question.

#include "feed/certifier.h"

#include "base/reclaim.h"
#include "config/config.h"
#include "dialect/certify.h"
#include "dialect/certify_suite.h"
#include "dialect/tiny_engine.h"
#include "fleet/fleet.h"
#include "net/certificates.h"
#include "net/stub_server.h"
#include "net/tls.h"
#include "sys/log.h"
#include "sys/pushed_clock.h"
#include "test.h"

#include <unistd.h>

enum { response_size_max = 262144 };

// Another text for tools, and the same for everything else.
#define OTHER_TOOLS                                                                                \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"     \
    "{% if tools %}<tool>OTHER{{ tools | tojson }}{% endif %}"                                     \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

struct engine {
    struct stub_server server;
    struct tiny_set tiny;
    uint16_t fails_with; // instead of an answer
    uint8_t answer[response_size_max];
    void (*asked)(struct engine *engine); // before it answers
};

struct scene {
    struct reclaim reclaim;
    struct loop *loop;
    struct fleet *fleet;
    struct config *config;
    struct tiny_set tiny;
    struct certifier *certifier;
    struct engine engines[2];
    struct backend *backends[2];
    uint32_t case_count;
    uint32_t end_count;
    char why[256];           // of the last examination without a result
    uint32_t result;         // of the last one with one
    uint32_t question_count; // to both engines, where `asked` counts them
    bool is_hasty;           // there was one before the last was answered
};

static struct scene scene;

static void compute(struct stub_route *route, struct slice body)
{
    struct engine *engine = route->owner;
    static uint8_t space[response_size_max];
    struct text json = text_over(space, sizeof(space));
    struct text out = text_over(engine->answer, sizeof(engine->answer));

    if (engine->asked != NULL) {
        engine->asked(engine);
    }
    uint16_t status = engine->fails_with;
    if (status == 0) {
        status = tiny_engine_respond(&engine->tiny, route->path, body, &json);
    }
    text_add_format(&out, "HTTP/1.1 %u X\r\ncontent-length: %zu\r\n\r\n", status, json.size);
    text_add(&out, text_slice(&json));
    ASSERT(!out.overflow);
    route->answer = text_slice(&out);
}

static void missing(struct stub_route *route, struct slice body)
{
    struct engine *engine = route->owner;

    (void)body;
    if (engine->asked != NULL) {
        engine->asked(engine);
    }
    route->answer = slice_str("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
}

static void saw_case(void *owner, const char *name, const char *verdict, const char *why)
{
    (void)owner;
    ASSERT(name != NULL && why != NULL);
    ASSERT(strcmp(verdict, "agrees") == 0 || strcmp(verdict, "differs") == 0 ||
           strcmp(verdict, "skipped") == 0);
    scene.case_count++;
}

static void saw_end(void *owner, const struct certify *certify, const char *why)
{
    ASSERT(owner == &scene);
    scene.end_count++;
    if (why != NULL) {
        snprintf(scene.why, sizeof(scene.why), "%s", why);
    } else {
        scene.result = certify_result(certify);
    }
}

static void engine_open(struct engine *engine, struct dialect_options options)
{
    options.is_trusted = true;
    tiny_set_open(&engine->tiny, tiny_dialect(options));
    stub_start(&engine->server, scene.loop);
    static const char *const paths[] = {"/tokenize", "/v1/chat/completions/render",
                                        "/v1/completions/render"};
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        engine->server.routes[i] = (struct stub_route){
            .path = paths[i], .compute = i == 0 ? compute : missing, .owner = engine};
    }
}

static void engine_close(struct engine *engine)
{
    if (engine->server.loop != NULL) {
        stub_stop(&engine->server);
        tiny_set_close(&engine->tiny);
    }
}

// Nobody is examined around midnight.
static void pass_midnight(void)
{
    enum { day_s = 86400, longest_test_s = 600 };
    if (clock_wall_ms() / 1000 % day_s > day_s - longest_test_s) {
        clock_push_ms((uint64_t)(longest_test_s + 10) * 1000);
    }
}

static void scene_open(const char *yaml, struct dialect_options options)
{
    struct config_error error;
    char text[512];

    scene = (struct scene){0};
    pass_midnight();
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(text, sizeof(text), "backends: [http://127.0.0.1:1]\n%s\n", yaml);
    ASSERT(config_parse(slice_str(text), "test", NULL, &scene.config, &error) == STATUS_OK);
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    reclaim_init(&scene.reclaim, 0);
    scene.fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 4, .pool_count = 1},
                               &scene.reclaim);
    tiny_set_open(&scene.tiny, tiny_dialect(options));
    scene.certifier = certifier_create(&(struct certifier_options){.loop = scene.loop,
                                                                   .fleet = scene.fleet,
                                                                   .config = scene.config,
                                                                   .set = &scene.tiny.set,
                                                                   .thread = 1,
                                                                   .saw_case = saw_case,
                                                                   .saw_end = saw_end,
                                                                   .owner = &scene});
    ASSERT(scene.fleet != NULL && scene.certifier != NULL);
}

static void scene_close(void)
{
    certifier_destroy(&scene.certifier);
    for (int i = 0; i < 2; i++) {
        engine_close(&scene.engines[i]);
    }
    loop_turn(scene.loop, 0);
    tiny_set_close(&scene.tiny);
    fleet_destroy(&scene.fleet);
    config_destroy(&scene.config);
    loop_destroy(&scene.loop);
}

static struct backend *add_backend(int index)
{
    static const char *const urls[] = {"http://a", "http://b"};
    const struct stub_server *server = &scene.engines[index].server;

    scene.backends[index] =
        fleet_add(scene.fleet, &(struct fleet_spec){.url = urls[index],
                                                    .host = "localhost",
                                                    .port = server->port,
                                                    .weight = 1,
                                                    .address = server->address});
    ASSERT(scene.backends[index] != NULL);
    return scene.backends[index];
}

// Turns until `*count` is `target`; a test that waits for longer has failed.
static void turn_until(const uint32_t *count, uint32_t target)
{
    for (int i = 0; *count != target && i < 20000; i++) {
        loop_turn(scene.loop, 5);
    }
    ASSERT(*count == target);
}

// Longer than the pause between two looks for a backend to examine.
static void turn_often(void)
{
    for (int i = 0; i < 3; i++) {
        clock_push_ms(200);
        for (int j = 0; j < 10; j++) {
            loop_turn(scene.loop, 1);
        }
    }
}

static uint32_t asked_count(int index)
{
    return scene.engines[index].server.accepted_count;
}

static uint32_t certified(void)
{
    return atomic_load(&scene.tiny.set.dialects[0]->shared.certified);
}

static void come_back(struct backend *backend)
{
    backend_set_probe(backend, BACKEND_PROBE_DOWN, loop_now_ms(scene.loop));
    backend_set_probe(backend, BACKEND_PROBE_UP, loop_now_ms(scene.loop));
}

static const char unlisted[] = "models: {learn: false}\ntokens: {certify_interval: 30s}";

TEST(a_backend_is_examined_when_it_is_first_seen_and_only_then)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    turn_often();
    CHECK_EQ(asked_count(0), 0);
    add_backend(0);
    turn_until(&scene.end_count, 1);
    CHECK_STR(scene.why, "");
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    CHECK((certified() & CHAT_TOOLS_SHAPE) != 0);
    CHECK_EQ(certified(), scene.result);
    uint32_t asked = asked_count(0);
    CHECK(asked > 24 && asked <= certify_case_count());
    CHECK_EQ(scene.case_count, asked);
    clock_push_ms(3600000);
    turn_often();
    CHECK_EQ(asked_count(0), asked);
    CHECK_EQ(scene.end_count, 1);
    scene_close();
}

TEST(one_rank_of_a_server_is_examined)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    const struct stub_server *server = &scene.engines[0].server;
    struct fleet_spec spec = {.url = "http://a",
                              .host = "localhost",
                              .port = server->port,
                              .weight = 1,
                              .address = server->address,
                              .rank_count = 3};
    for (; spec.rank < 3; spec.rank++) {
        struct backend *rank = fleet_add(scene.fleet, &spec);
        spec.server = spec.rank == 0 ? rank->id : spec.server;
    }
    turn_until(&scene.end_count, 1);
    uint32_t asked = asked_count(0);
    turn_often();
    CHECK_EQ(asked_count(0), asked);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

TEST(a_backend_that_came_back_is_examined_again)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.end_count, 1);
    come_back(scene.backends[0]);
    turn_until(&scene.end_count, 2);
    turn_often();
    CHECK_EQ(scene.end_count, 2);
    CHECK((certified() & CHAT_TOOLS_SHAPE) != 0);
    scene_close();
}

TEST(a_backend_that_came_back_with_other_tokens_takes_them_away)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.end_count, 1);
    CHECK((certified() & CHAT_TOOLS_SHAPE) != 0);
    tiny_set_close(&scene.engines[0].tiny);
    tiny_set_open(&scene.engines[0].tiny,
                  tiny_dialect((struct dialect_options){.is_trusted = true,
                                                        .template = slice_str(OTHER_TOOLS)}));
    come_back(scene.backends[0]);
    turn_until(&scene.end_count, 2);
    CHECK_EQ(certified() & CHAT_TOOLS_SHAPE, 0);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

TEST(a_backend_that_is_down_is_not_asked)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    backend_set_probe(add_backend(0), BACKEND_PROBE_DOWN, 0);
    clock_push_ms(60000);
    turn_often();
    CHECK_EQ(asked_count(0), 0);
    backend_set_probe(scene.backends[0], BACKEND_PROBE_UP, 0);
    turn_until(&scene.end_count, 1);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

TEST(no_backend_is_asked_about_a_trusted_dialect)
{
    scene_open(unlisted, (struct dialect_options){.is_trusted = true});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    uint32_t before = certified();
    add_backend(0);
    turn_often();
    CHECK_EQ(asked_count(0), 0);
    CHECK_EQ(certified(), before);
    scene_close();
}

TEST(features_are_certified_when_all_examined_backends_agree)
{
    for (int first = 0; first < 2; first++) {
        scene_open(unlisted, (struct dialect_options){0});
        engine_open(&scene.engines[first], (struct dialect_options){0});
        engine_open(&scene.engines[1 - first],
                    (struct dialect_options){.template = slice_str(OTHER_TOOLS)});
        add_backend(0);
        turn_until(&scene.end_count, 1);
        CHECK_EQ((certified() & CHAT_TOOLS_SHAPE) != 0, first == 0);
        add_backend(1);
        turn_until(&scene.end_count, 2);
        CHECK_EQ(certified() & CHAT_TOOLS_SHAPE, 0);
        CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
        CHECK((certified() & CHAT_COMPLETION_SHAPE) != 0);
        scene_close();
    }
}

// Otherwise the next one that agrees would certify what this one does not compute.
TEST(a_dialect_without_common_features_is_not_certified_by_other_backends)
{
    static char space[tiny_size_max];
    struct text other = text_over(space, sizeof(space));
    scene_open(unlisted, (struct dialect_options){0});
    // Two bytes have changed their ids.
    tiny_add_tokenizer(&other);
    char *e = memmem(space, other.size, "\"e\":101", 7);
    char *a = memmem(space, other.size, "\"a\":97", 6);
    ASSERT(e != NULL && a != NULL);
    e[1] = 'a';
    a[1] = 'e';
    engine_open(&scene.engines[0], (struct dialect_options){.tokenizer = text_slice(&other)});
    engine_open(&scene.engines[1], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.end_count, 1);
    CHECK_EQ(certified(), 0);
    add_backend(1);
    turn_until(&scene.end_count, 2);
    CHECK((scene.result & CHAT_PLAIN_SHAPE) != 0);
    CHECK_EQ(certified(), 0);
    scene_close();
}

TEST(a_backend_that_cannot_be_asked_takes_nothing_away_and_is_asked_again)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    engine_open(&scene.engines[1], (struct dialect_options){0});
    scene.engines[1].fails_with = 404;
    add_backend(0);
    turn_until(&scene.end_count, 1);
    uint32_t before = certified();
    add_backend(1);
    turn_until(&scene.end_count, 2);
    CHECK_STR(scene.why, "/v1/chat/completions/render responds with status 404");
    CHECK_EQ(certified(), before);
    uint32_t asked = asked_count(1);
    clock_push_ms(28000);
    turn_often();
    CHECK_EQ(asked_count(1), asked);
    clock_push_ms(2000);
    scene.engines[1].fails_with = 0;
    turn_until(&scene.end_count, 3);
    CHECK_EQ(certified(), before);
    CHECK_EQ(scene.result, before);
    scene_close();
}

TEST(a_backend_that_came_back_does_not_wait_for_the_interval)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    scene.engines[0].server.slams = true;
    add_backend(0);
    turn_until(&scene.end_count, 1);
    CHECK(scene.why[0] != '\0');
    turn_often();
    CHECK_EQ(scene.end_count, 1);
    scene.engines[0].server.slams = false;
    come_back(scene.backends[0]);
    turn_until(&scene.end_count, 2);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

TEST(a_backend_that_refuses_every_case_cannot_be_asked)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    scene.engines[0].fails_with = 400;
    add_backend(0);
    turn_until(&scene.end_count, 1);
    CHECK_STR(scene.why, "it refuses every case");
    CHECK_EQ(certified(), 0);
    scene_close();
}

TEST(a_busy_backend_is_asked_all_cases_later)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.case_count, 3);
    scene.engines[0].fails_with = 503;
    turn_until(&scene.end_count, 1);
    CHECK_STR(scene.why, "the engine responds with status 503");
    CHECK_EQ(certified(), 0);
    scene.engines[0].fails_with = 0;
    clock_push_ms(31000);
    turn_until(&scene.end_count, 2);
    CHECK((certified() & CHAT_TOOLS_SHAPE) != 0);
    scene_close();
}

static void remember_complaints(FILE *file)
{
    fflush(stderr);
    ASSERT(dup2(fileno(file), STDERR_FILENO) != -1);
    log_set_level(LOG_LEVEL_WARN);
}

static uint32_t complaint_count(FILE *file)
{
    static char text[65536];
    uint32_t count = 0;
    ssize_t size = pread(fileno(file), text, sizeof(text) - 1, 0);
    ASSERT(size >= 0);
    text[size] = '\0';
    for (const char *at = text; (at = strstr(at, "cannot be asked")) != NULL; at++) {
        count++;
    }
    return count;
}

TEST(the_log_says_once_that_a_backend_cannot_be_asked)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    ASSERT(file != NULL && before != -1);
    scene_open(unlisted, (struct dialect_options){0});
    remember_complaints(file);
    engine_open(&scene.engines[0], (struct dialect_options){0});
    scene.engines[0].fails_with = 404;
    add_backend(0);
    for (uint32_t i = 1; i <= 3; i++) {
        turn_until(&scene.end_count, i);
        clock_push_ms(31000);
    }
    uint32_t count = complaint_count(file);
    ASSERT(dup2(before, STDERR_FILENO) != -1 && close(before) == 0);
    scene_close();
    fclose(file);
    CHECK_EQ(count, 1);
}

TEST(a_backend_that_is_removed_ends_its_examination)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.case_count, 3);
    fleet_remove(scene.fleet, scene.backends[0]);
    turn_until(&scene.end_count, 1);
    CHECK_STR(scene.why, "it was removed");
    CHECK_EQ(certified(), 0);
    // The slot now belongs to another backend.
    add_backend(0);
    turn_until(&scene.end_count, 2);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

static void count_question(struct engine *engine)
{
    (void)engine;
    clock_push_ms(150); // time enough to look for others to examine
    scene.is_hasty |= scene.question_count++ != scene.case_count;
}

TEST(one_question_at_a_time_is_asked_of_one_backend)
{
    scene_open(unlisted, (struct dialect_options){0});
    for (int i = 0; i < 2; i++) {
        engine_open(&scene.engines[i], (struct dialect_options){0});
        scene.engines[i].asked = count_question;
        add_backend(i);
    }
    turn_until(&scene.end_count, 1);
    CHECK_EQ((asked_count(0) > 0) + (asked_count(1) > 0), 1);
    turn_until(&scene.end_count, 2);
    CHECK_EQ(asked_count(0), asked_count(1));
    CHECK(!scene.is_hasty);
    CHECK_EQ(scene.question_count, asked_count(0) + asked_count(1));
    scene_close();
}

TEST(only_backends_that_serve_a_model_are_asked_under_its_name_there)
{
    static const char *const models[] = {"llama"};
    scene_open("", (struct dialect_options){.models = models, .model_count = 1});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_often();
    CHECK_EQ(asked_count(0), 0); // it has not said yet what it serves
    fleet_set_models(scene.fleet, scene.backends[0],
                     &(struct fleet_model){.name = "qwen", .document = "{}"}, 1);
    turn_often();
    CHECK_EQ(asked_count(0), 0);
    fleet_set_models(scene.fleet, scene.backends[0],
                     (struct fleet_model[]){{.name = "qwen", .document = "{}"},
                                            {.name = "llama", .document = "{}"}},
                     2);
    turn_until(&scene.end_count, 1);
    CHECK(strstr(scene.engines[0].server.request, "{\"model\":\"llama\",") != NULL);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    scene_close();
}

TEST(it_can_be_destroyed_during_an_examination)
{
    scene_open(unlisted, (struct dialect_options){0});
    engine_open(&scene.engines[0], (struct dialect_options){0});
    add_backend(0);
    turn_until(&scene.case_count, 2);
    certifier_destroy(&scene.certifier);
    CHECK(scene.certifier == NULL);
    turn_often();
    CHECK_EQ(scene.end_count, 0);
    CHECK_EQ(scene.engines[0].server.open_count, 0);
    scene_close();
}

static struct config *config_with_ca(const char *ca)
{
    struct config *config = NULL;
    struct config_error error;
    char text[512];
    snprintf(text, sizeof(text),
             "backends: [https://localhost:1]\n%s\nbackend_tls: {ca: '%s', verify: true}\n",
             unlisted, file_in_dir(ca));
    ASSERT(config_parse(slice_str(text), "test", NULL, &config, &error) == STATUS_OK);
    return config;
}

TEST(over_tls_the_authority_is_the_one_of_the_configuration_in_force)
{
    char error[tls_error_size];
    make_certificates();
    struct tls_server_options identity = {.certificate = file_in_dir("leaf.pem"),
                                          .key = file_in_dir("key.pem")};
    struct config *stranger = config_with_ca("other_ca.pem");
    struct config *friend = config_with_ca("ca.pem");
    scene_open(unlisted, (struct dialect_options){0});
    certifier_set_config(scene.certifier, stranger);
    engine_open(&scene.engines[0], (struct dialect_options){0});
    CHECK_EQ(tls_server_create(&identity, &scene.engines[0].server.tls, error), STATUS_OK);
    scene.backends[0] =
        fleet_add(scene.fleet, &(struct fleet_spec){.url = "https://a",
                                                    .host = "localhost",
                                                    .port = scene.engines[0].server.port,
                                                    .tls = true,
                                                    .weight = 1,
                                                    .address = scene.engines[0].server.address});
    turn_until(&scene.end_count, 1);
    CHECK(strstr(scene.why, "certificate") != NULL);
    CHECK_EQ(certified(), 0);
    certifier_set_config(scene.certifier, friend);
    clock_push_ms(31000);
    turn_until(&scene.end_count, 2);
    CHECK((certified() & CHAT_PLAIN_SHAPE) != 0);
    certifier_destroy(&scene.certifier);
    turn_often();
    tls_context_destroy(&scene.engines[0].server.tls);
    scene_close();
    config_destroy(&stranger);
    config_destroy(&friend);
}
