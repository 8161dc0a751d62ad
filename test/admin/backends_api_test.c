// SPDX-License-Identifier: Apache-2.0

#include "admin/backends_api.h"

#include "admin/api_scene.h"
#include "test.h"

static const struct refusal_rules refusal_times = {.eject_time_ms = 60000,
                                                   .eject_time_max_ms = 60000};

TEST(backends_are_listed_with_all_that_is_known)
{
    struct scene scene;
    bool on_trial;
    scene_open(&scene, two);
    struct backend *second = fleet_at(scene.fleet, 1);
    struct backend_rules rules = {0};
    CHECK(backend_begin(second, 0, false, &on_trial));
    backend_judge(second, BACKEND_FAULT, false, 0, &rules);
    struct load_request request = {.prompt_tokens = 500, .uncached_tokens = 300};
    load_begin(&second->load, &request, 0);
    atomic_store(&second->load.cache_tokens, 50000);
    uint64_t now_ms = loop_now_ms(scene.loop);
    refusals_note(&second->refusals, 7, false, now_ms, &refusal_times);
    refusals_eject(&second->refusals, 7, now_ms, &refusal_times);
    CHECK_EQ(call(&scene, "GET", "/backends", ""), 200);
    const cJSON *list = cJSON_GetObjectItem(answer.json, "backends");
    CHECK_EQ(cJSON_GetArraySize(list), 2);
    const cJSON *item = cJSON_GetArrayItem(list, 1);
    CHECK_EQ(number_at(item, "id"), (int64_t)second->id);
    CHECK_STR(text_at(item, "url"), "https://[2001:db8::1]");
    CHECK_STR(text_at(item, "address"), "[2001:db8::1]:443");
    CHECK_STR(text_at(item, "pool"), "other");
    CHECK_EQ(number_at(item, "weight"), 3);
    CHECK_STR(text_at(item, "state"), "up");
    CHECK_EQ(number_at(item, "in_flight"), 1);
    CHECK_EQ(number_at(item, "requests"), 1);
    CHECK_EQ(number_at(item, "failures"), 1);
    CHECK_EQ(number_at(item, "refused_kinds"), 1);
    const cJSON *models = cJSON_GetObjectItem(item, "models");
    CHECK_EQ(cJSON_GetArraySize(models), 2);
    CHECK_STR(cJSON_GetStringValue(cJSON_GetArrayItem(models, 1)), "n\"");
    const cJSON *load = cJSON_GetObjectItem(item, "load");
    CHECK_EQ(number_at(load, "queued_tokens"), 300);
    CHECK_EQ(number_at(load, "cache_tokens"), 50000);
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(load, "step_ms")));
    CHECK_EQ(cJSON_GetArraySize(load), 9);
    CHECK_EQ(cJSON_GetArraySize(item), 14);
    item = cJSON_GetArrayItem(list, 0);
    CHECK_STR(text_at(item, "address"), "10.0.0.1:8000");
    CHECK_STR(text_at(item, "pool"), "main");
    CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(item, "models")), 0);

    CHECK_EQ(call(&scene, "GET", path_of(&scene, 1, ""), ""), 200); // alone it looks the same
    CHECK_STR(text_at(answer.json, "url"), "https://[2001:db8::1]");
    CHECK_EQ(cJSON_GetArraySize(answer.json), 14);
    backend_end(second, on_trial);
    close_all(&scene);
}

