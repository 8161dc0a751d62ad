// SPDX-License-Identifier: Apache-2.0
//
// Heads that pass, heads that are refused and why; then the claim that the portions in which bytes
// arrive make no difference: every message, good or bad, is fed whole and split at every byte.

#include "http/head.h"

#include "test.h"

#include <stdlib.h>

static const struct http_limits limits = {.head_size = 4096, .target_size = 256};

static enum status feed(struct http_head *head, enum http_kind kind, const char *text)
{
    http_head_start(head, kind, limits);
    return http_head_feed(head, slice_str(text));
}

#define START "POST /v1/chat/completions HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

TEST(finds_every_part_of_a_request)
{
    struct http_head head;
    const char *text = "POST /v1/x?a=b HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 5\r\n"
                       "X-Empty:\r\nX-Padded: \t one two \t\r\n\r\nhello";
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, text), STATUS_OK);
    CHECK_EQ(head.size, strlen(text) - 5);
    CHECK(slice_is(http_head_method(&head), "POST"));
    CHECK(slice_is(http_head_target(&head), "/v1/x?a=b"));
    CHECK(slice_is(http_head_path(&head), "/v1/x"));
    CHECK_EQ(head.field_count, 4);
    CHECK_EQ(head.framing, HTTP_LENGTH);
    CHECK_EQ(head.content_length, 5);
    CHECK(head.keep_alive);
    CHECK_EQ(http_field_value(&head, &head.fields[2]).size, 0);
    CHECK(slice_is(http_field_value(&head, http_head_find_text(&head, "x-padded")), "one two"));
    CHECK(http_head_find(&head, HTTP_NAME_HOST) == &head.fields[0]);
    CHECK(http_head_find(&head, HTTP_NAME_EXPECT) == NULL);
}

TEST(tells_how_a_response_ends)
{
    struct http_head head;
    CHECK_EQ(feed(&head, HTTP_KIND_RESPONSE, "HTTP/1.1 200 OK\r\n\r\n"), STATUS_OK);
    CHECK_EQ(head.status, 200);
    CHECK(slice_is(http_head_at(&head, head.reason_at, head.reason_size), "OK"));
    http_head_response_framing(&head, false);
    CHECK_EQ(head.framing, HTTP_UNTIL_CLOSE);

    CHECK_EQ(feed(&head, HTTP_KIND_RESPONSE, "HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\n"),
             STATUS_OK);
    http_head_response_framing(&head, true);
    CHECK_EQ(head.framing, HTTP_NO_BODY);

    CHECK_EQ(
        feed(&head, HTTP_KIND_RESPONSE, "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n"),
        STATUS_OK);
    http_head_response_framing(&head, false);
    CHECK_EQ(head.framing, HTTP_NO_BODY);

    CHECK_EQ(feed(&head, HTTP_KIND_RESPONSE, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n"),
             STATUS_OK);
    CHECK(head.keep_alive && head.is_http10);
}

TEST(keep_alive_follows_version_and_connection)
{
    struct http_head head;
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, START HOST "Connection: x, CLOSE\r\n\r\n"), STATUS_OK);
    CHECK(!head.keep_alive);
    CHECK(head.names_fields);
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, "GET / HTTP/1.0\r\n\r\n"), STATUS_OK);
    CHECK(!head.keep_alive);
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, START HOST "Expect: 100-Continue\r\n\r\n"), STATUS_OK);
    CHECK(head.expects);
}

TEST(connection_may_name_fields_but_not_the_framing)
{
    struct http_head head;
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST,
                  START HOST "Connection: x-a, content-length,host\r\nX-A: 1\r\nX-B: 2\r\n"
                             "Content-Length: 0\r\nKeep-Alive: 1\r\n\r\n"),
             STATUS_OK);
    static const bool expected[] = {false, true, true, false, false, true};
    for (uint32_t i = 0; i < head.field_count; i++) {
        CHECK_EQ(http_field_is_hop_by_hop(&head, &head.fields[i]), expected[i]);
    }
}

