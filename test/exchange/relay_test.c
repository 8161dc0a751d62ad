// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"
#include "http/problem.h"
#include "proxy/rig.h"
#include "test.h"

#define ID "x-request-id: r\r\n"
#define LENGTH_HEAD "HTTP/1.1 200 OK\r\n" ID "content-length: "
#define CHUNKED_HEAD "HTTP/1.1 200 OK\r\n" ID "transfer-encoding: chunked\r\n\r\n"
#define STREAM_TYPE "content-type: text/event-stream; charset=utf-8\r\n"
#define STREAM_HEAD "HTTP/1.1 200 OK\r\n" STREAM_TYPE ID "transfer-encoding: chunked\r\n\r\n"
#define GET10 "GET /a HTTP/1.0\r\nhost: h\r\nx-request-id: r\r\n\r\n"

static struct rig rig;

// Sends `request`, which reaches the backend as RIG_GET.
static bool ask(const char *request, struct rig_pair *pair)
{
    pair->client = rig_connect(&rig);
    if (!peer_send(pair->client, request)) {
        return false;
    }
    pair->backend = rig_accept(&rig, 0);
    return peer_expect(pair->backend, RIG_GET);
}

static void close_both(struct rig_pair *pair)
{
    peer_close(pair->client);
    peer_close(pair->backend);
}

// Whether the connection that the backend has can serve another request.
static bool is_reused(struct rig_pair *pair)
{
    return peer_send(pair->client, RIG_GET) && peer_expect(pair->backend, RIG_GET) &&
           peer_send(pair->backend, RIG_OK) && peer_expect(pair->client, RIG_OK) &&
           rig_has_no_call(&rig);
}

TEST(a_long_answer_passes_unchanged_at_full_speed)
{
    enum { size = 8 << 20 };
    static uint8_t bytes[size];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    rig_noise(bytes, size, 1);
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, LENGTH_HEAD "8388608\r\n\r\n"));
    CHECK(peer_expect(pair.client, LENGTH_HEAD "8388608\r\n\r\n"));
    CHECK(rig_pump(&(struct rig_flow){.from = pair.backend,
                                      .to = pair.client,
                                      .bytes = bytes,
                                      .size = size,
                                      .expected = bytes,
                                      .expected_size = size}));
    CHECK(is_reused(&pair));
    CHECK(rig_stop(&rig));
}

struct cut_case {
    const char *request; // reaches the backend as RIG_GET
    const char *sent;
    const char *received;
    bool ends; // the client's connection
};

// Sends the answer in two pieces that are seen one by one, cut at every place.
static bool may_be_cut(const struct cut_case *answer)
{
    struct peer *client = NULL;
    struct peer *backend = NULL;
    bool same = true;

    for (size_t cut = 1; same && cut < strlen(answer->sent); cut++) {
        client = client == NULL ? rig_connect(&rig) : client;
        same = peer_send(client, answer->request);
        backend = backend == NULL ? rig_accept(&rig, 0) : backend;
        same = same && peer_expect(backend, RIG_GET) &&
               peer_send_bytes(backend, answer->sent, cut) && rig_turn(&rig) &&
               peer_send(backend, answer->sent + cut) && peer_expect(client, answer->received);
        if (answer->ends) {
            same = same && peer_expect_end(client);
            peer_close(client);
            client = NULL;
        }
    }
    same = same && rig_has_no_call(&rig); // all on one connection
    peer_close(backend);
    return same;
}