TEST(every_backend_shows_its_record_of_truth_and_alone_its_histogram)
{
    struct scene scene;
    scene_open(&scene, two);
    truth_note(&fleet_at(scene.fleet, 1)->truth, TRUTH_BY_EVENTS, 512, 480,
               loop_now_ms(scene.loop));
    CHECK_EQ(call(&scene, "GET", "/backends", ""), 200);
    const cJSON *list = cJSON_GetObjectItem(answer.json, "backends");
    const cJSON *truth = cJSON_GetObjectItem(cJSON_GetArrayItem(list, 0), "truth");
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(truth, "by_events")));
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(truth, "believed")));
    truth = cJSON_GetObjectItem(cJSON_GetArrayItem(list, 1), "truth");
    const cJSON *by_events = cJSON_GetObjectItem(truth, "by_events");
    CHECK_EQ(number_at(cJSON_GetObjectItem(by_events, "recent"), "p50"), 32);
    CHECK_EQ(number_at(cJSON_GetObjectItem(by_events, "last"), "actual"), 480);
    CHECK(!cJSON_HasObjectItem(by_events, "histogram"));
    CHECK_EQ(call(&scene, "GET", path_of(&scene, 1, ""), ""), 200);
    by_events = cJSON_GetObjectItem(cJSON_GetObjectItem(answer.json, "truth"), "by_events");
    CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(by_events, "histogram")), 1);
    close_all(&scene);
}

TEST(an_empty_fleet_is_an_empty_list)
{
    struct scene scene;
    scene_open(&scene, "");
    CHECK_EQ(call(&scene, "GET", "/backends", ""), 200);
    CHECK(cJSON_IsArray(cJSON_GetObjectItem(answer.json, "backends")));
    CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(answer.json, "backends")), 0);
    close_all(&scene);
}

TEST(every_state_has_its_word)
{
    struct scene scene;
    struct backend_rules rules = {
        .eject_failures = 1, .eject_time_ms = 1000, .eject_time_max_ms = 1000};
    scene_open(&scene,
               "'http://10.0.0.1', 'http://10.0.0.2', 'http://10.0.0.3', 'http://10.0.0.4', "
               "'http://10.0.0.5'");
    uint64_t now_ms = loop_now_ms(scene.loop);
    static const char *const states[] = {"up", "down", "ejected", "half_open", "stalled"};
    backend_set_probe(fleet_at(scene.fleet, 1), BACKEND_PROBE_DOWN, now_ms);
    backend_judge(fleet_at(scene.fleet, 2), BACKEND_FAULT, false, now_ms, &rules);
    backend_judge(fleet_at(scene.fleet, 3), BACKEND_FAULT, false, now_ms - 2000, &rules);
    backend_set_stalled(fleet_at(scene.fleet, 4), 2000);
    backend_set_stalled(fleet_at(scene.fleet, 4), 2100);
    for (uint32_t i = 0; i < ARRAY_COUNT(states); i++) {
        CHECK_EQ(call(&scene, "GET", path_of(&scene, i, ""), ""), 200);
        CHECK_STR(text_at(answer.json, "state"), states[i]);
        CHECK_EQ(call(&scene, "POST", path_of(&scene, i, "/drain"), ""), 200);
        CHECK_STR(text_at(answer.json, "state"), "draining");
        CHECK_EQ(call(&scene, "POST", path_of(&scene, i, "/ready"), ""), 200);
        CHECK_STR(text_at(answer.json, "state"), states[i]);
    }
    close_all(&scene);
}

TEST(an_added_backend_is_in_the_next_view)
{
    struct scene scene;
    scene_open(&scene, "");
    CHECK_EQ(call(&scene, "POST", "/backends",
                  " {\"url\":\"http://10.0.0.7:8000\",\"weight\":256,\"pool\":\"other\","
                  "\"models\":[\"m\",\"n\"],\"api_key\":\"secret\"}\r\n "),
             201);
    CHECK_STR(text_at(answer.json, "url"), "http://10.0.0.7:8000");
    CHECK_STR(text_at(answer.json, "pool"), "other");
    CHECK_EQ(number_at(answer.json, "weight"), 256);
    CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(answer.json, "models")), 2);
    CHECK(strstr(answer.bytes, "secret") == NULL);
    CHECK(scene.changed_count > 0);

    const struct fleet_view *view = publish(&scene);
    CHECK_EQ(view->member_count, 1);
    CHECK_EQ(view->members[0].weight, 256);
    CHECK_EQ(view->members[0].backend->id, (uint64_t)number_at(answer.json, "id"));
    CHECK_STR(view->members[0].backend->authorization, "Bearer secret");
    const struct fleet_group *group = fleet_view_find(view, slice_str("n"));
    CHECK(group != NULL);
    CHECK_EQ(group->pool, 1);
    CHECK_EQ(group->count, 1);
    CHECK(fleet_view_find(view, slice_str("other")) == NULL);

    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":\"https://10.0.0.8\"}"), 201);
    CHECK_STR(text_at(answer.json, "address"), "10.0.0.8:443");
    CHECK_STR(text_at(answer.json, "pool"), "main");
    CHECK_EQ(number_at(answer.json, "weight"), 1);
    view = publish(&scene);
    CHECK_EQ(view->member_count, 2);
    CHECK(view->members[1].backend->tls);
    close_all(&scene);
}

