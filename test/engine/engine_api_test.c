// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_rig.h"
#include "feed/engine_metrics.h"

static struct engine_rig rig;

static const char chat[] = "{\"model\":\"codellama-13b\",\"messages\":[{\"role\":\"user\","
                           "\"content\":\"Hello there, how do you do today?\"}],\"max_tokens\":9}";

TEST(paths_and_methods_that_are_not_known_are_refused)
{
    rig_open(&rig, 100);
    CHECK(rig_begins(rig_ask(&rig, "GET", "/nothing", ""), "HTTP/1.1 404 "));
    CHECK(rig_begins(rig_ask(&rig, "GET", "/v1/chat/completions", ""), "HTTP/1.1 405 "));
    CHECK(rig_begins(rig_ask(&rig, "POST", "/health", "{}"), "HTTP/1.1 405 "));
    CHECK(rig_begins(rig_ask(&rig, "GET", "/health?x=1", ""), "HTTP/1.1 200 "));
    CHECK(rig_has(rig_ask(&rig, "GET", "/version", ""), "{\"version\":\""));
    rig_close(&rig);
}

TEST(models_are_listed)
{
    rig_open(&rig, 100);
    const char *list = rig_ask(&rig, "GET", "/v1/models", "");
    CHECK(rig_has(list, "\"id\":\"codellama-13b\""));
    CHECK(rig_has(list, "\"id\":\"lora\"") && rig_has(list, "\"parent\":\"codellama-13b\""));
    rig_close(&rig);
}

TEST(chats_and_completions_get_responses)
{
    rig_open(&rig, 100);
    const char *said = rig_ask(&rig, "POST", "/v1/chat/completions", chat);
    CHECK(rig_begins(said, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"));
    CHECK_EQ(rig_number(said, "\"prompt_tokens\":"), 10);
    CHECK_EQ(rig_number(said, "\"completion_tokens\":"), 9);
    CHECK_EQ(rig_number(said, "\"total_tokens\":"), 19);
    CHECK(rig_has(said, "\"finish_reason\":\"length\""));
    said = rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":[1,2,3],\"model\":\"lora\"}");
    CHECK(rig_begins(said, "HTTP/1.1 200 "));
    CHECK_EQ(rig_number(said, "\"completion_tokens\":"), 4);
    CHECK(rig_has(said, "\"finish_reason\":\"stop\"") && rig_has(said, "\"model\":\"lora\""));
    CHECK(rig_begins(rig_ask(&rig, "POST", "/v1/completions", "{"), "HTTP/1.1 400 "));
    CHECK(rig_begins(rig_ask(&rig, "POST", "/v1/completions", "{\"prompt\":\"a\",\"model\":\"x\"}"),
                     "HTTP/1.1 404 "));
    rig_close(&rig);
}

TEST(metrics_count_the_work_and_the_scraper_reads_them)
{
    struct load_report report;
    rig_open(&rig, 100);
    (void)rig_ask(&rig, "POST", "/v1/chat/completions", chat);
    (void)rig_ask(&rig, "POST", "/v1/chat/completions", chat);
    const char *page = rig_ask(&rig, "GET", "/metrics", "");
    CHECK(rig_has(page, "\r\ncontent-type: text/plain"));
    CHECK_EQ(rig_number(page, "vllm:generation_tokens_total{engine=\"0\",model_name="
                              "\"codellama-13b\"} "),
             18);
    engine_metrics_read(slice_str(page), exposition_all_ranks, &report);
    CHECK_EQ(report.running, 0);
    CHECK_EQ(report.waiting, 0);
    CHECK_EQ(report.block_tokens, 16);
    CHECK_EQ(report.cache_tokens, 123120);
    rig_close(&rig);
}

static double cached_tokens(void)
{
    static char body[2048];
    static char filler[1601];
    memset(filler, 'f', sizeof(filler) - 1);
    snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", filler);
    return rig_number(rig_ask(&rig, "POST", "/v1/completions", body), "\"cached_tokens\":");
}

TEST(the_cache_can_be_emptied)
{
    rig_open(&rig, 100);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 384);
    CHECK(rig_begins(rig_ask(&rig, "POST", "/reset_prefix_cache", ""), "HTTP/1.1 200 "));
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 384);
    CHECK(rig_has(rig_ask(&rig, "POST", "/sim/faults", "{\"flush\":true}"), "\"slow\":1}"));
    CHECK_EQ(cached_tokens(), 0);
    rig_close(&rig);
}

