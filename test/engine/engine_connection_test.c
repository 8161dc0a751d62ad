// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_rig.h"

static struct engine_rig rig;
static struct rig_response answer;

static const char health[] = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
static const char health_answer[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#define BODY "{\"prompt\":\"abc\",\"max_tokens\":3}"
static const char plain[] =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 31\r\n\r\n" BODY;
static const char chunked[] =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "a\r\n{\"prompt\":\r\n15;x=1\r\n\"abc\",\"max_tokens\":3}\r\n0\r\n\r\n";
static const char streamed[] =
    "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 45\r\n\r\n"
    "{\"prompt\":\"abc\",\"max_tokens\":3,\"stream\":true}";

static uint32_t count_of(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count++;
    }
    return count;
}

TEST(requests_may_come_byte_by_byte)
{
    static const char *const requests[] = {health, plain, chunked, streamed};
    static const char *const ends[] = {"\r\n\r\n", "\"cached_tokens\":0}}}",
                                       "\"cached_tokens\":0}}}", "\r\n0\r\n\r\n"};
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        for (const char *at = requests[i]; *at != '\0'; at++) {
            rig_send(&rig, fd, slice_of(at, 1));
            loop_turn(rig.group.loop, 0);
        }
        CHECK(rig_read(&rig, fd, ends[i], &answer));
        CHECK(rig_begins(answer.text, "HTTP/1.1 200 OK\r\n"));
    }
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(pipelined_requests_get_their_responses_in_order)
{
    char all[1024];
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    snprintf(all, sizeof(all), "%s%s%s%s%s%s", health, streamed, chunked, plain, streamed, health);
    rig_send(&rig, fd, slice_str(all));
    char end[128];
    snprintf(end, sizeof(end), "0\r\n\r\n%s", health_answer);
    CHECK(rig_read(&rig, fd, end, &answer));
    CHECK_EQ(count_of(answer.text, "HTTP/1.1 200 OK"), 6);
    CHECK_EQ(count_of(answer.text, "[DONE]"), 2);
    CHECK_EQ(count_of(answer.text, "\"usage\""), 2);
    CHECK(rig_begins(answer.text, health_answer));
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(each_token_is_an_event_in_its_own_chunk)
{
    rig_open(&rig, 1);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd, slice_str(streamed));
    CHECK(rig_read(&rig, fd, "\"text\":", &answer));
    // The others are not made yet.
    CHECK_EQ(count_of(answer.text, "\"text\":"), 1);
    CHECK(rig_has(answer.text, "\r\ntransfer-encoding: chunked\r\n"));
    CHECK(rig_read(&rig, fd, "\n\n\r\n0\r\n\r\n", &answer));
    CHECK_EQ(count_of(answer.text, "\"text\":"), 2);
    CHECK(
        rig_has(answer.text, "\"finish_reason\":\"length\"}]}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0"));
    CHECK_EQ(rig.site.connection_count, 1);
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(http10_clients_get_no_chunks_and_a_close)
{
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd,
             slice_str("POST /v1/completions HTTP/1.0\r\nContent-Length: 45\r\n\r\n"
                       "{\"prompt\":\"abc\",\"max_tokens\":3,\"stream\":true}"));
    CHECK(rig_read(&rig, fd, NULL, &answer));
    CHECK_EQ(answer.end, STATUS_CLOSED);
    CHECK(!rig_has(answer.text, "chunked"));
    CHECK(rig_has(answer.text, "\r\nconnection: close\r\n\r\ndata: {"));
    CHECK_STR(answer.text + answer.size - 16, "\n\ndata: [DONE]\n\n");
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(a_client_that_goes_away_ends_its_request)
{
    rig_open(&rig, 1);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd,
             slice_str("POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                       "Content-Length: 48\r\n\r\n"
                       "{\"prompt\":\"abc\",\"max_tokens\":3000,\"stream\":true}"));
    CHECK(rig_read(&rig, fd, "\"text\":", &answer));
    tcp_close(&fd);
    struct engine_status status;
    for (uint32_t i = 0; i < 100 && rig.site.connection_count > 0; i++) {
        loop_turn(rig.group.loop, 10);
    }
    engine_status(engine_node_engine(rig.site.ranks[0].node), &status);
    CHECK_EQ(rig.site.connection_count, 0);
    CHECK_EQ(status.running, 0);
    CHECK_EQ(status.used_tokens, 0);
    CHECK(status.output_tokens < 3000);
    rig_close(&rig);
}

