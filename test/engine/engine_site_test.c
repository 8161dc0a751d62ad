// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_rig.h"

static struct engine_rig rig;
static struct rig_response answer;

static const char streamed[] =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 48\r\n\r\n"
    "{\"prompt\":\"abc\",\"max_tokens\":3000,\"stream\":true}";

static enum status order(const char *body)
{
    char error[engine_faults_error_size];
    return engine_site_order(&rig.site, slice_str(body), error);
}

// A connection with a stream on it that has begun.
static int begin_stream(void)
{
    int fd = rig_connect(&rig);
    rig_send(&rig, fd, slice_str(streamed));
    ASSERT(rig_read(&rig, fd, "\"text\":", &answer));
    return fd;
}

static bool is_refused(void)
{
    int fd = -1;
    bool refused = tcp_connect(&rig.site.address, &fd) != STATUS_OK;
    for (uint32_t i = 0; i < 10 && !refused; i++) {
        loop_turn(rig.group.loop, 1);
        refused = tcp_error(fd) != 0;
    }
    tcp_close(&fd);
    return refused;
}

TEST(a_port_that_is_taken_is_named)
{
    struct engine_site other = {0};
    char error[engine_server_error_size];
    char expected[engine_server_error_size];
    struct text text = text_over(expected, sizeof(expected) - 1);

    rig_open(&rig, 1);
    text_add_str(&text, "cannot listen on ");
    address_format(&rig.site.address, &text);
    expected[text.size] = '\0';
    struct engine_server_options options = {
        .host = "127.0.0.1",
        .port = (uint16_t)strtoul(strchr(expected, ':') + 1, NULL, 10),
        .profile = &rig.profile,
        .rank_count = 1,
        .speed = 1};
    CHECK_EQ(engine_site_open(&other, &rig.group, &options, 0, error), STATUS_IO);
    text_add_str(&text, ": Address already in use");
    expected[text.size] = '\0';
    CHECK_STR(error, expected);
    rig_close(&rig);
}

static const char prompt[] = "{\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}";

static double cached_tokens(void)
{
    return rig_number(rig_ask(&rig, "POST", "/v1/completions", prompt), "\"cached_tokens\":");
}

TEST(a_reset_cuts_streams_and_the_cache_stays)
{
    rig_open(&rig, 1);
    CHECK_EQ(cached_tokens(), 0);
    int fd = begin_stream();
    int idle = rig_connect(&rig);
    loop_turn(rig.group.loop, 10);
    CHECK_EQ(order("{\"reset\":true}"), STATUS_OK);
    CHECK(rig_read(&rig, fd, NULL, &answer));
    CHECK_EQ(answer.end, STATUS_IO);
    CHECK(rig_read(&rig, idle, NULL, &answer));
    CHECK_EQ(answer.end, STATUS_CLOSED);
    CHECK_EQ(rig.site.connection_count, 0);
    CHECK_EQ(cached_tokens(), 16);
    tcp_close(&fd);
    tcp_close(&idle);
    rig_close(&rig);
}

TEST(a_crashed_engine_refuses_connections_and_comes_back_with_an_empty_cache)
{
    rig_open(&rig, 100);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 16);
    int fd = begin_stream();
    // The client that orders a crash gets its response first.
    CHECK(rig_begins(rig_ask(&rig, "POST", "/sim/faults", "{\"crash_s\":0.2}"), "HTTP/1.1 200 "));
    uint64_t crashed_ms = loop_now_ms(rig.group.loop);
    CHECK(rig_read(&rig, fd, NULL, &answer));
    CHECK_EQ(answer.end, STATUS_IO);
    CHECK(is_refused());
    while (timer_is_armed(&rig.site.restart)) {
        loop_turn(rig.group.loop, 10);
    }
    CHECK(loop_now_ms(rig.group.loop) >= crashed_ms + 199);
    CHECK_EQ(rig_number(rig_ask(&rig, "GET", "/metrics", ""),
                        "vllm:generation_tokens_total{engine=\"0\",model_name=\"codellama-13b\"} "),
             0);
    CHECK_EQ(cached_tokens(), 0);
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(a_crash_ends_all_ranks)
{
    rig_open_with(&rig, 100, 2);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 0); // the other one
    CHECK_EQ(cached_tokens(), 16);
    CHECK_EQ(order("{\"crash_s\":0.01}"), STATUS_OK);
    loop_turn(rig.group.loop, 0);
    while (timer_is_armed(&rig.site.restart)) {
        loop_turn(rig.group.loop, 10);
    }
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(order("{\"flush\":true}"), STATUS_OK);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 0);
    CHECK_EQ(cached_tokens(), 16);
    rig_close(&rig);
}

TEST(clearing_faults_ends_a_crash)
{
    rig_open(&rig, 100);
    CHECK_EQ(order("{\"crash_s\":3600,\"slow\":5}"), STATUS_OK);
    loop_turn(rig.group.loop, 0);
    CHECK(is_refused());
    engine_site_clear_faults(&rig.site);
    CHECK(rig_has(rig_ask(&rig, "GET", "/sim/faults", ""), "\"slow\":1}"));
    rig_close(&rig);
}

TEST(closing_frees_everything)
{
    rig_open(&rig, 1);
    int stream = begin_stream();
    int idle = rig_connect(&rig);
    loop_turn(rig.group.loop, 10);
    CHECK_EQ(order("{\"crash_s\":100}"), STATUS_OK);
    rig_close(&rig);
    tcp_close(&stream);
    tcp_close(&idle);
}