TEST(an_answer_may_be_cut_anywhere_on_its_way)
{
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(may_be_cut(&(struct cut_case){.request = RIG_GET,
                                        .sent = LENGTH_HEAD "5\r\n\r\nhello",
                                        .received = LENGTH_HEAD "5\r\n\r\nhello"}));
    CHECK(may_be_cut(&(struct cut_case){
        .request = RIG_GET,
        .sent =
            "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" CHUNKED_HEAD
            "3;x=\"y\"\r\nabc\r\n00010;z\r\n0123456789abcdef\r\n0;last\r\nx-sum: 1\r\n\r\n",
        .received = "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" CHUNKED_HEAD
                    "3\r\nabc\r\n00010\r\n0123456789abcdef\r\n0\r\nx-sum: 1\r\n\r\n"}));
    CHECK(may_be_cut(&(struct cut_case){
        .request = GET10,
        .sent = "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" CHUNKED_HEAD
                "3;x=\"y\"\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nx-sum: 1\r\n\r\n",
        .received = "HTTP/1.1 200 OK\r\n" ID "connection: close\r\n\r\nabc0123456789abcdef",
        .ends = true}));
    CHECK(rig_stop(&rig));
}

TEST(an_answer_without_a_length_ends_with_its_connection)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\n" ID "\r\nsome"));
    CHECK(peer_expect(pair.client, "HTTP/1.1 200 OK\r\n" ID "connection: close\r\n\r\nsome"));
    CHECK(peer_send(pair.backend, " more"));
    CHECK(peer_expect(pair.client, " more"));
    peer_close(pair.backend);
    CHECK(peer_expect_end(pair.client));
    CHECK(rig_becomes_idle(&rig));
    // An end that is none must not look like one.
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\n" ID "\r\nsome"));
    CHECK(peer_expect(pair.client, "HTTP/1.1 200 OK\r\n" ID "connection: close\r\n\r\nsome"));
    peer_reset(pair.backend);
    CHECK(peer_expect_reset(pair.client));
    CHECK(rig_stop(&rig));
}

TEST(a_broken_answer_to_http_1_0_does_not_look_whole)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(ask(GET10, &pair));
    CHECK(peer_send(pair.backend, CHUNKED_HEAD "3\r\nabc\r\n"));
    CHECK(peer_expect(pair.client, "HTTP/1.1 200 OK\r\n" ID "connection: close\r\n\r\nabc"));
    peer_close(pair.backend);
    CHECK(peer_expect_reset(pair.client));
    CHECK(rig_stop(&rig));
}

TEST(answers_that_have_no_body_have_none_whatever_they_announce)
{
    static const struct {
        const char *request;
        const char *answer;
    } cases[] = {
        {"HEAD /a HTTP/1.1\r\nhost: h\r\n" ID "\r\n", LENGTH_HEAD "500\r\n\r\n"},
        {"HEAD /a HTTP/1.1\r\nhost: h\r\n" ID "\r\n", "HTTP/1.1 200 OK\r\n" ID "\r\n"},
        {RIG_GET, "HTTP/1.1 204 No Content\r\n" ID "\r\n"},
        {RIG_GET, "HTTP/1.1 304 Not Modified\r\n" ID "content-length: 500\r\n\r\n"},
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rig_pair pair;
        CHECK(rig_ask(&rig, cases[i].request, &pair));
        CHECK(peer_send(pair.backend, cases[i].answer));
        CHECK(peer_expect(pair.client, cases[i].answer));
        CHECK(is_reused(&pair));
        close_both(&pair);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_slow_client_slows_its_backend_and_costs_two_buffers_at_most)
{
    enum { size = 32 << 20 };
    static const uint8_t zeros[size];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect_slow(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, LENGTH_HEAD "33554432\r\n\r\n"));
    size_t sent = peer_fill(backend, size);
    CHECK(sent < size); // it could not get rid of all
    CHECK(rig_totals(&rig).buffers_in_use <= 2);
    CHECK(rig_totals(&rig).buffers_in_use > 0);
    // And once the client reads, everything comes.
    CHECK(peer_expect(client, LENGTH_HEAD "33554432\r\n\r\n"));
    CHECK(rig_pump(&(struct rig_flow){.from = backend,
                                      .to = client,
                                      .bytes = zeros,
                                      .size = size - sent,
                                      .expected = zeros,
                                      .expected_size = size}));
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_backend_is_done_when_its_answer_is_in_however_slowly_the_client_reads)
{
    enum { portion = 16384, most = 32 << 20 };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    // How much does the kernel take before a part stays with the proxy?
    struct peer *client = rig_connect_slow(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, LENGTH_HEAD "33554432\r\n\r\n"));
    size_t size = 0;
    while (size < most && rig_totals(&rig).buffers_in_use == 0) {
        CHECK(peer_send_zeros(backend, portion));
        size += portion;
    }
    CHECK(size < most);
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.in_flight), 1);
    peer_close(client);
    CHECK(peer_expect_gone(backend));
    // An answer of that size is all here, and partly with the proxy.
    client = rig_connect_slow(&rig);
    CHECK(peer_send(client, RIG_GET));
    backend = rig_accept(&rig, 0);
    char head[128];
    snprintf(head, sizeof(head), LENGTH_HEAD "%zu\r\n\r\n", size);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, head));
    for (size_t sent = 0; sent < size; sent += portion) {
        CHECK(peer_send_zeros(backend, portion));
        CHECK(rig_turn(&rig));
    }
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.in_flight), 0);
    // Its connection serves the next one meanwhile.
    struct peer *other = rig_connect(&rig);
    CHECK(peer_send(other, RIG_GET));
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(other, RIG_OK));
    CHECK(peer_expect(client, head));
    CHECK(rig_stop(&rig));
}

