// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_document.h"

#include "test.h"

#include <math.h>

static struct top_overview overview;
static struct top_decisions decisions;
static struct top_decisions kept;
static struct top_history history;
static char page[4 << 20];

static enum status read_text(const char *text)
{
    return top_overview_read(slice_str(text), &overview);
}

static const char whole[] =
    "{\"version\":\"0.1.0\",\"now_ms\":20000,\"uptime_s\":7,\"policy\":\"warm\","
    "\"price\":{\"gpu_hour\":2.5,\"currency\":\"\\u20ac\"},"
    "\"totals\":{\"requests\":12,\"saved_s\":3.5,\"saved_money\":null},"
    "\"recent\":{\"hit_rate\":0.5,\"round_robin_hit_rate\":null,\"ttft_ms\":{\"p50\":10,\"p95\":20}"
    ","
    "\"round_robin_ttft_ms\":{\"p50\":30}},"
    "\"backends\":[{\"url\":\"http://a:1\",\"state\":\"up\",\"draining\":true,\"weight\":3,"
    "\"in_flight\":2,\"kv_usage\":null,\"models\":[\"m\"]},7,{\"url\":\"http://b:1\"}],"
    "\"series\":{\"step_s\":5,\"time_ms\":[5000,10000],\"hit_rate\":[0.25,null],"
    "\"ttft_p50_ms\":[1,2,3]},"
    "\"hottest\":[{\"prefix\":\"00ff\",\"tokens\":64,\"share\":0.5,\"holder_count\":2,"
    "\"holders\":[{\"id\":1,\"url\":\"http://a:1\"},{\"id\":2,\"url\":\"http://b:1\"}]}]}";

TEST(an_overview_is_read_with_its_lists)
{
    CHECK_EQ(read_text(whole), STATUS_OK);
    CHECK_STR(overview.version, "0.1.0");
    CHECK_STR(overview.policy, "warm");
    CHECK_STR(overview.currency, "€");
    CHECK(overview.uptime_s == 7 && overview.totals.requests == 12);
    CHECK(isnan(overview.totals.saved_money) && isnan(overview.totals.failures));
    CHECK(overview.recent.hit_rate == 0.5 && isnan(overview.recent.round_robin_hit_rate));
    CHECK(overview.recent.ttft.p95_ms == 20 && isnan(overview.recent.round_robin_ttft.p95_ms));
    CHECK_EQ(overview.backend_count, 2);
    CHECK_STR(overview.backends[0].url, "http://a:1");
    CHECK(overview.backends[0].is_draining && !overview.backends[1].is_draining);
    CHECK(overview.backends[0].figures[TOP_WEIGHT] == 3);
    CHECK(isnan(overview.backends[0].figures[TOP_KV_USAGE]));
    CHECK_STR(overview.backends[1].state, "");
    CHECK_EQ(overview.hot_count, 1);
    CHECK_EQ(overview.hot[0].shown_count, 2);
    CHECK_STR(overview.hot[0].holders[1], "http://b:1");
    CHECK_EQ(overview.series.count, 2);
    CHECK(overview.series.points[0].hit_rate == 0.25);
    CHECK(isnan(overview.series.points[1].hit_rate));
    CHECK(overview.series.points[1].ttft_p50_ms == 2);
    CHECK(isnan(overview.series.points[1].round_robin_hit_rate));
}

TEST(the_other_routers_of_a_cluster_are_read)
{
    CHECK_EQ(read_text("{\"backends\":[],\"cluster\":{\"up\":false,\"why\":\"no reply\",\"peers\":["
                       "{\"name\":\"h/1\",\"there\":true,\"heard_ms\":12,\"in_flight\":3,"
                       "\"complete\":false},7,{\"name\":null,\"address\":\"a:1\",\"there\":false,"
                       "\"why\":\"refused\",\"heard_ms\":null}]}}"),
             STATUS_OK);
    const struct top_cluster *cluster = &overview.cluster;
    CHECK(cluster->is_known && !cluster->is_up);
    CHECK_STR(cluster->why, "no reply");
    CHECK_EQ(cluster->router_count, 2);
    CHECK_STR(cluster->routers[0].name, "h/1");
    CHECK(cluster->routers[0].is_there && !cluster->routers[0].is_complete);
    CHECK(cluster->routers[0].heard_ms == 12 && cluster->routers[0].in_flight == 3);
    CHECK_STR(cluster->routers[1].name, "");
    CHECK_STR(cluster->routers[1].address, "a:1");
    CHECK_STR(cluster->routers[1].why, "refused");
    CHECK(!cluster->routers[1].is_there && cluster->routers[1].is_complete);
    CHECK(isnan(cluster->routers[1].in_flight));
    CHECK_EQ(read_text("{\"backends\":[]}"), STATUS_OK);
    CHECK(!cluster->is_known);
    CHECK_EQ(cluster->router_count, 0);
}