TEST(requests_fail_as_often_as_ordered)
{
    uint32_t failed = 0;
    rig_open(&rig, 1000);
    CHECK(rig_has(rig_ask(&rig, "POST", "/sim/faults", "{\"error_rate\":0.5,\"error_status\":503}"),
                  "\"error_rate\":0.5,\"error_status\":503"));
    for (uint32_t i = 0; i < 60; i++) {
        failed += rig_begins(rig_ask(&rig, "POST", "/v1/chat/completions", chat), "HTTP/1.1 503 ");
    }
    CHECK(failed >= 15 && failed <= 45);
    CHECK(rig_has(rig_ask(&rig, "GET", "/sim/faults", ""), "\"error_rate\":0.5"));
    CHECK(rig_begins(rig_ask(&rig, "GET", "/health", ""), "HTTP/1.1 200 "));
    CHECK(rig_has(rig_ask(&rig, "DELETE", "/sim/faults", ""), "\"error_rate\":0,"));
    for (uint32_t i = 0; i < 20; i++) {
        CHECK(rig_begins(rig_ask(&rig, "POST", "/v1/chat/completions", chat), "HTTP/1.1 200 "));
    }
    CHECK(rig_begins(rig_ask(&rig, "POST", "/sim/faults", "{\"error_rate\":2}"), "HTTP/1.1 400 "));
    rig_close(&rig);
}

// Ms that one chat takes.
static double chat_ms(bool is_streamed)
{
    char body[512];
    double began_us = (double)loop_now_us(rig.group.loop);
    snprintf(body, sizeof(body), "{\"prompt\":\"abc\",\"max_tokens\":5,\"stream\":%s}",
             is_streamed ? "true" : "false");
    const char *said = rig_ask(&rig, "POST", "/v1/completions", body);
    ASSERT(rig_has(said, is_streamed ? "[DONE]" : "\"completion_tokens\":5"));
    return ((double)loop_now_us(rig.group.loop) - began_us) / 1000;
}

TEST(a_stall_delays_a_response_and_loses_no_token)
{
    rig_open(&rig, 100);
    loop_turn(rig.group.loop, 0);
    (void)rig_ask(&rig, "POST", "/sim/faults", "{\"stall_ms\":400}");
    // Timers know milliseconds.
    CHECK(chat_ms(true) > 398);
    CHECK(chat_ms(false) > 398);
    (void)rig_ask(&rig, "POST", "/sim/faults", "{\"stall_rate\":0}");
    CHECK(chat_ms(true) < 398);
    rig_close(&rig);
}

TEST(slow_engines_are_slow)
{
    rig_open(&rig, 10);
    loop_turn(rig.group.loop, 0);
    (void)rig_ask(&rig, "POST", "/sim/faults", "{\"slow\":100}");
    // 5 steps of at least 8.4 ms, a tenth of it for the speed, 100 times as long.
    CHECK(chat_ms(true) > 400);
    (void)rig_ask(&rig, "DELETE", "/sim/faults", "");
    CHECK(chat_ms(true) < 400);
    (void)rig_ask(&rig, "POST", "/sim/faults", "{\"freeze_ms\":500}");
    CHECK(chat_ms(true) > 400);
    rig_close(&rig);
}

