// SPDX-License-Identifier: Apache-2.0

#include "admin/document/decision_json.h"

#include "admin/keeper_scene.h"
#include "admin/told_scribe.h"
#include "json/json_writer.h"
#include "test.h"

#include <cjson/cJSON.h>

static struct scene scene;
static struct chronicle chronicle;
static char bytes[65536];
static cJSON *json;

static void set_up(void)
{
    scene_open(&scene, "'http://10.0.0.1', 'http://10.0.0.2'");
    chronicle = (struct chronicle){0};
}

static void tear_down(void)
{
    cJSON_Delete(json);
    json = NULL;
    scene_close(&scene);
}

static void write_out(const struct chronicle_decision *decision)
{
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer writer = json_writer_over(&text);
    decision_json_put(decision, scene.fleet, &writer);
    ASSERT(!text.overflow);
    bytes[text.size] = '\0';
    cJSON_Delete(json);
    json = cJSON_Parse(bytes);
    ASSERT(cJSON_IsObject(json));
}

static const cJSON *at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    ASSERT(item != NULL);
    return item;
}

static bool is_number(const cJSON *object, const char *name, double number)
{
    return cJSON_IsNumber(at(object, name)) && at(object, name)->valuedouble == number;
}

static bool is_text(const cJSON *object, const char *name, const char *text)
{
    return cJSON_IsString(at(object, name)) && strcmp(at(object, name)->valuestring, text) == 0;
}

static struct receipt whole_receipt(void)
{
    return (struct receipt){
        .wall_us = 1700000000123456,
        .decision.chosen.backend = fleet_at(scene.fleet, 0)->id,
        .outcome = RECEIPT_OK,
        .status = 200,
        .decision.policy = &policy_warm,
        .attempts = 1,
        .is_streamed = true,
        .first_us = 12500,
        .last_us = 32500,
        .end_us = 33000,
        .stage_ns = {1500, 20000, 3000, 400, 50},
        .prompt_tokens = 978,
        .decision.chosen.expected_tokens = 960,
        .cached_tokens = 944,
        .output_tokens = 11,
        .has_cached_tokens = true,
        .decision.chosen.by_events = true,
        .saved_us = 28250,
        .decision.candidate_count = 3,
        .decision.chosen.running_requests = 2,
        .decision.chosen.queued_tokens = 100,
        .decision.chosen.wait_ms = 1.5F,
        .decision.chosen.prefill_ms = 2.5F,
        .decision.chosen.cost = 6.25F,
        .rival_count = 2,
    };
}

static struct receipt whole_receipt_alone(void)
{
    struct receipt receipt = whole_receipt();
    receipt.rival_count = 0;
    return receipt;
}

static const struct chronicle_decision *whole_decision(void)
{
    struct receipt receipt = whole_receipt();
    const struct decision_party rivals[] = {
        {.backend = fleet_at(scene.fleet, 1)->id,
         .expected_tokens = 16,
         .running_requests = 1,
         .queued_tokens = 7,
         .prefill_ms = 30,
         .cost = 31.5F},
        {.backend = 999, .prefill_ms = NAN, .cost = NAN},
    };
    struct chronicle_decision *decision =
        told_add(&chronicle, receipt,
                 (struct receipt_parts){.rivals = rivals,
                                        .id = slice_str("req-\"1\""),
                                        .model = slice_str("m"),
                                        .url = slice_str("http://10.0.0.1"),
                                        .path = slice_str("/v1/chat/completions")});
    decision->shadow_backend = fleet_at(scene.fleet, 1)->id;
    decision->shadow_cached_tokens = 16;
    decision->shadow_ttft_ms = 40.5F;
    return decision;
}

TEST(a_decision_says_what_was_asked_and_what_became_of_it)
{
    set_up();
    write_out(whole_decision());
    CHECK(is_number(json, "serial", 1));
    CHECK(is_text(json, "id", "req-\"1\""));
    CHECK(is_number(json, "time_ms", 1700000000123));
    CHECK(is_text(json, "model", "m"));
    CHECK(is_text(json, "path", "/v1/chat/completions"));
    CHECK(is_text(json, "policy", "warm"));
    CHECK(is_number(at(json, "backend"), "id", (double)fleet_at(scene.fleet, 0)->id));
    CHECK(is_text(at(json, "backend"), "url", "http://10.0.0.1"));
    CHECK(is_text(json, "outcome", "ok"));
    CHECK(is_number(json, "status", 200));
    CHECK(cJSON_IsNull(at(json, "problem")));
    CHECK(is_number(json, "attempts", 1));
    CHECK(cJSON_IsTrue(at(json, "streamed")));
    CHECK_EQ(cJSON_GetArraySize(json), 30);
    tear_down();
}

TEST(texts_of_clients_are_utf8_whatever_they_sent)
{
    set_up();
    write_out(told_add(&chronicle, whole_receipt_alone(),
                       (struct receipt_parts){.id = slice_str("caf\xe9"),
                                              .model = slice_str("gr\xc3\xbc\xc3"), // it was cut
                                              .path = slice_str("/v1/\xff")}));
    CHECK(is_text(json, "id", "caf?"));
    CHECK(is_text(json, "model", "gr\xc3\xbc?"));
    CHECK(is_text(json, "path", "/v1/?"));
    tear_down();
}

