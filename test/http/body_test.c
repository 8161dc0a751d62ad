// SPDX-License-Identifier: Apache-2.0

#include "http/body.h"

#include "test.h"

// Starts a body that is framed as the response head `text` says.
static void body_start(struct http_body *body, const char *text, enum chunked_keep keep)
{
    struct http_head head;
    http_head_start(&head, HTTP_KIND_RESPONSE, (struct http_limits){4096, 4096});
    ASSERT(http_head_feed(&head, slice_str(text)) == STATUS_OK);
    http_head_response_framing(&head, false);
    http_body_start(body, &head, keep);
}

static uint8_t window[64];

static enum status body_scan(struct http_body *body, const char *text, size_t *used, size_t *kept)
{
    struct slice bytes = slice_str(text);
    memcpy(window, bytes.bytes, bytes.size);
    return http_body_scan(body, window, bytes.size, used, kept);
}

TEST(without_a_body_no_byte_is_used)
{
    struct http_body body;
    size_t used = 9;
    size_t kept = 9;
    body_start(&body, "HTTP/1.1 204 No\r\n\r\n", CHUNKED_KEEP_DATA);
    CHECK_EQ(body_scan(&body, "HTTP/1.1", &used, &kept), STATUS_OK);
    CHECK_EQ(used, 0);
    CHECK_EQ(kept, 0);
    CHECK(body.is_complete);
}

TEST(a_length_ends_between_the_body_and_the_next_message)
{
    struct http_body body;
    size_t used = 0;
    size_t kept = 0;
    body_start(&body, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", CHUNKED_KEEP_DATA);
    CHECK_EQ(body_scan(&body, "hel", &used, &kept), STATUS_AGAIN);
    CHECK_EQ(kept, 3);
    CHECK_EQ(http_body_close(&body), STATUS_CLOSED);
    CHECK_EQ(body_scan(&body, "loHTTP", &used, &kept), STATUS_OK);
    CHECK_EQ(used, 2);
    CHECK_EQ(kept, 2);
    CHECK_EQ(http_body_close(&body), STATUS_OK);
}

TEST(a_length_of_zero_is_complete_at_once)
{
    struct http_body body;
    size_t used = 0;
    size_t kept = 0;
    body_start(&body, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", CHUNKED_KEEP_DATA);
    CHECK_EQ(body_scan(&body, "", &used, &kept), STATUS_OK);
}

TEST(chunks_are_kept_as_asked_for)
{
    static const char *const expected[] = {
        [CHUNKED_KEEP_FRAMED] = "3\r\nabc\r\n0\r\n\r\n", [CHUNKED_KEEP_DATA] = "abc"};
    for (int keep = CHUNKED_KEEP_FRAMED; keep <= CHUNKED_KEEP_DATA; keep++) {
        struct http_body body;
        size_t used = 0;
        size_t kept = 0;
        body_start(&body, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
                   (enum chunked_keep)keep);
        CHECK_EQ(http_body_close(&body), STATUS_CLOSED);
        CHECK_EQ(body_scan(&body, "3;x\r\nabc\r\n0\r\n\r\nHTTP", &used, &kept), STATUS_OK);
        CHECK_EQ(used, 15);
        CHECK(slice_is(slice_of(window, kept), expected[keep]));
    }
}

TEST(malformed_chunks_are_refused)
{
    struct http_body body;
    size_t used = 0;
    size_t kept = 0;
    body_start(&body, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", CHUNKED_KEEP_DATA);
    CHECK_EQ(body_scan(&body, "zzz\r\n", &used, &kept), STATUS_MALFORMED);
    CHECK(!body.is_complete);
}

TEST(without_a_length_the_close_completes_it)
{
    struct http_body body;
    size_t used = 0;
    size_t kept = 0;
    body_start(&body, "HTTP/1.1 200 OK\r\n\r\n", CHUNKED_KEEP_DATA);
    CHECK_EQ(body_scan(&body, "hello", &used, &kept), STATUS_AGAIN);
    CHECK_EQ(kept, 5);
    CHECK_EQ(http_body_close(&body), STATUS_OK);
}