TEST(an_absolute_target_must_name_the_host)
{
    struct http_head head;
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, "GET http://A/x?y HTTP/1.1\r\n" HOST "\r\n"),
             STATUS_OK);
    CHECK(slice_is(http_head_target(&head), "/x?y"));
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), STATUS_OK);
}

static const char *const bad_requests[] = {
    START "\r\n", // no host
    START HOST HOST "\r\n",
    START "Host: a b\r\n\r\n",
    START "Host: a@b\r\n\r\n",
    START HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    START HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
    START HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
    START HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    START HOST "Content-Length: 5, 5\r\n\r\n",
    START HOST "Content-Length: +5\r\n\r\n",
    START HOST "Content-Length: -5\r\n\r\n",
    START HOST "Content-Length: 0x5\r\n\r\n",
    START HOST "Content-Length: \r\n\r\n",
    START HOST "Content-Length: 5 5\r\n\r\n",
    START HOST "Content-Length: 99999999999999999999\r\n\r\n",
    START HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
    START HOST "Transfer-Encoding: chunked, chunked\r\n\r\n",
    START HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    START HOST "Transfer-Encoding: identity\r\n\r\n",
    START HOST "Transfer-Encoding: xchunked\r\n\r\n",
    START HOST "Transfer-Encoding: \"chunked\"\r\n\r\n",
    START HOST "Transfer-Encoding:\r\n\r\n",
    START HOST "Transfer-Encoding: \x0b"
               "chunked\r\n\r\n",
    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    START HOST "X: a\r\n b\r\n\r\n",
    START HOST "X: a\r\n\tb\r\n\r\n",
    START HOST "X:\r\n b\r\n\r\n",
    START HOST " X: a\r\n\r\n",
    START "Host : a\r\n\r\n",
    START HOST "X Y: a\r\n\r\n",
    START HOST "X\x01Y: a\r\n\r\n",
    START HOST ": a\r\n\r\n",
    START HOST "no colon\r\n\r\n",
    START HOST "X: a\nY: b\r\n\r\n",
    START HOST "X: a\rY: b\r\n\r\n",
    START HOST "X: a\x01\r\n\r\n",
    "POST / HTTP/1.1\nHost: a\n\n",
    "POST / HTTP/1.1\nHost: a\r\n\r\n",
    START HOST "\n",
    "\nGET / HTTP/1.1\r\n" HOST "\r\n",
    "GET /a#b HTTP/1.1\r\n" HOST "\r\n",
    "GET http://b/ HTTP/1.1\r\n" HOST "\r\n",
    "GET http://a HTTP/1.1\r\n" HOST "\r\n",
    "GET http://a@a/ HTTP/1.1\r\n" HOST "\r\n",
    "GET a HTTP/1.1\r\n" HOST "\r\n",
    "GET * HTTP/1.1\r\n" HOST "\r\n",
    "CONNECT a:80 HTTP/1.1\r\n" HOST "\r\n",
    "GET  / HTTP/1.1\r\n" HOST "\r\n",
    "GET / HTTP/1.2\r\n" HOST "\r\n",
    "GET / HTTP/2.0\r\n" HOST "\r\n",
    "GET / http/1.1\r\n" HOST "\r\n",
    "GET /\r\n\r\n",
    "GET / HTTP/1.1 \r\n" HOST "\r\n",
    "get / HTTP/1.1\r\n" HOST "\r\n",
    "FETCH / HTTP/1.1\r\n" HOST "\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "\x16\x03\x01\x02",
};

TEST(refuses_heads_that_two_readers_could_understand_differently)
{
    for (size_t i = 0; i < ARRAY_COUNT(bad_requests); i++) {
        struct http_head head;
        if (feed(&head, HTTP_KIND_REQUEST, bad_requests[i]) != STATUS_MALFORMED) {
            test_fail(__FILE__, __LINE__, "let through: %s", bad_requests[i]);
        }
        CHECK(head.why != NULL && head.why[0] != '\0');
    }
}

TEST(refuses_a_nul_byte_anywhere)
{
    static const char good[] = START HOST "X-A: b\r\n\r\n";
    for (size_t i = 0; i < sizeof(good) - 1; i++) {
        char text[sizeof(good)];
        memcpy(text, good, sizeof(good));
        text[i] = '\0';
        struct http_head head;
        http_head_start(&head, HTTP_KIND_REQUEST, limits);
        CHECK_EQ(http_head_feed(&head, slice_of(text, sizeof(good) - 1)), STATUS_MALFORMED);
    }
}