TEST(a_stream_that_flows_holds_no_buffer_and_no_request)
{
    enum { read_size = 32768 }; // of a default configuration
    static const uint8_t zeros[read_size];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD));
    CHECK(peer_expect(pair.client, STREAM_HEAD));
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(peer_send(pair.backend, "9\r\ndata: 1\n\n\r\n"));
        CHECK(peer_expect(pair.client, "9\r\ndata: 1\n\n\r\n"));
        CHECK_EQ(rig_totals(&rig).buffers_in_use, 0);
    }
    CHECK(peer_send(pair.backend, "0\r\n\r\n"));
    CHECK(peer_expect(pair.client, "0\r\n\r\n"));
    CHECK(is_reused(&pair));
    // Nor does one that comes in portions as large as the reads, behind which there may be more.
    CHECK(peer_send(pair.client, RIG_GET));
    CHECK(peer_expect(pair.backend, RIG_GET));
    CHECK(peer_send(pair.backend, LENGTH_HEAD "10000000\r\n\r\n"));
    CHECK(peer_expect(pair.client, LENGTH_HEAD "10000000\r\n\r\n"));
    for (uint32_t i = 0; i < 10; i++) {
        CHECK(peer_send_bytes(pair.backend, zeros, read_size));
        CHECK(peer_expect_bytes(pair.client, zeros, read_size));
        CHECK_EQ(rig_totals(&rig).buffers_in_use, 0);
    }
    CHECK(rig_stop(&rig));
}

static char event[1024];
static size_t event_size;

static void write_event(enum http_problem problem)
{
    struct text text = text_over(event, sizeof(event) - 1);
    text_add_str(&text, "\n\ndata: ");
    http_problem_document(problem, (struct slice){0}, &text);
    text_add_str(&text, "\n\n");
    event_size = text.size;
    event[event_size] = '\0';
}

enum where {
    NOWHERE,
    OWN_CHUNK,   // framed as a chunk of its own
    IN_CHUNK,    // as a part of the chunk that was begun
    BEHIND_FILL, // the chunk that was begun is filled up and ended first
    BEHIND_LF    // so is one of which only the last byte was missing
};

