// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_response.h"

#include "base/histogram.h"
#include "test.h"

#include <stdlib.h>

#define SSE_HEAD "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
#define TOKEN(text) "data: {\"choices\":[{\"index\":0,\"text\":\"" text "\"}]}\n\n"
#define USAGE                                                                                      \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":3,"              \
    "\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
#define DONE "data: [DONE]\n\n"

static struct drive_response response;
static struct histogram gaps;
static uint64_t token_us[2];

static void begin(void)
{
    memset(&gaps, 0, sizeof(gaps));
    drive_response_begin(&response, &(struct drive_response_options){.api = PROMPT_COMPLETION,
                                                                     .keeps_text = true,
                                                                     .gaps = &gaps,
                                                                     .token_us = token_us,
                                                                     .token_max = 2});
}

// Each feed is a copy of its exact size, which may be changed.
static bool feed(const char *bytes, size_t size, uint64_t now_us)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, bytes, size);
    bool is_over = drive_response_feed(&response, copy, size, now_us);
    free(copy);
    return is_over;
}

static bool feed_str(const char *text, uint64_t now_us)
{
    return feed(text, strlen(text), now_us);
}

// One answer at once; how it ended.
static enum drive_error outcome(const char *text)
{
    begin();
    bool is_over = feed_str(text, 1000);
    ASSERT(is_over);
    enum drive_error error = response.error;
    drive_response_end(&response);
    return error;
}

TEST(times_are_those_of_the_tokens)
{
    begin();
    CHECK(!feed_str(SSE_HEAD "\r\n", 1000));
    // A role alone does not count as a token.
    CHECK(!feed_str("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                    "\"content\":\"\"}}]}\n\n",
                    2000));
    CHECK(!feed_str(TOKEN("a "), 5000));
    CHECK(!feed_str(TOKEN("b ") TOKEN("c "), 9000));
    CHECK(!feed_str(USAGE DONE, 20000));
    drive_response_cut(&response, true, 21000);
    CHECK_EQ(response.error, DRIVE_FINE);
    CHECK_EQ(response.status, 200);
    CHECK_EQ(response.first_us, 5000);
    CHECK_EQ(response.last_us, 9000);
    CHECK_EQ(response.token_events, 3);
    CHECK(token_us[0] == 5000 && token_us[1] == 9000); // the third has no room
    CHECK_EQ(gaps.count, 2);
    CHECK_EQ(gaps.max_ns, 4000000);
    CHECK_EQ(response.usage.prompt_tokens, 100);
    CHECK_EQ(response.usage.cached_tokens, 64);
    CHECK_EQ(response.usage.completion_tokens, 3);
    CHECK(slice_is(text_slice(&response.text), "a b c "));
    drive_response_end(&response);
}

// Whether it is over with the last of them and not before.
static bool feed_portions(const char *text, size_t portion)
{
    size_t size = strlen(text);
    bool is_over = false;
    for (size_t at = 0; at < size; at += portion) {
        if (is_over) {
            return false;
        }
        is_over = feed(text + at, at + portion < size ? portion : size - at, 1);
    }
    return is_over;
}

TEST(portions_make_no_difference)
{
    static const char whole[] =
        "HTTP/1.1 100 Continue\r\n\r\n" SSE_HEAD
        "x-warmpath-backend: http://10.0.0.1:8000\r\ntransfer-encoding: chunked\r\n\r\n"
        "2e\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"a\\n\"}]}\n\n\r\n"
        "2d;x=1\r\ndata: {\"choices\":[{\"index\":0,\"text\":\"bc\"}]}\n\n\r\n"
        "e\r\n" DONE "\r\n0\r\n\r\n";
    for (size_t portion = 1; portion <= strlen(whole); portion++) {
        begin();
        CHECK(feed_portions(whole, portion));
        CHECK_EQ(response.error, DRIVE_FINE);
        CHECK_EQ(response.token_events, 2);
        CHECK(response.keep_alive);
        CHECK_STR(response.backend, "http://10.0.0.1:8000");
        CHECK(slice_is(text_slice(&response.text), "a\\nbc"));
        drive_response_end(&response);
    }
}

TEST(a_decision_is_kept_whole_or_not_at_all)
{
    char decision[drive_decision_size + 1];
    char text[2048];
    for (size_t size = drive_decision_size - 1; size <= drive_decision_size; size++) {
        memset(decision, 'd', size);
        decision[size] = '\0';
        snprintf(text, sizeof(text),
                 SSE_HEAD "x-warmpath-decision: %s\r\ncontent-length: 14\r\n\r\n" DONE, decision);
        CHECK_EQ(outcome(text), DRIVE_FINE);
        CHECK_STR(response.decision, size < drive_decision_size ? decision : "");
    }
}