TEST(limits_have_their_own_statuses)
{
    static char text[8192];
    struct http_head head;
    snprintf(text, sizeof(text), "GET /%0300d HTTP/1.1\r\n" HOST "\r\n", 0);
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, text), STATUS_TOO_LARGE);
    CHECK(head.target_is_long);

    snprintf(text, sizeof(text), START HOST "X: %05000d\r\n\r\n", 0);
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, text), STATUS_TOO_LARGE);
    CHECK(!head.target_is_long);

    size_t size = (size_t)snprintf(text, sizeof(text), START HOST);
    for (int i = 0; i < http_field_count_max; i++) {
        size += (size_t)snprintf(text + size, sizeof(text) - size, "X: 1\r\n");
    }
    snprintf(text + size, sizeof(text) - size, "\r\n");
    CHECK_EQ(feed(&head, HTTP_KIND_REQUEST, text), STATUS_TOO_LARGE);
}

// The same result, however the bytes arrive, and wherever they lie when more of them come.
static bool splits_agree(enum http_kind kind, struct slice text)
{
    static struct http_head whole;
    static struct http_head split;
    http_head_start(&whole, kind, limits);
    enum status expected = http_head_feed(&whole, text);

    for (size_t at = 0; at <= text.size; at++) {
        uint8_t *first = malloc(at + 1);
        uint8_t *second = malloc(text.size + 1);
        memcpy(first, text.bytes, at);
        memcpy(second, text.bytes, text.size);
        http_head_start(&split, kind, limits);
        enum status status = http_head_feed(&split, slice_of(first, at));
        free(first);
        if (status == STATUS_AGAIN) {
            status = http_head_feed(&split, slice_of(second, text.size));
        }
        bool same = status == expected;
        if (same && status == STATUS_OK) {
            same = split.size == whole.size && split.field_count == whole.field_count &&
                   memcmp(split.fields, whole.fields,
                          whole.field_count * sizeof(struct http_field)) == 0 &&
                   split.target_at == whole.target_at && split.target_size == whole.target_size;
        }
        free(second);
        if (!same) {
            return false;
        }
    }
    return true;
}

TEST(the_portions_in_which_bytes_arrive_make_no_difference)
{
    for (size_t i = 0; i < ARRAY_COUNT(bad_requests); i++) {
        if (!splits_agree(HTTP_KIND_REQUEST, slice_str(bad_requests[i]))) {
            test_fail(__FILE__, __LINE__, "a split matters for case %zu", i);
        }
    }
    CHECK(splits_agree(
        HTTP_KIND_REQUEST,
        slice_str("\r\nPOST http://a.example/x HTTP/1.1\r\nHost: a.example\r\n"
                  "Content-Length:  5 \r\nX-Empty: \r\nExpect: 100-continue\r\n\r\n")));
    CHECK(splits_agree(HTTP_KIND_RESPONSE,
                       slice_str("HTTP/1.1 200 All is well\r\nTransfer-Encoding: chunked\r\n"
                                 "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\n5\r\n")));
}

TEST(a_media_type_is_known_in_any_case_and_with_parameters)
{
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\n\r\n";
    struct http_head head;
    http_head_start(&head, HTTP_KIND_RESPONSE,
                    (struct http_limits){.head_size = 1024, .target_size = 1024});
    CHECK_EQ(http_head_feed(&head, slice_str(answer)), STATUS_OK);
    CHECK(http_head_type_is(&head, "text/event-stream"));
    CHECK(!http_head_type_is(&head, "text/event-streams"));
    CHECK(!http_head_type_is(&head, "application/json"));

    http_head_start(&head, HTTP_KIND_RESPONSE,
                    (struct http_limits){.head_size = 1024, .target_size = 1024});
    CHECK_EQ(http_head_feed(&head, slice_str("HTTP/1.1 204 No\r\n\r\n")), STATUS_OK);
    CHECK(!http_head_type_is(&head, "application/json"));
}
