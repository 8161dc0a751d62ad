// SPDX-License-Identifier: Apache-2.0

#include "http/forward.h"

#include "base/text.h"
#include "http/head.h"
#include "test.h"

static struct http_head head;
static char space[4096];

static void parse(enum http_kind kind, const char *text)
{
    http_head_start(&head, kind, (struct http_limits){4096, 1024});
    ASSERT(http_head_feed(&head, slice_str(text)) == STATUS_OK);
}

static const char *request(const char *text, const struct http_forward_request *how)
{
    parse(HTTP_KIND_REQUEST, text);
    struct text out = text_over(space, sizeof(space) - 1);
    http_forward_request(&head, how, &out);
    space[out.size] = '\0';
    return space;
}

static const char *answer(const char *text, const struct http_forward_response *how)
{
    parse(HTTP_KIND_RESPONSE, text);
    struct text out = text_over(space, sizeof(space) - 1);
    http_forward_response(&head, how, &out);
    space[out.size] = '\0';
    return space;
}

TEST(a_request_keeps_its_fields_and_loses_hop_by_hop_ones)
{
    struct http_forward_request how = {.request_id = slice_str("id"), .keep_authorization = true};
    CHECK_STR(request("POST http://h/a HTTP/1.1\r\nhOST: h\r\nConnection: x-hop\r\nX-Hop: 1\r\n"
                      "Authorization: Bearer k\r\nTE: trailers\r\nX-A: 1\r\nX-a: 2\r\n"
                      "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                      &how),
              "POST /a HTTP/1.1\r\nhOST: h\r\nAuthorization: Bearer k\r\nX-A: 1\r\nX-a: 2\r\n"
              "Content-Length: 3\r\nx-request-id: id\r\n\r\n");
}

TEST(a_request_id_of_the_client_is_kept_and_an_http10_request_is_lifted)
{
    struct http_forward_request how = {
        .host = slice_str("b:80"), .request_id = slice_str("id"), .keep_authorization = true};
    CHECK_STR(request("GET / HTTP/1.0\r\nX-Request-ID: mine\r\n\r\n", &how),
              "GET / HTTP/1.1\r\nhost: b:80\r\nX-Request-ID: mine\r\n\r\n");
}

TEST(authorization_is_replaced_or_stripped_and_never_sent_twice)
{
    struct http_forward_request how = {.request_id = slice_str("id"),
                                       .authorization = slice_str("Bearer ours")};
    const char *text = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer theirs\r\n\r\n";
    CHECK_STR(request(text, &how), "GET / HTTP/1.1\r\nHost: h\r\nauthorization: Bearer ours\r\n"
                                   "x-request-id: id\r\n\r\n");
    how.authorization = (struct slice){0};
    CHECK_STR(request(text, &how), "GET / HTTP/1.1\r\nHost: h\r\nx-request-id: id\r\n\r\n");
}

TEST(the_client_address_is_appended_to_x_forwarded_for)
{
    struct http_forward_request how = {.request_id = slice_str("id"),
                                       .keep_authorization = true,
                                       .forwarded_for = slice_str("9.9.9.9")};
    CHECK_STR(request("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n", &how),
              "GET / HTTP/1.1\r\nHost: h\r\nx-request-id: id\r\n"
              "x-forwarded-for: 1.1.1.1, 9.9.9.9\r\n\r\n");
}

TEST(a_rank_that_is_chosen_takes_the_place_of_the_clients_own)
{
    struct http_forward_request how = {.request_id = slice_str("id"), .keep_authorization = true};
    const char *text = "GET / HTTP/1.1\r\nHost: h\r\nx-DATA-parallel-Rank: 7\r\nX-A: 1\r\n"
                       "X-data-parallel-rank: 8\r\n\r\n";
    CHECK_STR(request(text, &how),
              "GET / HTTP/1.1\r\nHost: h\r\nx-DATA-parallel-Rank: 7\r\nX-A: 1\r\n"
              "X-data-parallel-rank: 8\r\nx-request-id: id\r\n\r\n");
    how.rank = slice_str("3");
    CHECK_STR(request(text, &how), "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-request-id: id\r\n"
                                   "X-data-parallel-rank: 3\r\n\r\n");
}

TEST(a_trace_passes_as_it_is_or_with_us_as_its_parent)
{
    struct http_forward_request how = {.request_id = slice_str("id"), .keep_authorization = true};
    const char *text = "GET / HTTP/1.1\r\nHost: h\r\nTraceParent: not even one\r\n"
                       "tracestate: a=1\r\nX-A: 1\r\nTracestate: b=2\r\n\r\n";
    CHECK_STR(request(text, &how),
              "GET / HTTP/1.1\r\nHost: h\r\nTraceParent: not even one\r\ntracestate: a=1\r\n"
              "X-A: 1\r\nTracestate: b=2\r\nx-request-id: id\r\n\r\n");
    how.traceparent = slice_str("00-7-8-01");
    CHECK_STR(request(text, &how),
              "GET / HTTP/1.1\r\nHost: h\r\ntracestate: a=1\r\nX-A: 1\r\nTracestate: b=2\r\n"
              "x-request-id: id\r\ntraceparent: 00-7-8-01\r\n\r\n");
    how.begins_trace = true;
    CHECK_STR(request(text, &how), "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-request-id: id\r\n"
                                   "traceparent: 00-7-8-01\r\n\r\n");
}

TEST(a_response_keeps_status_reason_and_repeated_fields)
{
    struct http_forward_response how = {
        .chunked = true, .request_id = slice_str("id"), .backend = slice_str("http://b")};
    CHECK_STR(
        answer("HTTP/1.1 418 I am a teapot\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
               "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
               &how),
        "HTTP/1.1 418 I am a teapot\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
        "transfer-encoding: chunked\r\nx-request-id: id\r\nx-warmpath-backend: http://b\r\n\r\n");
}

TEST(a_response_says_whether_the_connection_stays)
{
    struct http_forward_response close = {.close = true};
    CHECK_STR(
        answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Request-Id: b\r\n\r\n", &close),
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Request-Id: b\r\nconnection: close\r\n\r\n");
    struct http_forward_response keep = {.say_keep_alive = true};
    CHECK_STR(answer("HTTP/1.1 204\r\n\r\n", &keep),
              "HTTP/1.1 204 \r\nconnection: keep-alive\r\n\r\n");
}
