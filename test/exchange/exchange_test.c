// SPDX-License-Identifier: Apache-2.0

#include "exchange/exchange_internal.h"
#include "proxy/rig.h"
#include "test.h"

#include <poll.h>
#include <sys/socket.h>

#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r\r\n"                    \
    "transfer-encoding: chunked\r\n\r\n"

static struct rig rig;

TEST(a_request_and_its_answer_pass_byte_for_byte)
{
    static const char request[] = "POST /v1/chat/completions?x=%20y HTTP/1.1\r\n"
                                  "Host: example.org\r\nX-Request-ID: one\r\nx-ODD-case: a  b\r\n"
                                  "Content-Length: 17\r\n\r\n{\"model\":\"m\",  1}";
    static const char answer[] =
        "HTTP/1.1 207 Many Things\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n"
        "X-Request-Id: two\r\nContent-Length: 3\r\n\r\n\x01\xff\n";
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(rig_ask(&rig, request, &pair));
    CHECK(peer_send(pair.backend, answer));
    CHECK(peer_expect(pair.client, answer));
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(rig_totals(&rig).request_count, 1);
    CHECK(rig_stop(&rig));
}

TEST(requests_sent_ahead_are_answered_one_by_one_and_in_order)
{
    static const char first[] = "POST /1 HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                                "content-length: 5\r\n\r\nhello";
    static const char second[] = "GET /2 HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n";
    static const char third[] = "POST /3 HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                                "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    char all[1024];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    snprintf(all, sizeof(all), "%s%s%s", first, second, third);
    CHECK(peer_send(client, all));
    struct peer *backend = rig_accept(&rig, 0);
    const char *requests[] = {first, second, third};
    for (uint32_t i = 0; i < 3; i++) {
        char answer[128];
        snprintf(answer, sizeof(answer),
                 "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 1\r\n\r\n%u", i);
        CHECK(peer_expect(backend, requests[i]));
        CHECK(peer_is_silent(backend)); // the next one waits for its turn
        CHECK(peer_is_silent(client));
        CHECK(peer_send(backend, answer));
        CHECK(peer_expect(client, answer));
    }
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

// `request` reaches the backend as RIG_GET and brings back `answer`.
static bool comes_back(struct peer *client, struct peer **backend, const char *request,
                       const char *answer)
{
    if (!peer_send(client, request)) {
        return false;
    }
    *backend = *backend == NULL ? rig_accept(&rig, 0) : *backend;
    return peer_expect(*backend, RIG_GET) && peer_send(*backend, RIG_OK) &&
           peer_expect(client, answer);
}

TEST(a_connection_goes_on_or_ends_as_the_request_says)
{
    static const struct {
        const char *version;
        const char *connection;
        const char *answered; // what the answer's head says of it
        bool goes_on;
    } cases[] = {
        {"1.1", "", "", true},
        {"1.1", "connection: keep-alive\r\n", "", true},
        {"1.1", "connection: close\r\n", "connection: close\r\n", false},
        {"1.0", "", "connection: close\r\n", false},
        {"1.0", "connection: keep-alive\r\n", "connection: keep-alive\r\n", true},
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *backend = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char request[256];
        char answer[256];
        struct peer *client = rig_connect(&rig);
        snprintf(request, sizeof(request), "GET /a HTTP/%s\r\nhost: h\r\nx-request-id: r\r\n%s\r\n",
                 cases[i].version, cases[i].connection);
        snprintf(answer, sizeof(answer),
                 "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n%s\r\nok",
                 cases[i].answered);
        CHECK(comes_back(client, &backend, request, answer));
        CHECK(!cases[i].goes_on || comes_back(client, &backend, request, answer));
        CHECK(cases[i].goes_on ? peer_is_silent(client) : peer_expect_end(client));
        peer_close(client);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_request_that_does_not_arrive_in_time_is_told_so)
{
    static const char *const parts[] = {
        "G",
        "GET /a HTTP/1.1\r\nhost: h\r\n",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n12345678",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 900000\r\n\r\n12345678",
        "POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    };
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {header: 50ms, body: 50ms}"}));
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, parts[i]));
        CHECK(peer_expect_problem(client, 408, "request_timeout"));
        CHECK(peer_expect_end(client));
        peer_close(client);
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_body_may_take_long_as_long_as_it_moves)
{
    CHECK(
        rig_start(&rig, &(struct rig_options){.config = "timeouts: {header: 400ms, body: 400ms}"}));
    static const char request[] =
        "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\ncontent-length: 8\r\n\r\n12345678";
    struct peer *client = rig_connect(&rig);
    size_t head_size = sizeof(request) - 1 - 8;
    CHECK(peer_send_bytes(client, request, head_size));
    for (size_t i = 0; i < 8; i++) {
        poll(NULL, 0, 100); // 800 ms in all, twice of what a silence may last
        CHECK(peer_send_bytes(client, request + head_size + i, 1));
    }
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, request));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(a_backend_that_does_not_accept_is_a_connect_timeout)
{
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "timeouts: {connect: 50ms}", .refusing = 1}));
    rig_choke(&rig, 0);
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect_problem(client, 504, "connect_timeout"));
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), 1);
    CHECK(peer_is_silent(client)); // the request was all here: the connection goes on
    CHECK(rig_stop(&rig));
}

