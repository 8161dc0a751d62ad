// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_api.h"

#include "admin/api_scene.h"
#include "dialect/tiny_dialect.h"
#include "proxy/rig.h"
#include "test.h"
#include "worker/recorder.h"

TEST(health_says_that_the_process_answers)
{
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "GET", "/health", ""), 200);
    CHECK_STR(text_at(answer.json, "status"), "ok");
    CHECK_EQ(cJSON_GetArraySize(answer.json), 1);
    close_all(&scene);
}

TEST(status_is_the_router_at_a_glance)
{
    static const char *const zeros[] = {"in_flight", "connections", "requests", "retries",
                                        "problems",  "body_memory", "buffers"};
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "GET", "/status", ""), 200);
    CHECK_STR(text_at(answer.json, "version"), WARMPATH_VERSION);
    CHECK_EQ(number_at(answer.json, "uptime_s"), 61);
    CHECK_EQ(number_at(answer.json, "backends"), 2);
    CHECK_EQ(number_at(answer.json, "usable_backends"), 2);
    for (size_t i = 0; i < ARRAY_COUNT(zeros); i++) {
        CHECK_EQ(number_at(answer.json, zeros[i]), 0);
    }
    const cJSON *prefix = cJSON_GetObjectItem(answer.json, "prefix");
    CHECK_EQ(cJSON_GetArraySize(prefix), 5);
    CHECK_EQ(number_at(prefix, "letters_lost"), 0);
    CHECK_EQ(cJSON_GetArraySize(answer.json), 5 + (int)ARRAY_COUNT(zeros));
    backend_set_probe(fleet_at(scene.fleet, 1), BACKEND_PROBE_DOWN, loop_now_ms(scene.loop));
    CHECK_EQ(call(&scene, "GET", "/status", ""), 200);
    CHECK_EQ(number_at(answer.json, "usable_backends"), 1);
    scene.options.recorded = &(struct recorder_totals){.recorded = 12, .dropped = 3};
    CHECK_EQ(call(&scene, "GET", "/status", ""), 200);
    const cJSON *record = cJSON_GetObjectItem(answer.json, "record");
    CHECK_EQ(number_at(record, "requests"), 12);
    CHECK_EQ(number_at(record, "dropped"), 3);
    close_all(&scene);
}

// Each one, with what it is exact for and what became of its requests.
TEST(tokenizers_are_part_of_the_status)
{
    static struct rig rig;
    struct tiny_set tiny;
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "GET", "/status", ""), 200);
    CHECK(cJSON_GetObjectItem(answer.json, "tokenizers") == NULL);

    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){.name = "/models/\"tiny\""}));
    struct dialect *dialect = tiny.set.dialects[0];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "", .dialects = &tiny.set}));
    scene.options.proxy = &rig.proxy;
    atomic_store(&dialect->shared.certified,
                 CHAT_PLAIN_SHAPE | CHAT_SYSTEM_SHAPE | CHAT_TOOLS_SHAPE);
    atomic_store(&dialect->shared.revoked, CHAT_TOOLS_SHAPE);
    atomic_store(&dialect->shared.by_ids_count, 11);
    atomic_store(&dialect->shared.by_text_count, 12);
    atomic_store(&dialect->shared.confirmed_count, 13);
    atomic_store(&dialect->shared.drift_count, 14);
    atomic_store(&dialect->shared.text_bytes, 15);
    atomic_store(&dialect->shared.known_bytes, 16);
    CHECK_EQ(call(&scene, "GET", "/status", ""), 200);
    const cJSON *list = cJSON_GetObjectItem(answer.json, "tokenizers");
    CHECK_EQ(cJSON_GetArraySize(list), 1);
    const cJSON *one = cJSON_GetArrayItem(list, 0);
    CHECK_STR(text_at(one, "path"), "/models/\"tiny\"");
    CHECK_STR(text_at(one, "certified_for"), "plain,system");
    CHECK_STR(text_at(one, "revoked"), "tools");
    CHECK_EQ(number_at(one, "token_id_requests"), 11);
    CHECK_EQ(number_at(one, "text_requests"), 12);
    CHECK_EQ(number_at(one, "confirmed"), 13);
    CHECK_EQ(number_at(one, "drifted"), 14);
    CHECK_EQ(number_at(one, "bytes"), 15);
    CHECK_EQ(number_at(one, "remembered_bytes"), 16);
    CHECK_STR(text_at(one, "chat_template"), "ok");
    CHECK(rig_stop(&rig));
    tiny_set_close(&tiny);
    close_all(&scene);
}