TEST(a_second_document_replaces_all_of_the_first)
{
    CHECK_EQ(read_text(whole), STATUS_OK);
    CHECK_EQ(read_text("{\"backends\":[{}]}"), STATUS_OK);
    CHECK_STR(overview.version, "");
    CHECK_EQ(overview.backend_count, 1);
    CHECK_STR(overview.backends[0].url, "");
    CHECK(isnan(overview.backends[0].figures[TOP_WEIGHT]) && !overview.backends[0].is_draining);
    CHECK_EQ(overview.hot_count, 0);
    CHECK_EQ(overview.series.count, 0);
    CHECK(isnan(overview.recent.hit_rate) && isnan(overview.recent.ttft.p50_ms));
}

TEST(another_document_than_an_overview_is_refused)
{
    static const char *const texts[] = {
        "", "{}", "[]", "{\"backends\":{}}", "{\"backends\":[}", "{\"backends\":[]} x"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        CHECK_EQ(read_text(texts[i]), STATUS_MALFORMED);
        CHECK_EQ(top_decisions_read(slice_str(texts[i]), &decisions), STATUS_MALFORMED);
    }
}

TEST(routers_beyond_the_limit_are_left_out)
{
    size_t size =
        (size_t)snprintf(page, sizeof(page), "{\"backends\":[],\"cluster\":{\"peers\":[{}");
    for (uint32_t i = 0; i < 40; i++) {
        size += (size_t)snprintf(page + size, sizeof(page) - size, ",{\"name\":\"%u\"}", i);
    }
    snprintf(page + size, sizeof(page) - size, "]}}");
    CHECK_EQ(read_text(page), STATUS_OK);
    CHECK_EQ(overview.cluster.router_count, top_router_max);
    CHECK_STR(overview.cluster.routers[top_router_max - 1].name, "29");
}

TEST(control_characters_are_replaced)
{
    CHECK_EQ(read_text("{\"policy\":\"a\\u001b[2Jb\\u0007\\u009b\\u007fc\",\"backends\":[{\"url\":"
                       "\"\\ud800\"}]}"),
             STATUS_OK);
    CHECK_STR(overview.policy, "a?[2Jb???c");
    CHECK_STR(overview.backends[0].url, "?");
}

TEST(texts_are_cut_between_characters)
{
    char out[8];
    top_text_copy(slice_str("漢字かな"), out, sizeof(out));
    CHECK_STR(out, "漢字");
    top_text_copy(slice_str("1234567890"), out, sizeof(out));
    CHECK_STR(out, "1234567");
    top_text_copy(slice_str("\xff"), out, sizeof(out));
    CHECK_STR(out, "?");
}

TEST(lists_beyond_their_limits_are_counted_and_left_out)
{
    size_t size = (size_t)snprintf(page, sizeof(page), "{\"backends\":[{}");
    for (uint32_t i = 0; i < 5000; i++) {
        size += (size_t)snprintf(page + size, sizeof(page) - size, ",{\"weight\":%u}", i);
    }
    size += (size_t)snprintf(page + size, sizeof(page) - size, "],\"series\":{\"time_ms\":[0");
    for (uint32_t i = 1; i < 2000; i++) {
        size += (size_t)snprintf(page + size, sizeof(page) - size, ",%u", i);
    }
    size += (size_t)snprintf(page + size, sizeof(page) - size, "]}}");
    CHECK_EQ(top_overview_read(slice_of(page, size), &overview), STATUS_OK);
    CHECK_EQ(overview.backend_count, top_backend_max);
    CHECK_EQ(overview.backend_total, 5001);
    CHECK_EQ(overview.series.count, top_point_max);
    CHECK(overview.series.points[0].time_ms == 2000 - top_point_max);
    CHECK(overview.series.points[top_point_max - 1].time_ms == 1999);
}