TEST(an_added_backend_may_have_ranks_and_publish_events)
{
    struct scene scene;
    scene_open(&scene, "");
    CHECK_EQ(call(&scene, "POST", "/backends",
                  "{\"url\":\"http://10.0.0.7:8000\",\"ranks\":2,\"events\":\"tcp://*:5557\","
                  "\"events_replay\":\"tcp://*:5657\",\"events_topic\":\"kv\"}"),
             201);
    CHECK_STR(text_at(answer.json, "url"), "http://10.0.0.7:8000#rank=0");
    CHECK_EQ(number_at(answer.json, "rank"), 0);
    CHECK_EQ(number_at(answer.json, "ranks"), 2);
    const struct fleet_view *view = publish(&scene);
    CHECK_EQ(view->member_count, 2);
    const struct backend *second = view->members[1].backend;
    CHECK_EQ(second->rank, 1);
    CHECK_STR(second->events, "tcp://10.0.0.7:5558");
    CHECK_STR(second->events_replay, "tcp://10.0.0.7:5658");
    CHECK_STR(second->events_topic, "kv");
    CHECK_EQ(call(&scene, "DELETE", "/backends", "{\"url\":\"http://10.0.0.7:8000\"}"), 204);
    CHECK_EQ(publish(&scene)->member_count, 0);
    close_all(&scene);
}

static const char no_object[] = "it is not a JSON object";
static const char bad_weight[] = "weight must be a whole number from 1 to 256";

struct refusal {
    const char *body;
    const char *detail;
};

TEST(a_backend_that_makes_no_sense_is_refused_with_the_reason)
{
    struct scene scene;
    scene_open(&scene, "");
    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":7}"), 422);
    CHECK_STR(answer.message,
              "The request body is not what this path takes: url is missing or not a string");
    CHECK(fleet_at(scene.fleet, 0) == NULL);
    CHECK_EQ(scene.changed_count, 0);
    close_all(&scene);
}

TEST(more_models_than_a_configuration_may_name_are_refused)
{
    struct scene scene;
    char body[4096];
    scene_open(&scene, "");
    for (int count = 257; count >= 256; count--) {
        struct text text = text_over(body, sizeof(body) - 1);
        text_add_str(&text, "{\"url\":\"http://10.0.0.1\",\"models\":[");
        for (int i = 0; i < count; i++) {
            text_add_format(&text, "%s\"m%d\"", i > 0 ? "," : "", i);
        }
        text_add_str(&text, "]}");
        CHECK(!text.overflow);
        body[text.size] = '\0';
        CHECK_EQ(call(&scene, "POST", "/backends", body), count == 256 ? 201 : 422);
    }
    CHECK_STR(fleet_model_name(scene.fleet, fleet_at(scene.fleet, 0), 255), "m255");
    close_all(&scene);
}

TEST(a_backend_that_is_there_or_does_not_fit_is_a_conflict)
{
    struct scene scene;
    char body[64];
    scene_open(&scene, "'http://10.0.0.0'");
    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":\"http://10.0.0.0\"}"), 409);
    CHECK_STR(answer.message,
              "The request contradicts the present state: this url is in the fleet already");
    CHECK_EQ(scene.changed_count, 0);
    for (int i = 1; i <= backend_count_max; i++) {
        snprintf(body, sizeof(body), "{\"url\":\"http://10.0.0.%d\"}", i);
        CHECK_EQ(call(&scene, "POST", "/backends", body), i < backend_count_max ? 201 : 409);
    }
    CHECK_STR(answer.message,
              "The request contradicts the present state: limits.backends is reached");
    close_all(&scene);
}