TEST(a_backend_that_does_not_begin_to_answer_is_a_first_byte_timeout_and_is_not_retried)
{
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = "timeouts: {first_byte: 50ms}", .backend_count = 2}));
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_expect_problem(pair.client, 504, "first_byte_timeout"));
    CHECK(peer_expect_end(pair.backend));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_becomes_idle(&rig));
    // A part of a head does not begin the response.
    struct peer *client = rig_connect(&rig);
    uint32_t index;
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\ncontent-"));
    CHECK(peer_expect_problem(client, 504, "first_byte_timeout"));
    CHECK(rig_stop(&rig));
}

TEST(a_request_has_a_deadline_as_a_whole)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {request: 100ms}"}));
    // While its body comes in,
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n123"));
    CHECK(peer_expect_problem(client, 504, "whole_request_timeout"));
    CHECK(peer_expect_end(client));
    // while the backend thinks,
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_expect_problem(pair.client, 504, "whole_request_timeout"));
    CHECK(peer_expect_end(pair.backend));
    CHECK(rig_becomes_idle(&rig));
    // and the next request on the connection has its own.
    CHECK(peer_send(pair.client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_expect_problem(pair.client, 504, "whole_request_timeout"));
    CHECK(rig_stop(&rig));
}

TEST(a_stream_is_cut_at_the_deadline_of_the_request_however_lively_it_is)
{
    char rest[65536];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {request: 500ms}"}));
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    CHECK(peer_expect(pair.client, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    // Many more than come in half a second; the proxy hangs up on us before the end.
    uint32_t sent = 0;
    while (sent < 5000 && send(pair.backend->fd, "8\r\ndata: 2\n\r\n", 13, MSG_NOSIGNAL) == 13) {
        poll(NULL, 0, 1);
        sent++;
    }
    CHECK(sent < 5000);
    CHECK(peer_read_rest(pair.client, rest, sizeof(rest)));
    CHECK(strstr(rest, "\"code\":\"whole_request_timeout\"}}\n\n\r\n") != NULL);
    CHECK(strstr(rest, "\r\n0\r\n\r\n") == NULL);
    CHECK(rig_stop(&rig));
}

static void never(struct timer *timer)
{
    (void)timer;
    ASSERT(false);
}

TEST(a_deadline_that_has_passed_is_not_forgotten_when_a_wait_begins)
{
    static struct worker worker;
    static struct exchange x;
    struct client client = {.worker = &worker, .timer.fire = never};
    CHECK_EQ(loop_create(&worker.loop), STATUS_OK);
    x = (struct exchange){.worker = &worker, .client = &client};
    uint64_t now_ms = loop_now_ms(worker.loop);
    x.request_deadline_ms = now_ms - 5; // its timer is about to fire, but another event came first
    exchange_wait(&x, WAIT_BACKEND, 1000);
    CHECK_EQ(x.wait, WAIT_BACKEND);
    CHECK_EQ(client.deadline_ms, now_ms + 1);
    // The nearer of the two counts.
    x.request_deadline_ms = now_ms + 500;
    exchange_wait(&x, WAIT_BACKEND, 1000);
    CHECK_EQ(client.deadline_ms, now_ms + 500);
    exchange_wait(&x, WAIT_BACKEND, 400);
    CHECK_EQ(client.deadline_ms, now_ms + 400);
    exchange_wait(&x, WAIT_BACKEND, 0); // no limit of its own
    CHECK_EQ(client.deadline_ms, now_ms + 500);
    // The time of a stalled side runs on; that of the other side begins.
    exchange_stall(&x, WAIT_BACKEND, 100);
    CHECK_EQ(client.deadline_ms, now_ms + 500);
    exchange_stall(&x, WAIT_CLIENT, 100);
    CHECK_EQ(client.deadline_ms, now_ms + 100);
    CHECK_EQ(x.wait, WAIT_CLIENT);
    loop_disarm(worker.loop, &client.timer);
    loop_destroy(&worker.loop);
}

TEST(silence_between_two_chunks_ends_the_stream)
{
    char rest[1024];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {between_chunks: 300ms}"}));
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    CHECK(peer_expect(pair.client, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    // Bytes from the client do not extend the backend's time.
    uint32_t said = 0;
    char byte;
    while (said < 100 && recv(pair.backend->fd, &byte, 1, MSG_PEEK) == -1) {
        CHECK(peer_send(pair.client, "G"));
        poll(NULL, 0, 20);
        said++;
    }
    CHECK(said < 100);
    CHECK(peer_expect_end(pair.backend));
    CHECK(peer_read_rest(pair.client, rest, sizeof(rest)));
    CHECK(strstr(rest, "\"code\":\"chunk_timeout\"}}\n\n\r\n") != NULL);
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), 1);
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_takes_nothing_counts_as_gone_although_the_backend_talks_on)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {unread: 300ms}"}));
    struct peer *client = rig_connect_slow(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"));
    // As much as fits on the way to the client, and then a byte now and then.
    size_t filled = 0;
    while (rig_totals(&rig).buffers_in_use == 0 && filled < 32 << 20) {
        filled += peer_fill(backend, 65536);
    }
    CHECK_EQ(rig_totals(&rig).buffers_in_use, 1);
    uint32_t sent = 0;
    while (sent < 100 && send(backend->fd, "x", 1, MSG_NOSIGNAL) == 1) {
        poll(NULL, 0, 20);
        sent++;
    }
    CHECK(sent < 100);
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_has_connections(&rig, 0));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_reads_slowly_is_waited_for)
{
    char bytes[1000];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "timeouts: {unread: 600ms}"}));
    struct peer *client = rig_connect_slow(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"));
    (void)peer_fill(backend, 32 << 20);
    // So little that the kernel does not think it worth mentioning.
    for (uint32_t i = 0; i < 20; i++) {
        poll(NULL, 0, 100);
        CHECK(recv(client->fd, bytes, sizeof(bytes), 0) > 0);
    }
    CHECK_EQ(rig_totals(&rig).in_flight, 1);
    CHECK(rig_becomes_idle(&rig)); // and when it reads no more, no longer
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_leaves_before_the_first_byte_stops_the_backend)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_close(pair.client);
    CHECK(peer_expect_end(pair.backend));
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_reset(pair.client);
    CHECK(peer_expect_end(pair.backend));
    CHECK(rig_has_no_call(&rig)); // nobody is asked in their place
    CHECK(rig_becomes_idle(&rig));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(atomic_load(&rig.backends[i].backend->shared.failure_count), 0);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_leaves_in_the_middle_of_a_stream_stops_the_backend)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    CHECK(peer_expect(pair.client, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    peer_close(pair.client);
    CHECK(peer_expect_end(pair.backend));
    CHECK(rig_becomes_idle(&rig));
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), 0);
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_leaves_in_the_middle_of_its_request_reaches_no_backend)
{
    static const char *const parts[] = {
        "GET /a HT",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n123",
        "POST /a HTTP/1.1\r\nhost: h\r\ncontent-length: 900000\r\n\r\n123",
        "POST /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, parts[i]));
        CHECK(rig_turn(&rig));
        peer_close(client);
        CHECK(rig_has_connections(&rig, 0));
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_ends_its_side_gets_its_answer_only_with_half_close)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "half_close: true"}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_finish(pair.client);
    CHECK(rig_turn(&rig));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(peer_expect_end(pair.client));
    CHECK(rig_replan(&rig, "half_close: false"));
    peer_close(pair.client);
    peer_close(pair.backend);
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_finish(pair.client);
    CHECK(peer_expect_end(pair.backend));
    CHECK(peer_expect_reset(pair.client));
    CHECK(rig_stop(&rig));
}