TEST(a_decision_has_its_numbers)
{
    static const struct {
        const char *name;
        double number;
    } numbers[] = {
        {"prompt_tokens", 978}, {"expected_tokens", 960}, {"cached_tokens", 944},
        {"output_tokens", 11},  {"candidates", 3},        {"running_requests", 2},
        {"queued_tokens", 100}, {"predicted_ms", 4},      {"cost", 6.25},
        {"ttft_ms", 12.5},      {"tpot_ms", 2},           {"total_ms", 33},
        {"saved_ms", 28.25},
    };
    set_up();
    write_out(whole_decision());
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        CHECK(is_number(json, numbers[i].name, numbers[i].number));
    }
    CHECK(cJSON_IsTrue(at(json, "by_events")));
    const cJSON *stages = at(json, "stages_us");
    CHECK(is_number(stages, "parse", 1.5));
    CHECK(is_number(stages, "tokenize", 20));
    CHECK(is_number(stages, "match", 3));
    CHECK(is_number(stages, "decide", 0.4));
    CHECK(is_number(stages, "queue", 0.05));
    CHECK_EQ(cJSON_GetArraySize(stages), 5);
    tear_down();
}

TEST(rivals_and_round_robin_are_named_as_long_as_the_fleet_has_them)
{
    set_up();
    write_out(whole_decision());
    const cJSON *rivals = at(json, "rivals");
    CHECK_EQ(cJSON_GetArraySize(rivals), 2);
    const cJSON *rival = cJSON_GetArrayItem(rivals, 0);
    CHECK(is_text(rival, "url", "http://10.0.0.2"));
    CHECK(is_number(rival, "expected_tokens", 16));
    CHECK(is_number(rival, "queued_tokens", 7));
    CHECK(is_number(rival, "running_requests", 1));
    CHECK(is_number(rival, "predicted_ms", 30));
    CHECK(is_number(rival, "cost", 31.5));
    rival = cJSON_GetArrayItem(rivals, 1);
    CHECK(is_number(rival, "id", 999));
    CHECK(cJSON_IsNull(at(rival, "url")));
    CHECK(cJSON_IsNull(at(rival, "predicted_ms")));
    CHECK(cJSON_IsNull(at(rival, "cost")));
    const cJSON *shadow = at(json, "round_robin");
    CHECK(is_text(at(shadow, "backend"), "url", "http://10.0.0.2"));
    CHECK(is_number(shadow, "cached_tokens", 16));
    CHECK(is_number(shadow, "ttft_ms", 40.5));
    CHECK(is_text(json, "why",
                  "warm chose http://10.0.0.1, which holds 960 of 978 prompt tokens and has 100 "
                  "tokens queued: first token in about 4 ms; the next best, http://10.0.0.2, holds "
                  "16 of them, has 7 tokens queued and would take about 30 ms."));
    tear_down();
}

TEST(unknown_values_are_null)
{
    static const char *const nulls[] = {"policy",       "backend",    "status",  "cached_tokens",
                                        "predicted_ms", "cost",       "ttft_ms", "tpot_ms",
                                        "total_ms",     "round_robin"};
    set_up();
    struct receipt receipt = {
        .outcome = RECEIPT_REFUSED, .problem = "no_backend", .decision.chosen.cost = NAN};
    write_out(told_add(&chronicle, receipt, (struct receipt_parts){0}));
    for (size_t i = 0; i < ARRAY_COUNT(nulls); i++) {
        CHECK(cJSON_IsNull(at(json, nulls[i])));
    }
    CHECK(is_text(json, "outcome", "refused"));
    CHECK(is_text(json, "problem", "no_backend"));
    CHECK(is_text(json, "id", ""));
    CHECK_EQ(cJSON_GetArraySize(at(json, "rivals")), 0);
    CHECK(is_text(json, "why", "No backend was chosen: the router responded no_backend."));
    tear_down();
}

TEST(a_policy_that_does_not_look_at_prompts_predicts_nothing)
{
    set_up();
    struct receipt receipt = whole_receipt();
    receipt.decision.policy = &policy_round_robin;
    receipt.rival_count = 0;
    receipt.decision.chosen.cost = NAN;
    write_out(
        told_add(&chronicle, receipt, (struct receipt_parts){.url = slice_str("http://10.0.0.1")}));
    CHECK(cJSON_IsNull(at(json, "predicted_ms")));
    CHECK(is_text(json, "why",
                  "round_robin chose http://10.0.0.1, one of 3 candidates, without a look at the "
                  "prompt; it was running 2 other requests."));
    tear_down();
}

TEST(the_longest_decision_fits_where_one_is_shown)
{
    set_up();
    struct receipt receipt = whole_receipt();
    struct decision_party rivals[decision_rival_max] = {0};
    char text[receipt_text_max];
    memset(text, '\1', sizeof(text)); // six characters each
    for (int i = 0; i < decision_rival_max; i++) {
        rivals[i].backend = fleet_at(scene.fleet, 1)->id;
    }
    receipt.rival_count = decision_rival_max;
    struct slice longest = slice_of(text, sizeof(text));
    write_out(told_add(
        &chronicle, receipt,
        (struct receipt_parts){
            .rivals = rivals, .id = longest, .model = longest, .url = longest, .path = longest}));
    CHECK(strlen(bytes) < 16384);
    tear_down();
}
