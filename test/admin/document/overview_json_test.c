// SPDX-License-Identifier: Apache-2.0

#include "admin/document/overview_json.h"

#include "admin/keeper_scene.h"
#include "admin/told_scribe.h"
#include "json/json_writer.h"
#include "test.h"

#include <cjson/cJSON.h>

static struct scene scene;
static struct scribe scribe;
static struct scribe *there;
static char bytes[1 << 20];
static cJSON *json;
static uint64_t last_ms;

static void set_up(void)
{
    scene_open(&scene, "'http://10.0.0.1', {url: 'http://10.0.0.2', pool: other, weight: 3, "
                       "models: [m, n]}");
    scribe = (struct scribe){
        .chronicle = {.recent.ttft_ms = {NAN, NAN, NAN}, .recent.shadow_ttft_ms = {NAN, NAN, NAN}}};
    there = &scribe;
    scene.options.scribe = &there;
}

static void tear_down(void)
{
    cJSON_Delete(json);
    json = NULL;
    scene_close(&scene);
}

static void write_since(uint64_t since_ms)
{
    struct overview_request request = {.now_ms = loop_now_ms(scene.loop),
                                       .uptime_ms = 90500,
                                       .wall_ms = 1700000000123,
                                       .since_ms = since_ms};
    struct text text = text_over(bytes, sizeof(bytes) - 1);
    struct json_writer writer = json_writer_over(&text);
    ASSERT(overview_json_put(&scene.options, &request, &last_ms, &writer));
    ASSERT(!text.overflow);
    CHECK(!scribe.is_locked);
    bytes[text.size] = '\0';
    cJSON_Delete(json);
    json = cJSON_Parse(bytes);
    ASSERT(cJSON_IsObject(json));
}

static void write_out(void)
{
    write_since(0);
}

static const cJSON *at(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (item == NULL) {
        printf("# no %s\n", name);
    }
    ASSERT(item != NULL);
    return item;
}

static bool is_number(const cJSON *object, const char *name, double number)
{
    const cJSON *item = at(object, name);
    return cJSON_IsNumber(item) && fabs(item->valuedouble - number) <= 1e-5 * fabs(number);
}

static bool is_text(const cJSON *object, const char *name, const char *text)
{
    return cJSON_IsString(at(object, name)) && strcmp(at(object, name)->valuestring, text) == 0;
}

TEST(it_begins_with_who_we_are)
{
    set_up();
    write_out();
    CHECK(is_text(json, "version", WARMPATH_VERSION));
    CHECK(is_number(json, "now_ms", 1700000000123));
    CHECK(is_number(json, "uptime_s", 90));
    CHECK(is_text(json, "policy", "warm"));
    CHECK_EQ(cJSON_GetArraySize(json), 10);
    scene.config->pools[1].policy = "round_robin";
    write_out();
    CHECK(is_text(json, "policy", "warm, round_robin"));
    tear_down();
}

static bool are_null(const cJSON *object, const char *const *names, size_t count)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        all = all && cJSON_IsNull(at(object, names[i]));
    }
    return all;
}

static bool has_fleet_alone(void)
{
    static const char *const totals[] = {"failures",
                                         "prompt_tokens",
                                         "cached_tokens",
                                         "told_prompt_tokens",
                                         "output_tokens",
                                         "saved_s",
                                         "round_robin_saved_s",
                                         "saved_money",
                                         "lost_receipts",
                                         "over_round_robin_money"};
    static const char *const recent[] = {
        "requests_per_s",      "failures_per_s", "output_tokens_per_s",
        "prompt_tokens_per_s", "hit_rate",       "round_robin_hit_rate"};
    write_out();
    return are_null(at(json, "totals"), totals, ARRAY_COUNT(totals)) &&
           are_null(at(json, "recent"), recent, ARRAY_COUNT(recent)) &&
           cJSON_IsNull(at(at(at(json, "recent"), "ttft_ms"), "p50")) &&
           cJSON_GetArraySize(at(json, "backends")) == 2 &&
           cJSON_GetArraySize(at(at(json, "series"), "time_ms")) == 0 &&
           cJSON_GetArraySize(at(json, "hottest")) == 0 &&
           is_number(at(json, "totals"), "requests", 0);
}

TEST(without_a_scribe_the_fleet_is_shown_and_the_rest_is_not_known)
{
    set_up();
    scene.options.scribe = NULL;
    CHECK(has_fleet_alone());
    there = NULL;
    scene.options.scribe = &there;
    CHECK(has_fleet_alone());
    tear_down();
}