TEST(an_unknown_path_is_404)
{
    static const char *const paths[] = {"/",
                                        "/Status",
                                        "/statusx",
                                        "/backends/",
                                        "/backends/1/",
                                        "/backends/1/stop",
                                        "//backends",
                                        "/backends/1//drain",
                                        "/backends/drain",
                                        "/backends//drain",
                                        "/metrics/",
                                        "*",
                                        ""};
    static const char *const ids[] = {"/backends/0",  "/backends/999",
                                      "/backends/-1", "/backends/+1",
                                      "/backends/1x", "/backends/18446744073709551617"};
    struct scene scene;
    scene_open(&scene, two);
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        CHECK_EQ(call(&scene, "GET", paths[i], ""), 404);
    }
    CHECK_EQ(call(&scene, "GET", "/nothing", ""), 404);
    CHECK_STR(answer.message, "There is nothing at this path");
    for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
        CHECK_EQ(call(&scene, "GET", ids[i], ""), 404);
        CHECK_STR(answer.message, "There is nothing at this path: no backend has that id");
    }
    CHECK_EQ(call(&scene, "POST", "/backends/999/drain", ""), 404);
    CHECK_EQ(call(&scene, "DELETE", "/backends/999", ""), 404);
    CHECK_EQ(call(&scene, "PATCH", "/backends/999", "{\"weight\":2}"), 404);
    CHECK_EQ(scene.changed_count, 0);
    close_all(&scene);
}

static bool is_405(struct scene *scene, const char *method, const char *path)
{
    return call(scene, method, path, "{}") == 405 &&
           strcmp(answer.message, "This path does not know the method") == 0;
}

TEST(a_method_that_a_path_does_not_know_is_405)
{
    static const struct {
        const char *path;
        const char *known; // methods
    } paths[] = {
        {"/health", "GET"},
        {"/status", "GET"},
        {"/backends", "GET POST DELETE"},
        {"/backends/1", "GET PATCH DELETE"},
        {"/backends/1/drain", "POST"},
        {"/backends/1/ready", "POST"},
        {"/overview", "GET"},
        {"/stream", "GET"},
        {"/decisions", "GET"},
        {"/decisions/x", "GET"},
        {"/explain", "GET POST"},
    };
    static const char *const methods[] = {"GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "get"};
    struct scene scene;
    scene_open(&scene, two);
    for (size_t i = 0; i < ARRAY_COUNT(paths) * ARRAY_COUNT(methods); i++) {
        const char *method = methods[i % ARRAY_COUNT(methods)];
        const char *known = paths[i / ARRAY_COUNT(methods)].known;
        const char *path = paths[i / ARRAY_COUNT(methods)].path;
        CHECK(strstr(known, method) != NULL || is_405(&scene, method, path));
    }
    CHECK_EQ(scene.changed_count, 0);
    close_all(&scene);
}

static enum status push_events(void *owner, uint64_t backend_id, struct slice json)
{
    struct scene *scene = owner;
    bool is_second = backend_id == fleet_at(scene->fleet, 1)->id;
    return is_second && json.size > 0 ? STATUS_OK : STATUS_EXHAUSTED;
}

TEST(events_are_taken_or_refused_with_the_place_that_is_wrong)
{
    static const char second[] =
        "{\"backend\":\"https://[2001:db8::1]\",\"events\":[{\"type\":\"cleared\"}]}";
    static const char path[] = "/v1/cache/events";
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "POST", path, second), 409);
    scene.options.push_events = push_events;
    CHECK_EQ(call(&scene, "POST", path, second), 202);
    CHECK_STR(text_at(answer.json, "status"), "accepted");
    CHECK_EQ(call(&scene, "POST", path, "{\"backend\":\"http://10.0.0.1:8000\",\"events\":[]}"),
             503);
    CHECK_EQ(call(&scene, "POST", path, "{\"backend\":\"http://x\",\"events\":[]}"), 404);
    CHECK_EQ(call(&scene, "POST", path,
                  "{\"backend\":\"http://10.0.0.1:8000\",\"events\":[{\"type\":\"removed\"}]}"),
             400);
    CHECK(strstr(answer.message, "events[0]: block_hashes is not a list") != NULL);
    CHECK_EQ(call(&scene, "GET", path, ""), 405);
    close_all(&scene);
}