TEST(a_name_is_taken_before_it_is_resolved)
{
    struct scene scene;
    scene_open(&scene, "");
    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":\"http://engines.invalid:8000\"}"), 201);
    CHECK_STR(text_at(answer.json, "status"), "ok");
    CHECK(!roster_has_resolved_all(scene.roster));
    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":\"http://engines.invalid:8000\"}"), 409);
    close_all(&scene);
}

TEST(a_weight_can_be_changed_and_nothing_else)
{
    static const struct refusal refusals[] = {
        {"", no_object},
        {"7", no_object},
        {"{\"weight\":2}x", no_object},
        {"{}", "only weight can be changed"},
        {"{\"pool\":\"other\"}", "only weight can be changed"},
        {"{\"weight\":2,\"pool\":\"other\"}", "only weight can be changed"},
        {"{\"Weight\":2}", "only weight can be changed"},
        {"{\"weight\":0}", bad_weight},
        {"{\"weight\":null}", bad_weight},
        {"{\"weight\":300}", bad_weight},
    };
    struct scene scene;
    char expected[512];
    scene_open(&scene, two);
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        CHECK_EQ(call(&scene, "PATCH", path_of(&scene, 1, ""), refusals[i].body), 422);
        snprintf(expected, sizeof(expected), "The request body is not what this path takes: %s",
                 refusals[i].detail);
        CHECK_STR(answer.message, expected);
    }
    CHECK_EQ(scene.changed_count, 0);
    CHECK_EQ(call(&scene, "PATCH", path_of(&scene, 1, ""), "{\"weight\":17}"), 200);
    CHECK_EQ(number_at(answer.json, "weight"), 17);
    CHECK_STR(text_at(answer.json, "url"), "https://[2001:db8::1]");
    CHECK_EQ(scene.changed_count, 1);
    const struct fleet_view *view = publish(&scene);
    CHECK_EQ(view->members[0].weight, 1);
    CHECK_EQ(view->members[1].weight, 17);
    close_all(&scene);
}

TEST(a_removed_backend_is_in_no_later_view)
{
    struct scene scene;
    scene_open(&scene, two);
    uint64_t stays = fleet_at(scene.fleet, 1)->id;
    char path[64];
    snprintf(path, sizeof(path), "%s", path_of(&scene, 0, ""));
    CHECK_EQ(call(&scene, "DELETE", path, ""), 204);
    CHECK(scene.changed_count > 0);
    const struct fleet_view *view = publish(&scene);
    CHECK_EQ(view->member_count, 1);
    CHECK_EQ(view->members[0].backend->id, stays);
    CHECK_EQ(call(&scene, "DELETE", path, ""), 404);
    CHECK_EQ(call(&scene, "GET", path, ""), 404);
    close_all(&scene);
}

// The hosts file knows this one on every machine.
TEST(a_backend_behind_a_name_cannot_be_removed)
{
    struct scene scene;
    scene_open(&scene, "'http://localhost:8000'");
    for (int i = 0; i < 400 && !roster_has_resolved_all(scene.roster); i++) {
        loop_turn(scene.loop, 5);
    }
    CHECK(fleet_at(scene.fleet, 0) != NULL);
    uint32_t changed_count = scene.changed_count;
    CHECK_EQ(call(&scene, "DELETE", path_of(&scene, 0, ""), ""), 409);
    CHECK_STR(answer.message, "The request contradicts the present state: it belongs to a DNS "
                              "name of the configuration; drain it, or remove the record");
    CHECK_EQ(scene.changed_count, changed_count);
    CHECK_EQ(call(&scene, "POST", path_of(&scene, 0, "/drain"), ""), 200);
    close_all(&scene);
}