enum act { STAYS, CLOSES, RESETS };

struct ending {
    const char *request;
    const char *answer; // NULL: the request reaches no backend
    enum act backend;   // what it does after its answer
    int status;         // 0: the client goes before it has seen any
};

#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

// Every way in which a request can end, but for those by time, which are above.
static const struct ending endings[] = {
    {RIG_GET, RIG_OK, STAYS, 200},
    {RIG_GET, RIG_OK, CLOSES, 200},
    {RIG_GET, RIG_OK, RESETS, 200},
    {RIG_GET, "HTTP/1.1 204 No Content\r\n\r\n", STAYS, 204},
    {RIG_GET, "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", STAYS, 304},
    {RIG_GET, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more", STAYS, 200},
    {RIG_GET, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", CLOSES, 200},
    {RIG_GET, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", RESETS, 200},
    {RIG_GET, "HTTP/1.1 200 OK\r\n\r\nall of it", CLOSES, 200},
    {RIG_GET, "HTTP/1.1 200 OK\r\n\r\nall of it", RESETS, 200},
    {RIG_GET, STREAM_HEAD "2\r\nok\r\n0\r\n\r\n", STAYS, 200},
    {RIG_GET, STREAM_HEAD "2\r\nok\r\n", CLOSES, 200},
    {RIG_GET, STREAM_HEAD "2\r\nok\r\n", RESETS, 200},
    {RIG_GET, STREAM_HEAD "2\r\nok\r\nxx", STAYS, 200},
    {RIG_GET, STREAM_HEAD "not a chunk", STAYS, 200},
    {RIG_GET, "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", STAYS, 500},
    {RIG_GET, "HTTP/1.1 429 Later\r\ncontent-length: 0\r\n\r\n", STAYS, 429},
    {RIG_GET, "HTTP/1.1 101 Switching\r\n\r\n", STAYS, 502},
    {RIG_GET, "SSH-2.0-OpenSSH\r\n", STAYS, 502},
    {RIG_GET, "", CLOSES, 502},
    {RIG_GET, "", RESETS, 502},
    {RIG_GET, "HTTP/1.1 200 O", CLOSES, 502},
    {RIG_GET, "", STAYS, 0},
    {RIG_GET, "HTTP/1.1 200 O", STAYS, 0},
    {POST "content-length: 2\r\n\r\nhi", RIG_OK, STAYS, 200},
    {POST "content-length: 2\r\n\r\nhi", "", RESETS, 502},
    {POST "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", RIG_OK, STAYS, 200},
    {POST "transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "", STAYS, 0},
    {POST "transfer-encoding: chunked\r\n\r\nhi", NULL, STAYS, 400},
    {POST "content-length: 3000000\r\n\r\n", NULL, STAYS, 413},
    {POST "content-length: 200000\r\n\r\n", NULL, STAYS, 0},
    {"GET /blocked HTTP/1.1\r\nhost: h\r\n\r\n", NULL, STAYS, 403},
    {"GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n", NULL, STAYS, 200},
    {"GET /a HTTP/1.1\r\n\r\n", NULL, STAYS, 400},
    {"nonsense\r\n\r\n", NULL, STAYS, 400},
};

static bool play(const struct ending *ending)
{
    struct peer *client = rig_connect(&rig);
    struct peer *backend = NULL;
    char head[4096];
    char wanted[32];

    if (!peer_send(client, ending->request)) {
        return false;
    }
    if (ending->answer != NULL) {
        backend = rig_accept(&rig, 0);
        if (!peer_expect(backend, ending->request) || !peer_send(backend, ending->answer)) {
            return false;
        }
    }
    if (ending->backend != STAYS) {
        (ending->backend == CLOSES ? peer_close : peer_reset)(backend);
    }
    snprintf(wanted, sizeof(wanted), "HTTP/1.1 %d ", ending->status);
    bool seen = ending->status == 0 ? rig_turn(&rig)
                                    : peer_read_head(client, head, sizeof(head)) &&
                                          strncmp(head, wanted, strlen(wanted)) == 0;
    peer_close(client);
    bool idle = rig_becomes_idle(&rig) && rig_has_connections(&rig, 0);
    peer_close(backend);
    if (!seen || !idle) {
        printf("# ending %td\n", ending - endings);
    }
    return seen && idle;
}

TEST(however_a_request_ends_nothing_stays_behind)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "blocked_paths: [/blocked]\n"
                                                          "health: {eject_failures: 0}"}));
    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        CHECK(play(&endings[i]));
    }
    CHECK(rig_stop(&rig));
}