TEST(the_overview_may_be_of_later_points_alone)
{
    static struct scribe scribe;
    struct scribe *there = &scribe;
    struct scene scene;
    scene_open(&scene, two);
    scene.options.scribe = &there;
    scribe.chronicle.points[0].wall_ms = 5000;
    scribe.chronicle.points[1].wall_ms = 10000;
    scribe.chronicle.point_count = 2;
    CHECK_EQ(call(&scene, "GET", "/overview", ""), 200);
    CHECK(strstr(answer.bytes, "\"time_ms\":[5000,10000]") != NULL);
    CHECK(strstr(answer.bytes, "\r\ncache-control: no-store\r\n") != NULL);
    CHECK_EQ(number_at(answer.json, "uptime_s"), 61);
    CHECK(number_at(answer.json, "now_ms") > 1600000000000);
    CHECK_EQ(call(&scene, "GET", "/overview?since=5000", ""), 200);
    CHECK(strstr(answer.bytes, "\"time_ms\":[10000]") != NULL);
    CHECK_EQ(call(&scene, "GET", "/overview?since=now", ""), 400);
    CHECK_STR(answer.message, "The query of the request target is not what this path takes: since "
                              "is a time in ms");
    close_all(&scene);
}

TEST(the_api_refuses_streams_which_belong_to_the_listener)
{
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "GET", "/stream", ""), 503);
    CHECK_STR(answer.message, "The router is at one of its limits: too many streams are open");
    struct admin_request request = {.method = slice_str("GET"), .path = slice_str("/stream")};
    CHECK(admin_api_is_stream(&request));
    request.method = slice_str("POST");
    CHECK(!admin_api_is_stream(&request));
    request.method = slice_str("GET");
    request.path = slice_str("/streams");
    CHECK(!admin_api_is_stream(&request));
    close_all(&scene);
}

TEST(an_explanation_is_asked_for_by_post_and_a_kept_one_by_id)
{
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "POST", "/explain", "{}"), 503); // the proxy has not started
    CHECK_EQ(call(&scene, "GET", "/explain", ""), 400);
    CHECK_EQ(call(&scene, "GET", "/explain?id=x", ""), 404);
    close_all(&scene);
}

// The row of a path in the documents.
static bool is_documented(const char *document, const struct admin_path *path)
{
    char row[512];
    char shown[128];
    struct text out = text_over(shown, sizeof(shown) - 1);
    for (const char *at = path->path; *at != '\0'; at++) {
        if (*at == '#' || *at == '*') {
            text_add_str(&out, *at == '#' ? "ID" : "REQUEST-ID");
        } else {
            text_add(&out, slice_of(at, 1));
        }
    }
    shown[out.size] = '\0';
    snprintf(row, sizeof(row), "\n| `%s %s` | %s |\n", path->method, shown, path->help);
    bool is_there = strstr(document, row) != NULL;
    if (!is_there) {
        printf("# missing:%s", row);
    }
    return is_there;
}

TEST(every_path_is_documented_in_its_own_words)
{
    static char document[1 << 20];
    FILE *file = fopen(SOURCE_ROOT "/docs/admin-api.md", "r");
    ASSERT(file != NULL);
    document[fread(document, 1, sizeof(document) - 1, file)] = '\0';
    fclose(file);
    uint32_t count = 0;
    for (const struct admin_path *path = admin_paths; path->path != NULL; path++) {
        CHECK(is_documented(document, path));
        count++;
    }
    CHECK(count > 15);
}