// The client's bytes after `relayed` bytes of an event stream whose backend then went away.
static bool breaks_as(const char *head, const char *relayed, uint64_t left, enum where where)
{
    struct rig_pair pair;
    char wanted[4096];
    struct text text = text_over(wanted, sizeof(wanted) - 1);

    if (!ask(RIG_GET, &pair) || !peer_send(pair.backend, head) ||
        !peer_send(pair.backend, relayed) || !peer_expect(pair.client, head) ||
        !peer_expect(pair.client, relayed)) {
        return false;
    }
    peer_close(pair.backend);
    for (uint64_t i = 0; where == BEHIND_FILL && i < left; i++) {
        text_add_str(&text, "\n");
    }
    bool framed = where == OWN_CHUNK || where == BEHIND_FILL || where == BEHIND_LF;
    text_add_str(&text, where == BEHIND_FILL ? "\r\n" : where == BEHIND_LF ? "\n" : "");
    if (framed) {
        text_add_format(&text, "%zx\r\n", event_size);
    }
    text_add_str(&text, where == NOWHERE ? "" : event);
    text_add_str(&text, framed ? "\r\n" : "");
    bool same = peer_expect_bytes(pair.client, wanted, text.size) && peer_expect_end(pair.client);
    close_both(&pair);
    return same && rig_becomes_idle(&rig);
}

TEST(an_event_stream_that_breaks_off_ends_with_an_event_that_fits_where_it_broke)
{
    char begun[64];
    write_event(HTTP_PROBLEM_BAD_ANSWER);
    CHECK(rig_start(&rig, &(struct rig_options){.config = "health: {eject_failures: 0}"}));
    CHECK(breaks_as(STREAM_HEAD, "", 0, OWN_CHUNK));
    CHECK(breaks_as(STREAM_HEAD, "8\r\ndata: 1\n\r\n", 0, OWN_CHUNK));
    // In the middle of a chunk: is there room for the event in what is left of it?
    CHECK(breaks_as(STREAM_HEAD, "fffff\r\ndata: 1", 0xfffff - 7, IN_CHUNK));
    CHECK(breaks_as(STREAM_HEAD, "8\r\ndata: 1", 1, BEHIND_FILL));
    for (size_t left = event_size - 1; left <= event_size + 1; left++) {
        snprintf(begun, sizeof(begun), "%zx\r\ndata: 1", left + 7);
        CHECK(breaks_as(STREAM_HEAD, begun, left, left < event_size ? BEHIND_FILL : IN_CHUNK));
    }
    CHECK(breaks_as(STREAM_HEAD, "8\r\ndata: 1\n", 0, BEHIND_FILL));
    CHECK(breaks_as(STREAM_HEAD, "8\r\ndata: 1\n\r", 0, BEHIND_LF));
    // In the middle of a size or of the trailers nothing can be said.
    CHECK(breaks_as(STREAM_HEAD, "8", 0, NOWHERE));
    CHECK(breaks_as(STREAM_HEAD, "8\r", 0, NOWHERE));
    CHECK(breaks_as(STREAM_HEAD, "0\r\n", 0, NOWHERE));
    // Nor where it would be taken for a part of something else.
    CHECK(breaks_as(CHUNKED_HEAD, "8\r\ndata: 1\n\r\n", 0, NOWHERE));
    CHECK(breaks_as("HTTP/1.1 200 OK\r\n" STREAM_TYPE ID "content-length: 5000\r\n\r\n", "data", 0,
                    NOWHERE));
    CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), 14);
    CHECK(rig_stop(&rig));
}

TEST(an_event_stream_without_chunks_is_told_too_and_then_reset)
{
    struct rig_pair pair;
    write_event(HTTP_PROBLEM_BAD_ANSWER);
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(ask(GET10, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD "8\r\ndata: 1\n\r\n"));
    CHECK(peer_expect(pair.client,
                      "HTTP/1.1 200 OK\r\n" STREAM_TYPE ID "connection: close\r\n\r\ndata: 1\n"));
    peer_close(pair.backend);
    CHECK(peer_expect(pair.client, event));
    CHECK(peer_expect_reset(pair.client));
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\n" STREAM_TYPE ID "\r\ndata: 1\n"));
    CHECK(peer_expect(pair.client,
                      "HTTP/1.1 200 OK\r\n" STREAM_TYPE ID "connection: close\r\n\r\ndata: 1\n"));
    peer_reset(pair.backend);
    CHECK(peer_expect(pair.client, event));
    CHECK(peer_expect_reset(pair.client));
    CHECK(rig_stop(&rig));
}

