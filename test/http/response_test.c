// SPDX-License-Identifier: Apache-2.0

#include "http/response.h"

#include "base/text.h"
#include "test.h"

enum { buffer_size = 256 };

struct reading {
    struct http_response response;
    uint8_t buffer[buffer_size];
    uint8_t space[1024];
    struct text data;
};

static void reading_start(struct reading *reading)
{
    reading->data = text_over(reading->space, sizeof(reading->space));
    http_response_start(&reading->response, reading->buffer, buffer_size);
}

// Reads `text` in portions of `portion` bytes, up to the end of the response.
static enum status reading_feed(struct reading *reading, const char *text, size_t portion)
{
    enum status status = STATUS_AGAIN;
    for (size_t at = 0; status == STATUS_AGAIN && at < strlen(text); at += portion) {
        uint8_t window[2048];
        size_t left = strlen(text) - at;
        size_t size = left < portion ? left : portion;
        struct slice data;
        memcpy(window, text + at, size);
        status = http_response_read(&reading->response, window, size, &data);
        text_add(&reading->data, data);
    }
    return status;
}

static enum status reading_of(struct reading *reading, const char *text, size_t portion)
{
    reading_start(reading);
    return reading_feed(reading, text, portion);
}

TEST(portions_of_any_size_give_the_same_data)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\na: b\r\n\r\n"
                               "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n"
                               "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
    struct reading reading;
    for (size_t portion = 1; portion <= strlen(text); portion++) {
        CHECK_EQ(reading_of(&reading, text, portion), STATUS_OK);
        CHECK_EQ(reading.response.head.status, 201);
        CHECK(slice_is(text_slice(&reading.data), "hello world"));
        CHECK(reading.response.is_reusable);
    }
}

TEST(bytes_behind_the_response_spoil_the_connection)
{
    struct reading reading;
    static const char text[] = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP";
    CHECK_EQ(reading_of(&reading, text, strlen(text)), STATUS_OK);
    CHECK(!reading.response.is_reusable);
    CHECK(slice_is(text_slice(&reading.data), "ok"));
}

TEST(a_server_that_closes_leaves_no_connection_to_reuse)
{
    struct reading reading;
    CHECK_EQ(reading_of(&reading,
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", 9),
             STATUS_OK);
    CHECK(!reading.response.is_reusable);
    CHECK_EQ(reading_of(&reading, "HTTP/1.1 200 OK\r\n\r\nabc", 7), STATUS_AGAIN);
    CHECK(!reading.response.is_reusable);
    CHECK_EQ(http_response_close(&reading.response), STATUS_OK);
    CHECK(slice_is(text_slice(&reading.data), "abc"));
}

TEST(a_close_before_the_end_cuts_it_short)
{
    struct reading reading;
    CHECK_EQ(reading_of(&reading, "HTTP/1.1 200 OK\r\n", 5), STATUS_AGAIN);
    CHECK_EQ(http_response_close(&reading.response), STATUS_CLOSED);
    CHECK_EQ(reading_of(&reading, "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc", 5),
             STATUS_AGAIN);
    CHECK_EQ(http_response_close(&reading.response), STATUS_CLOSED);
}

TEST(sixteen_interim_responses_are_skipped_and_more_are_refused)
{
    struct reading reading;
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    reading_start(&reading);
    for (int i = 0; i < 16; i++) {
        CHECK_EQ(reading_feed(&reading, interim, 11), STATUS_AGAIN);
    }
    CHECK_EQ(reading_feed(&reading, interim, 11), STATUS_EXHAUSTED);
}

TEST(a_head_larger_than_the_buffer_is_refused)
{
    struct reading reading;
    char text[buffer_size * 2];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    for (size_t portion = 1; portion < sizeof(text); portion += 50) {
        reading_start(&reading);
        CHECK_EQ(reading_feed(&reading, "HTTP/1.1 200 OK\r\nx: ", portion), STATUS_AGAIN);
        CHECK_EQ(reading_feed(&reading, text, portion), STATUS_TOO_LARGE);
    }
}

TEST(bytes_that_are_not_http_are_refused)
{
    struct reading reading;
    CHECK_EQ(reading_of(&reading, "SSH-2.0\r\n\r\n", 4), STATUS_MALFORMED);
}