TEST(a_document_has_its_end_for_all_times)
{
    static const char body[] = "{\"choices\":[{\"index\":0,\"text\":\"hey\"}],\"usage\":"
                               "{\"prompt_tokens\":5,\"completion_tokens\":1}}";
    char text[512];
    snprintf(text, sizeof(text),
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
             strlen(body), body);
    begin();
    CHECK(!feed(text, strlen(text) - 5, 100));
    CHECK(feed_str(text + strlen(text) - 5, 300));
    CHECK_EQ(response.error, DRIVE_FINE);
    CHECK_EQ(response.first_us, 300);
    CHECK_EQ(response.last_us, 300);
    CHECK_EQ(response.usage.prompt_tokens, 5);
    CHECK(!response.usage.has_cached_tokens);
    CHECK(slice_is(text_slice(&response.text), "hey"));
    CHECK(response.keep_alive);
    drive_response_end(&response);
}

TEST(failures_have_their_kind)
{
    static const struct {
        const char *text;
        enum drive_error error;
    } cases[] = {
        {"HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\nno", DRIVE_STATUS},
        {"HTTP/1.1 204 No\r\n\r\n", DRIVE_STATUS},
        {"SSH-2.0-OpenSSH\r\n", DRIVE_MALFORMED},
        {"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<h1>",
         DRIVE_MALFORMED},
        {SSE_HEAD "transfer-encoding: chunked\r\n\r\nxyz", DRIVE_MALFORMED},
        // It ended well for HTTP, but [DONE] never came.
        {SSE_HEAD "content-length: 46\r\n\r\n" TOKEN("abc"), DRIVE_INCOMPLETE},
        {SSE_HEAD "content-length: 47\r\n\r\ndata: {\"error\":{\"message\":\"x\"}}\n\n" DONE,
         DRIVE_BROKEN},
        {"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n"
         "{\"error\":\"bad\"}",
         DRIVE_BROKEN},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(outcome(cases[i].text), cases[i].error);
    }
}

TEST(an_early_end_differs_from_a_broken_connection)
{
    begin();
    drive_response_cut(&response, true, 1);
    CHECK_EQ(response.error, DRIVE_RESET); // not a byte of an answer

    begin();
    CHECK(!feed_str("HTTP/1.1 20", 1));
    drive_response_cut(&response, true, 1);
    CHECK_EQ(response.error, DRIVE_INCOMPLETE);

    begin();
    CHECK(!feed_str(SSE_HEAD "transfer-encoding: chunked\r\n\r\n", 1));
    drive_response_cut(&response, true, 1);
    CHECK_EQ(response.error, DRIVE_INCOMPLETE);

    begin();
    CHECK(!feed_str(SSE_HEAD "\r\n" TOKEN("a") DONE, 1));
    drive_response_cut(&response, false, 1);
    CHECK_EQ(response.error, DRIVE_RESET);
    drive_response_end(&response);

    begin();
    CHECK(!feed_str(SSE_HEAD "\r\n" TOKEN("a"), 1));
    drive_response_cut(&response, true, 1);
    CHECK_EQ(response.error, DRIVE_INCOMPLETE);
    drive_response_end(&response);
}

TEST(a_connection_is_kept_only_behind_a_clean_end)
{
    begin();
    CHECK(feed_str("HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n", 1));
    CHECK(response.keep_alive);
    begin();
    CHECK(feed_str("HTTP/1.1 429 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 1));
    CHECK(!response.keep_alive);
    begin();
    CHECK(feed_str("HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200", 1));
    CHECK(!response.keep_alive);
}

TEST(a_head_or_a_document_without_end_is_refused)
{
    char line[1024];
    memset(line, 'a', sizeof(line));
    begin();
    CHECK(!feed_str("HTTP/1.1 200 OK\r\nx: ", 1));
    bool is_over = false;
    for (int i = 0; i < 64 && !is_over; i++) {
        is_over = feed(line, sizeof(line), 1);
    }
    CHECK(is_over);
    CHECK_EQ(response.error, DRIVE_MALFORMED);

    static char large[1 << 20];
    memset(large, ' ', sizeof(large));
    begin();
    CHECK(!feed_str("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", 1));
    for (int i = 0; i < 5; i++) {
        CHECK(!feed(large, sizeof(large), 1));
    }
    drive_response_cut(&response, true, 1);
    CHECK_EQ(response.error, DRIVE_TOO_LARGE);
    drive_response_end(&response);
}

TEST(interim_responses_have_a_limit)
{
    bool is_over = false;
    begin();
    for (int i = 0; i < 32 && !is_over; i++) {
        is_over = feed_str("HTTP/1.1 100 Continue\r\n\r\n", 1);
    }
    CHECK(is_over);
    CHECK_EQ(response.error, DRIVE_MALFORMED);
}