TEST(orders_for_all_are_checked_and_passed_on)
{
    rig_open(&rig, 100);
    const char *said = rig_ask(&rig, "POST", "/sim/faults/all", "{\"slow\":7,\"flush\":true}");
    CHECK(rig_begins(said, "HTTP/1.1 200 ") && rig_has(said, "\"slow\":7}"));
    CHECK_EQ(rig.told, 1);
    CHECK_STR(rig.told_body, "{\"slow\":7,\"flush\":true}");
    // It is done when all are told, and not once more before.
    CHECK(rig_has(rig_ask(&rig, "GET", "/sim/faults", ""), "\"slow\":1}"));
    said = rig_ask(&rig, "POST", "/sim/faults/all", "{\"slow\":0}");
    CHECK(rig_begins(said, "HTTP/1.1 400 "));
    CHECK_EQ(rig.told, 1);
    said = rig_ask(&rig, "DELETE", "/sim/faults/all", "");
    CHECK(rig_has(said, "\"slow\":1}"));
    CHECK_EQ(rig.told, 2);
    CHECK(rig.told_clear);
    rig_close(&rig);
}

static const char ids[] = "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}";

static double cached_at(const char *rank)
{
    char line[64];
    snprintf(line, sizeof(line), "X-Data-Parallel-Rank: %s\r\n", rank);
    return rig_number(rig_ask_with(&rig, "POST", "/v1/completions", line, ids),
                      "\"cached_tokens\":");
}

TEST(a_request_goes_to_the_rank_that_it_names)
{
    rig_open_with(&rig, 100, 3);
    CHECK_EQ(cached_at("1"), 0);
    CHECK_EQ(cached_at("1"), 16);
    CHECK_EQ(cached_at("2"), 0);
    CHECK_EQ(cached_at("2"), 16);
    CHECK_EQ(cached_at("0"), 0);
    CHECK(cached_at("some") >= 0); // names none
    const char *said =
        rig_ask_with(&rig, "POST", "/v1/completions", "x-data-parallel-rank: 3\r\n", ids);
    CHECK(rig_begins(said, "HTTP/1.1 400 "));
    CHECK(rig_has(said, "data_parallel_rank 3 is out of range [0, 3)"));
    const char *page = rig_ask(&rig, "GET", "/metrics", "");
    CHECK_EQ(rig_number(page, "vllm:prefix_cache_hits_total{engine=\"1\",model_name="
                              "\"codellama-13b\"} "),
             16);
    CHECK(rig_begins(rig_ask(&rig, "POST", "/reset_prefix_cache", ""), "HTTP/1.1 200 "));
    CHECK_EQ(cached_at("1"), 0);
    CHECK_EQ(cached_at("2"), 0);
    rig_close(&rig);
}

TEST(a_request_that_names_no_rank_goes_to_the_least_busy_one)
{
    static const char *const requests[] = {
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-data-parallel-rank: 0\r\n"
        "Content-Length: 50\r\n\r\n{\"prompt\":\"abc\",\"max_tokens\":100000,\"stream\":true}",
        "POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-data-parallel-rank: 2\r\n"
        "Content-Length: 50\r\n\r\n{\"prompt\":\"abc\",\"max_tokens\":100000,\"stream\":true}",
    };
    static struct rig_response answer;
    int fds[2];
    rig_open_with(&rig, 1, 3);
    for (size_t i = 0; i < 2; i++) {
        fds[i] = rig_connect(&rig);
        rig_send(&rig, fds[i], slice_str(requests[i]));
        CHECK(rig_read(&rig, fds[i], "\"text\":", &answer));
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(rig_number(rig_ask(&rig, "POST", "/v1/completions", ids), "\"cached_tokens\":"),
                 i == 0 ? 0 : 16);
    }
    CHECK_EQ(cached_at("1"), 16);
    tcp_close(&fds[0]);
    tcp_close(&fds[1]);
    rig_close(&rig);
}