TEST(saved_time_is_money_where_there_is_a_price)
{
    set_up();
    scribe.chronicle.total =
        (struct chronicle_figures){.saved_s = 7200, .shadow_saved_s = 1800, .failures = 4};
    scribe.totals.lost = 3;
    write_out();
    CHECK(cJSON_IsNull(at(at(json, "price"), "gpu_hour")));
    CHECK(is_text(at(json, "price"), "currency", "$"));
    CHECK(is_number(at(json, "totals"), "saved_s", 7200));
    CHECK(is_number(at(json, "totals"), "round_robin_saved_s", 1800));
    CHECK(cJSON_IsNull(at(at(json, "totals"), "saved_money")));
    CHECK(is_number(at(json, "totals"), "failures", 4));
    CHECK(is_number(at(json, "totals"), "lost_receipts", 3));
    scene.config->savings.gpu_hour_cents = 250;
    scene.config->savings.gpus = 8;
    write_out();
    CHECK(is_number(at(json, "price"), "gpu_hour", 2.5));
    CHECK(is_number(at(json, "price"), "gpus", 8));
    CHECK(is_number(at(json, "totals"), "saved_money", 40));
    CHECK(is_number(at(json, "totals"), "over_round_robin_money", 30));
    tear_down();
}

TEST(the_last_minute_is_told_by_the_second)
{
    set_up();
    scribe.chronicle.recent = (struct chronicle_figures){
        .span_s = 60,
        .requests = 120,
        .failures = 6,
        .prompt_tokens = 60000,
        .output_tokens = 1200,
        .told_prompt_tokens = 50000,
        .cached_tokens = 40000,
        .shadow_cached_tokens = 12500,
        .ttft_ms = {10, 20.5, NAN},
        .shadow_ttft_ms = {30, 40, 50},
    };
    write_out();
    const cJSON *recent = at(json, "recent");
    CHECK(is_number(recent, "window_s", 60));
    CHECK(is_number(recent, "requests_per_s", 2));
    CHECK(is_number(recent, "failures_per_s", 0.1));
    CHECK(is_number(recent, "prompt_tokens_per_s", 1000));
    CHECK(is_number(recent, "output_tokens_per_s", 20));
    CHECK(is_number(recent, "hit_rate", 0.8));
    CHECK(is_number(recent, "round_robin_hit_rate", 0.25));
    CHECK(is_number(at(recent, "ttft_ms"), "p95", 20.5));
    CHECK(cJSON_IsNull(at(at(recent, "ttft_ms"), "p99")));
    CHECK(is_number(at(recent, "round_robin_ttft_ms"), "p99", 50));
    // A router that has just started has seen less than a minute, or no time at all.
    scribe.chronicle.recent.span_s = 10;
    write_out();
    CHECK(is_number(at(json, "recent"), "window_s", 10));
    CHECK(is_number(at(json, "recent"), "requests_per_s", 12));
    scribe.chronicle.recent.span_s = 0;
    write_out();
    CHECK(cJSON_IsNull(at(at(json, "recent"), "requests_per_s")));
    tear_down();
}

TEST(each_backend_shows_its_state_and_how_it_did_lately)
{
    set_up();
    struct backend *second = fleet_at(scene.fleet, 1);
    scribe.chronicle.backend = second->id;
    scribe.chronicle.lately = (struct chronicle_figures){.span_s = 60,
                                                         .requests = 30,
                                                         .told_prompt_tokens = 100,
                                                         .cached_tokens = 90,
                                                         .ttft_ms = {5, 9, 10}};
    atomic_store(&second->shared.request_count, 11);
    atomic_store(&second->shared.failure_count, 2);
    struct load_request request = {.prompt_tokens = 500, .uncached_tokens = 300};
    load_begin(&second->load, &request, 0);
    load_report(&second->load,
                &(struct load_report){.running = -1, .waiting = -1, .kv_usage = 0.5F},
                loop_now_ms(scene.loop));
    atomic_store(&second->load.prefill_ms, 0.25F);
    atomic_store(&second->load.prefill_samples, 1);
    write_out();
    CHECK(is_number(at(json, "totals"), "queued_tokens", 300));
    const cJSON *item = cJSON_GetArrayItem(at(json, "backends"), 1);
    CHECK(is_number(item, "id", (double)second->id));
    CHECK(is_text(item, "url", "http://10.0.0.2"));
    CHECK(is_text(item, "pool", "other"));
    CHECK(is_text(item, "state", "up"));
    CHECK(is_text(item, "events", "none"));
    CHECK(is_number(item, "weight", 3));
    CHECK(is_number(item, "requests", 11));
    CHECK(is_number(item, "failures", 2));
    CHECK(is_number(item, "queued_tokens", 300));
    CHECK(is_number(item, "requests_per_s", 0.5));
    CHECK(is_number(item, "hit_rate", 0.9));
    CHECK(is_number(item, "ttft_p50_ms", 5));
    CHECK(is_number(item, "ttft_p95_ms", 9));
    CHECK(is_number(item, "kv_usage", 0.5));
    CHECK(is_number(item, "prefill_tokens_per_s", 4000));
    CHECK_EQ(cJSON_GetArraySize(at(item, "models")), 2);
    CHECK(is_number(item, "refused_kinds", 0));
    CHECK_EQ(cJSON_GetArraySize(item), 19);
    tear_down();
}