TEST(a_stream_whose_chunks_are_malformed_breaks_off_there)
{
    char wanted[2048];
    struct rig_pair pair;
    write_event(HTTP_PROBLEM_BAD_ANSWER);
    snprintf(wanted, sizeof(wanted), "%zx\r\n%s\r\n", event_size, event);
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(ask(RIG_GET, &pair));
        CHECK(peer_send(pair.backend, i == 0 ? STREAM_HEAD "2\r\nok\r\nzz" : STREAM_HEAD));
        CHECK(peer_expect(pair.client, i == 0 ? STREAM_HEAD "2\r\nok\r\n" : STREAM_HEAD));
        CHECK(i == 0 || peer_send(pair.backend, "zz"));
        CHECK(peer_expect(pair.client, wanted));
        CHECK(peer_expect_end(pair.client));
        CHECK(peer_expect_end(pair.backend));
        CHECK_EQ(atomic_load(&rig.backends[0].backend->shared.failure_count), i + 1);
        close_both(&pair);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_good_head_does_not_make_up_for_answers_that_break_off)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "health: {eject_failures: 3}"}));
    struct backend *backend = rig.backends[0].backend;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(ask(RIG_GET, &pair));
        CHECK(peer_send(pair.backend, CHUNKED_HEAD "2\r\nok\r\n"));
        CHECK(peer_expect(pair.client, CHUNKED_HEAD "2\r\nok\r\n"));
        CHECK_EQ(atomic_load(&backend->shared.failures), i);
        peer_close(pair.backend);
        CHECK(peer_expect_end(pair.client));
        CHECK_EQ(atomic_load(&backend->shared.failures), i + 1);
    }
    // One that comes to its end does.
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, CHUNKED_HEAD "0\r\n\r\n"));
    CHECK(peer_expect(pair.client, CHUNKED_HEAD "0\r\n\r\n"));
    CHECK_EQ(atomic_load(&backend->shared.failures), 0);
    CHECK(rig_stop(&rig));
}

TEST(bytes_behind_the_answer_spoil_the_connection)
{
    static const char *const answers[] = {
        LENGTH_HEAD "2\r\n\r\nok",
        CHUNKED_HEAD "2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 204 No\r\n" ID "\r\n",
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < 2 * ARRAY_COUNT(answers); i++) {
        const char *answer = answers[i / 2];
        char sent[256];
        struct rig_pair pair;
        snprintf(sent, sizeof(sent), "%s%s", answer, i % 2 == 0 ? "HTTP/1.1 200 OK\r\n" : "");
        CHECK(ask(RIG_GET, &pair));
        CHECK(peer_send(pair.backend, sent));
        CHECK(peer_expect(pair.client, answer));
        CHECK(i % 2 == 0 || peer_send(pair.backend, "x")); // when it was at rest already
        CHECK(peer_expect_gone(pair.backend));
        CHECK(peer_is_silent(pair.client));
        peer_close(pair.backend);
        // The client does not notice.
        CHECK(peer_send(pair.client, RIG_GET));
        pair.backend = rig_accept(&rig, 0);
        CHECK(peer_expect(pair.backend, RIG_GET));
        CHECK(peer_send(pair.backend, RIG_OK));
        CHECK(peer_expect(pair.client, RIG_OK));
        close_both(&pair);
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK(rig_stop(&rig));
}

TEST(a_backend_that_says_close_is_closed)
{
    static const struct {
        const char *answer;
        const char *seen;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n" ID "connection: close\r\ncontent-length: 2\r\n\r\nok", RIG_OK},
        {"HTTP/1.0 200 OK\r\n" ID "content-length: 2\r\n\r\nok", RIG_OK},
    };
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct rig_pair pair;
        CHECK(ask(RIG_GET, &pair));
        CHECK(peer_send(pair.backend, cases[i].answer));
        CHECK(peer_expect(pair.client, cases[i].seen)); // that is between the two of them
        CHECK(peer_expect_end(pair.backend));
        CHECK(peer_is_silent(pair.client));
        close_both(&pair);
    }
    CHECK(rig_stop(&rig));
}
