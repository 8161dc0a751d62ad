// SPDX-License-Identifier: Apache-2.0

#include "lab/probe_stream.h"

#include "base/text.h"
#include "net/stub_server.h"
#include "sys/clock.h"
#include "test.h"

#define SSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define TOKEN "data: {\"choices\": [{\"index\": 0, \"text\": \"a\"}]}\n\n"
#define USAGE                                                                                      \
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 48, \"completion_tokens\": 3, "        \
    "\"prompt_tokens_details\": {\"cached_tokens\": 32}}}\n\n"
#define DONE "data: [DONE]\n\n"

enum { wait_ms = 5000 };

static struct loop *loop;
static struct stub_server server;
static struct probe_stream stream;
static struct text *body;

static void ask(const char *answer, size_t portion, enum stub_end end)
{
    ASSERT(loop_create(&loop) == STATUS_OK);
    stub_start(&server, loop);
    server.routes[0] = (struct stub_route){
        .path = "/x", .answer = slice_str(answer), .portion = portion, .end = end};
    probe_stream_start(&stream, &(struct probe_stream_options){
                                    .loop = loop,
                                    .address = &server.address,
                                    .request = slice_str("GET /x HTTP/1.1\r\nhost: a\r\n\r\n"),
                                    .body = body,
                                });
    uint64_t end_ns = clock_monotonic_ns() + wait_ms * (uint64_t)1000000;
    while (!stream.is_over && clock_monotonic_ns() < end_ns) {
        loop_turn(loop, 10);
    }
    probe_stream_stop(&stream, "the test was over");
    stub_stop(&server);
    loop_destroy(&loop);
}

TEST(tokens_are_timed_and_the_usage_is_read)
{
    ask(SSE "\r\n" TOKEN TOKEN TOKEN USAGE DONE, 0, STUB_CLOSES);
    CHECK(stream.why == NULL);
    CHECK_EQ(stream.status, 200);
    CHECK_EQ(stream.token_count, 3);
    CHECK_EQ(stream.prompt_tokens, 48);
    CHECK_EQ(stream.output_tokens, 3);
    CHECK(stream.tells_cached);
    CHECK_EQ(stream.cached_tokens, 32);
    CHECK(stream.sent_us > 0 && stream.token_us[0] >= stream.sent_us);
    CHECK(stream.end_us >= stream.token_us[2]);
}

TEST(an_answer_in_small_parts_is_the_same)
{
    // One byte each millisecond: 57 of them lie between the ends of two tokens.
    ask(SSE "Transfer-Encoding: chunked\r\n\r\n"
            "30\r\n" TOKEN "\r\n30\r\n" TOKEN "\r\n0\r\n\r\n",
        1, STUB_STAYS);
    CHECK(stream.why == NULL);
    CHECK_EQ(stream.token_count, 2);
    CHECK(stream.token_us[1] - stream.token_us[0] >= 40000);
}

TEST(what_was_cached_may_be_left_untold)
{
    ask(SSE "\r\n" TOKEN "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 7, "
            "\"completion_tokens\": 1, \"prompt_tokens_details\": null}}\n\n" DONE,
        0, STUB_CLOSES);
    CHECK(stream.why == NULL);
    CHECK_EQ(stream.prompt_tokens, 7);
    CHECK(!stream.tells_cached);
}

TEST(a_page_is_kept_as_far_as_there_is_room)
{
    static char space[16];
    struct text text = text_over(space, sizeof(space));
    body = &text;
    ask("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 0,
        STUB_STAYS);
    body = NULL;
    CHECK(stream.why == NULL);
    CHECK_EQ(stream.token_count, 0);
    CHECK(slice_is(text_slice(&text), "hello"));
}

TEST(a_refusal_has_its_status)
{
    ask("HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", 0,
        STUB_STAYS);
    CHECK(stream.why == NULL);
    CHECK_EQ(stream.status, 400);
    CHECK_EQ(stream.token_count, 0);
}

TEST(an_end_before_its_time_is_told)
{
    ask(SSE "Transfer-Encoding: chunked\r\n\r\n30\r\n" TOKEN "\r\n", 0, STUB_CLOSES);
    CHECK_STR(stream.why, "the connection was closed");
    CHECK_EQ(stream.token_count, 1);
    ask("nonsense\r\n\r\n", 0, STUB_STAYS);
    CHECK_STR(stream.why, "the response is not HTTP");
    ask(SSE "\r\n" TOKEN, 0, STUB_RESETS);
    CHECK(stream.why != NULL);
}

TEST(nobody_listens)
{
    struct address address;
    int fd = -1;
    ASSERT(loop_create(&loop) == STATUS_OK);
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &fd) == STATUS_OK && tcp_local(fd, &address) == STATUS_OK);
    tcp_close(&fd);
    probe_stream_start(&stream, &(struct probe_stream_options){.loop = loop, .address = &address});
    for (int i = 0; i < 100 && !stream.is_over; i++) {
        loop_turn(loop, 50);
    }
    CHECK(stream.is_over);
    CHECK_STR(stream.why, "Connection refused");
    loop_destroy(&loop);
}