TEST(a_request_that_expires_when_no_buffer_is_left_ends_once)
{
    enum { body_size = 16 << 20 };
    char head[256];
    // The pool has 2 * requests + connections buffers: four.
    CHECK(rig_start(&rig, &(struct rig_options){
                              .config = "timeouts: {header: 300ms}\n"
                                        "limits: {connections: 2, requests: 1, body_size: 32m, "
                                        "body_memory: 64m}"}));
    // One holds what came of its head, the head for a backend that does not read, and what came of
    // the answer's head.
    struct peer *client = rig_connect(&rig);
    snprintf(head, sizeof(head), POST "content-length: %d\r\n\r\n", body_size);
    CHECK(peer_send(client, head));
    CHECK(peer_send_zeros(client, body_size));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\n"));
    CHECK_EQ(rig_totals(&rig).buffers_in_use, 3);
    // The other one holds the last, so nobody can tell it that it was too slow.
    struct peer *slow = rig_connect(&rig);
    CHECK(peer_send(slow, "GET /a HTTP/1.1\r\n"));
    CHECK(peer_expect_reset(slow));
    CHECK(rig_has_connections(&rig, 1));
    peer_close(client);
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_stop(&rig));
}

TEST(the_rows_of_the_step_table_do_not_contradict_themselves)
{
#define STEP(name, ...) &step_##name,
    static const struct step *const steps[] = {
#include "exchange/steps.def"
    };
#undef STEP
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        const struct step *step = steps[i];
        CHECK_EQ(step->needs & step->excludes, 0);
        CHECK(step->run != NULL && step->expire != NULL);
        CHECK(step->backend_gone != NULL && step->client_gone != NULL);
        // A step can lose its backend only if it may have one.
        bool has_backend = (step->excludes & HAS_BACKEND) == 0;
        CHECK_EQ(step->backend_gone != step_impossible, has_backend);
        // A step that can park on a peer can see its deadline pass.
        bool may_expire = (step->waits & (WAIT_CLIENT | WAIT_BACKEND | WAIT_TIME)) != 0;
        CHECK_EQ(step->expire != step_impossible, may_expire);
    }
}