static void add_points(double now_ms, uint32_t first, uint32_t last)
{
    overview.now_ms = now_ms;
    overview.series.count = 0;
    for (uint32_t time = first; time <= last; time++) {
        overview.series.points[overview.series.count++] = (struct top_point){.time_ms = time};
    }
    top_history_join(&history, &overview);
}

TEST(points_are_joined_once_each_and_the_oldest_go)
{
    history.count = 0;
    add_points(1000, 1, 400);
    add_points(1000, 399, 402);
    CHECK_EQ(history.count, 402);
    add_points(1000, 403, 700);
    CHECK_EQ(history.count, top_point_max);
    CHECK(history.points[0].time_ms == 700 - top_point_max + 1);
    CHECK(history.points[top_point_max - 1].time_ms == 700);
    add_points(50, 49, 50);
    CHECK_EQ(history.count, 2);
}

static void add_decisions(uint32_t first, uint32_t last)
{
    decisions.serial = last;
    decisions.count = 0;
    for (uint32_t serial = last; serial >= first && serial > 0; serial--) {
        decisions.rows[decisions.count++] = (struct top_decision){.serial = serial};
    }
    top_decisions_join(&kept, &decisions);
}

TEST(decisions_are_joined_newest_first_and_the_oldest_go)
{
    kept.count = 0;
    kept.serial = 0;
    add_decisions(1, 60);
    add_decisions(58, 63);
    CHECK_EQ(kept.count, 63);
    CHECK(kept.rows[0].serial == 63 && kept.rows[62].serial == 1 && kept.serial == 63);
    add_decisions(64, 150);
    CHECK_EQ(kept.count, top_decision_max);
    CHECK(kept.rows[0].serial == 150 && kept.rows[99].serial == 51);
    add_decisions(151, 150);
    CHECK(kept.count == top_decision_max && kept.serial == 150);
}

TEST(a_request_that_has_ended_replaces_its_row_as_running)
{
    kept = (struct top_decisions){.serial = 3,
                                  .count = 3,
                                  .rows = {{.serial = 3, .id = "b", .outcome = "running"},
                                           {.serial = 2, .id = "a", .outcome = "running"},
                                           {.serial = 1, .id = "a", .outcome = "ok"}}};
    decisions = (struct top_decisions){
        .serial = 4, .count = 1, .rows = {{.serial = 4, .id = "a", .outcome = "ok"}}};
    top_decisions_join(&kept, &decisions);
    CHECK_EQ(kept.count, 3);
    CHECK(kept.rows[0].serial == 4 && kept.rows[1].serial == 3 && kept.rows[2].serial == 1);
}

TEST(a_restarted_router_is_asked_for_all_its_decisions)
{
    kept.count = 0;
    kept.serial = 0;
    add_decisions(1, 60);
    add_decisions(6, 5); // since 60 it has nothing to tell
    CHECK_EQ(kept.count, 0);
    CHECK(kept.serial == 0);
    add_decisions(1, 5);
    CHECK(kept.count == 5 && kept.serial == 5);
}

TEST(a_decision_is_read_with_its_sentence)
{
    CHECK_EQ(
        top_decisions_read(
            slice_str("{\"serial\":9,\"decisions\":[{\"serial\":9,\"time_ms\":5,\"model\":\"m\","
                      "\"backend\":{\"id\":1,\"url\":\"http://a:1\"},\"outcome\":\"ok\","
                      "\"status\":200,\"prompt_tokens\":20,\"cached_tokens\":null,"
                      "\"why\":\"It is \\\"idle\\\".\"},{\"backend\":null},3]}"),
            &decisions),
        STATUS_OK);
    CHECK_EQ(decisions.count, 2);
    CHECK(decisions.serial == 9 && decisions.rows[0].prompt_tokens == 20);
    CHECK_STR(decisions.rows[0].backend, "http://a:1");
    CHECK_STR(decisions.rows[0].why, "It is \"idle\".");
    CHECK(isnan(decisions.rows[0].cached_tokens));
    CHECK_STR(decisions.rows[1].backend, "");
}