TEST(a_url_can_be_removed_resolved_or_not)
{
    static const struct {
        const char *body;
        int status;
        const char *message;
    } steps[] = {
        {"", 422, "The request body is not what this path takes: it is not a JSON object"},
        {"{}", 422,
         "The request body is not what this path takes: it takes a url and nothing else"},
        {"{\"url\":7}", 422,
         "The request body is not what this path takes: it takes a url and nothing else"},
        {"{\"url\":\"http://engines.invalid\",\"id\":1}", 422,
         "The request body is not what this path takes: it takes a url and nothing else"},
        {"{\"url\":\"http://other.invalid\"}", 404,
         "There is nothing at this path: no backend has that url"},
        {"{\"url\":\"http://configured.invalid\"}", 409,
         "The request contradicts the present state: it is a DNS name of the configuration"},
        {"{\"url\":\"http://engines.invalid\"}", 204, ""},
        {"{\"url\":\"http://engines.invalid\"}", 404,
         "There is nothing at this path: no backend has that url"},
        {"{\"url\":\"http://10.0.0.1\"}", 204, ""},
    };
    struct scene scene;
    scene_open(&scene, "'http://configured.invalid', 'http://10.0.0.1'");
    CHECK_EQ(call(&scene, "POST", "/backends", "{\"url\":\"http://engines.invalid\"}"), 201);
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        uint32_t changed_count = scene.changed_count;
        CHECK_EQ(call(&scene, "DELETE", "/backends", steps[i].body), steps[i].status);
        CHECK_STR(answer.message, steps[i].message);
        CHECK_EQ(scene.changed_count > changed_count, steps[i].status == 204);
    }
    CHECK(fleet_at(scene.fleet, 0) == NULL);
    close_all(&scene);
}

TEST(names_that_do_not_resolve_fill_the_fleet_as_backends_do)
{
    struct scene scene;
    char body[64];
    scene_open(&scene, "");
    for (int i = 0; i <= backend_count_max; i++) {
        snprintf(body, sizeof(body), "{\"url\":\"http://e%d.invalid\"}", i);
        CHECK_EQ(call(&scene, "POST", "/backends", body), i < backend_count_max ? 201 : 409);
    }
    CHECK_STR(answer.message,
              "The request contradicts the present state: limits.backends is reached");
    close_all(&scene);
}

TEST(a_key_of_4096_characters_is_taken_and_a_longer_one_is_not)
{
    struct scene scene;
    static char body[8192];
    scene_open(&scene, "");
    for (int size = 4097; size >= 4096; size--) {
        struct text text = text_over(body, sizeof(body) - 1);
        text_add_str(&text, "{\"url\":\"http://10.0.0.1\",\"api_key\":\"");
        for (int i = 0; i < size; i++) {
            text_add_str(&text, "k");
        }
        text_add_str(&text, "\"}");
        body[text.size] = '\0';
        CHECK_EQ(call(&scene, "POST", "/backends", body), size == 4096 ? 201 : 422);
    }
    close_all(&scene);
}

TEST(draining_is_in_the_next_view_until_it_ends)
{
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call(&scene, "POST", path_of(&scene, 1, "/drain"), ""), 200);
    CHECK_STR(text_at(answer.json, "url"), "https://[2001:db8::1]");
    CHECK_EQ(scene.changed_count, 1);
    const struct fleet_view *view = publish(&scene);
    CHECK(!view->members[0].draining && view->members[1].draining);
    CHECK_EQ(call(&scene, "POST", path_of(&scene, 1, "/ready"), "ignored"), 200);
    CHECK_EQ(scene.changed_count, 2);
    view = publish(&scene);
    CHECK(!view->members[0].draining && !view->members[1].draining);
    close_all(&scene);
}

TEST(a_list_that_does_not_fit_is_an_error_and_not_half_a_list)
{
    struct scene scene;
    scene_open(&scene, two);
    CHECK_EQ(call_with(&scene, "GET", "/backends", "", 900), 500);
    CHECK_STR(answer.message, "The router could not finish this request: the document is too long "
                              "for one response");
    CHECK_EQ(call_with(&scene, "GET", path_of(&scene, 0, ""), "", 900), 200);
    close_all(&scene);
}