TEST(a_client_that_does_not_read_costs_one_batch_of_events_in_memory)
{
    static struct rig_response whole;
    uint32_t braces = 0;
    rig_open(&rig, 1000);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd,
             slice_str("POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                       "Content-Length: 49\r\n\r\n"
                       "{\"prompt\":\"abc\",\"max_tokens\":50000,\"stream\":true}"));
    struct engine_connection *c = NULL;
    do {
        loop_turn(rig.group.loop, 10);
        c = CONTAINER_OF(rig.site.connections, struct engine_connection, all);
    } while (!c->job->is_done);
    CHECK(c->out != NULL && c->out_size <= 16384);
    CHECK(c->job->sent_tokens < 50000);
    // It gets all of it when it reads.
    while (!rig_has(whole.text, "[DONE]")) {
        CHECK(rig_read(&rig, fd, "\n\n\r\n", &whole));
        braces += count_of(whole.text, "{");
    }
    CHECK_EQ(braces, 2 * 50000); // two an event
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(a_malformed_request_is_refused_and_the_connection_ends)
{
    static const struct {
        const char *request;
        const char *answer;
    } cases[] = {
        {"nonsense\r\n\r\n", "HTTP/1.1 400 "},
        {"GET /health HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
        {"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 16777217\r\n\r\n{",
         "HTTP/1.1 413 "},
        {"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
         "HTTP/1.1 400 "},
    };
    rig_open(&rig, 100);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int fd = rig_connect(&rig);
        rig_send(&rig, fd, slice_str(cases[i].request));
        CHECK(rig_read(&rig, fd, NULL, &answer));
        CHECK(rig_begins(answer.text, cases[i].answer));
        CHECK(rig_has(answer.text, "\r\nconnection: close\r\n"));
        CHECK_EQ(answer.end, STATUS_CLOSED);
        tcp_close(&fd);
    }
    rig_close(&rig);
}

static void send_times(int fd, const char *part, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        rig_send(&rig, fd, slice_str(part));
    }
}

TEST(limits_hold_while_bytes_come)
{
    static char block[65537];
    memset(block, 'a', sizeof(block) - 1);
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd, slice_str("GET /health HTTP/1.1\r\nHost: a\r\nX: "));
    send_times(fd, block, 2);
    CHECK(rig_read(&rig, fd, NULL, &answer));
    CHECK(rig_begins(answer.text, "HTTP/1.1 431 "));
    tcp_close(&fd);

    fd = rig_connect(&rig);
    rig_send(&rig, fd,
             slice_str("POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n2000000\r\n"));
    send_times(fd, block, 260);
    CHECK(rig_read(&rig, fd, NULL, &answer));
    CHECK(rig_begins(answer.text, "HTTP/1.1 413 "));
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(a_body_of_megabytes_is_read_and_given_back)
{
    static char block[65537];
    memset(block, 'a', sizeof(block) - 1);
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd,
             slice_str("POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
                       "Expect: 100-continue\r\nContent-Length: 2097165\r\n\r\n"));
    CHECK(rig_read(&rig, fd, "HTTP/1.1 100 Continue\r\n\r\n", &answer));
    rig_send(&rig, fd, slice_str("{\"prompt\":\""));
    send_times(fd, block, 31);
    CHECK(rig.group.held_size > 2000000);
    send_times(fd, block, 1);
    rig_send(&rig, fd, slice_str("\"}"));
    // 524,288 tokens are more than the model takes.
    CHECK(rig_read(&rig, fd, "maximum context length", &answer));
    CHECK(rig_begins(answer.text, "HTTP/1.1 400 "));
    CHECK(rig.group.held_size < 65536);
    rig_send(&rig, fd, slice_str(health));
    CHECK(rig_read(&rig, fd, health_answer, &answer));
    tcp_close(&fd);
    rig_close(&rig);
}

TEST(a_head_request_gets_no_body)
{
    rig_open(&rig, 100);
    int fd = rig_connect(&rig);
    rig_send(&rig, fd, slice_str("HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"));
    rig_send(&rig, fd, slice_str(health));
    CHECK(rig_read(&rig, fd, health_answer, &answer));
    CHECK(rig_begins(answer.text, "HTTP/1.1 405 "));
    CHECK(!rig_has(answer.text, "error"));
    tcp_close(&fd);
    rig_close(&rig);
}