TEST(a_backend_of_which_nothing_is_known_says_so)
{
    static const char *const nulls[] = {"hit_rate", "ttft_p50_ms", "ttft_p95_ms", "kv_usage",
                                        "prefill_tokens_per_s"};
    set_up();
    fleet_set_draining(scene.fleet, fleet_at(scene.fleet, 0), true);
    write_out();
    const cJSON *item = cJSON_GetArrayItem(at(json, "backends"), 0);
    for (size_t i = 0; i < ARRAY_COUNT(nulls); i++) {
        CHECK(cJSON_IsNull(at(item, nulls[i])));
    }
    CHECK(is_number(item, "requests_per_s", 0));
    CHECK(is_text(item, "state", "draining"));
    CHECK(cJSON_IsTrue(at(item, "draining")));
    tear_down();
}

static double series_at(const char *name, int i)
{
    const cJSON *item = cJSON_GetArrayItem(at(at(json, "series"), name), i);
    ASSERT(item != NULL);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

TEST(the_line_of_time_has_a_number_or_null_for_each_point)
{
    set_up();
    scribe.chronicle.points[0] = (struct chronicle_point){
        .wall_ms = 1700000000000,
        .figures = {.span_s = 5, .ttft_ms = {NAN, NAN, NAN}, .shadow_ttft_ms = {NAN, NAN, NAN}}};
    scribe.chronicle.points[1] = (struct chronicle_point){.wall_ms = 1700000005000,
                                                          .figures = {.span_s = 5,
                                                                      .requests = 10,
                                                                      .failures = 5,
                                                                      .told_prompt_tokens = 100,
                                                                      .cached_tokens = 75,
                                                                      .shadow_cached_tokens = 50,
                                                                      .ttft_ms = {1, 2, 3},
                                                                      .shadow_ttft_ms = {4, 5, 6},
                                                                      .saved_s = 1.5,
                                                                      .shadow_saved_s = 0.5}};
    scribe.chronicle.point_count = 2;
    write_out();
    CHECK_EQ(last_ms, 1700000005000);
    CHECK(is_number(at(json, "series"), "step_s", 5));
    CHECK(series_at("time_ms", 0) == 1700000000000);
    CHECK(series_at("hit_rate", 0) == -1);
    CHECK(series_at("ttft_p50_ms", 0) == -1);
    CHECK(series_at("requests_per_s", 0) == 0);
    CHECK(series_at("requests_per_s", 1) == 2);
    CHECK(series_at("failures_per_s", 1) == 1);
    CHECK(series_at("hit_rate", 1) == 0.75);
    CHECK(series_at("round_robin_hit_rate", 1) == 0.5);
    CHECK(series_at("ttft_p50_ms", 1) == 1);
    CHECK(series_at("ttft_p95_ms", 1) == 2);
    CHECK(series_at("round_robin_ttft_p50_ms", 1) == 4);
    CHECK(series_at("round_robin_ttft_p95_ms", 1) == 5);
    CHECK(series_at("saved_s", 1) == 1.5);
    CHECK(series_at("round_robin_saved_s", 1) == 0.5);
    CHECK_EQ(cJSON_GetArraySize(at(json, "series")), 12);
    write_since(1700000000000);
    CHECK(series_at("time_ms", 0) == 1700000005000);
    CHECK_EQ(cJSON_GetArraySize(at(at(json, "series"), "saved_s")), 1);
    write_since(1700000005000);
    CHECK_EQ(cJSON_GetArraySize(at(at(json, "series"), "time_ms")), 0);
    CHECK_EQ(last_ms, 1700000005000);
    tear_down();
}

TEST(the_hottest_prefixes_are_named_by_hash_with_those_who_hold_them)
{
    set_up();
    scribe.chronicle.prefixes[0] = (struct chronicle_prefix){
        .key = 0xabc,
        .tokens = 4096,
        .requests = 12.5,
        .share = 0.25,
        .holder_count = 20, // more than are listed, and one that is gone
        .holders = {fleet_at(scene.fleet, 1)->id, 999},
    };
    scribe.chronicle.prefix_count = 1;
    write_out();
    const cJSON *prefix = cJSON_GetArrayItem(at(json, "hottest"), 0);
    CHECK(is_text(prefix, "prefix", "0000000000000abc"));
    CHECK(is_number(prefix, "tokens", 4096));
    CHECK(is_number(prefix, "requests", 12.5));
    CHECK(is_number(prefix, "share", 0.25));
    CHECK(is_number(prefix, "holder_count", 20));
    CHECK_EQ(cJSON_GetArraySize(at(prefix, "holders")), 1);
    CHECK(is_text(cJSON_GetArrayItem(at(prefix, "holders"), 0), "url", "http://10.0.0.2"));
    tear_down();
}
