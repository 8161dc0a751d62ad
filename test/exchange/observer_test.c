// SPDX-License-Identifier: Apache-2.0

#include "exchange/observer.h"

#include "dialect/tiny_dialect.h"
#include "fleet/traffic.h"
#include "knowledge/knowledge.h"
#include "proxy/rig.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "test.h"
#include "worker/recorder.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A pool that looks at prompts; text blocks are small so that a short prompt has some.
#define PREFIX_POOL "policy: prefix_cost\nbackend_header: false\nprefix: {block_size: 64}\n"
#define ID "x-request-id: r\r\n"
#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" ID "transfer-encoding: "              \
    "chunked\r\n\r\n"
#define SYSTEM                                                                                     \
    "You answer questions about the weather in harbours, briefly and without guessing. When the "  \
    "forecast is older than six hours you say so first. You never give advice to sailors, and "    \
    "everything that is not about the weather you refuse with one sentence and no reasons at all."
#define TURN(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define ANSWER                                                                                     \
    "There will be fog over the inner harbour until about nine, then a light wind from the west "  \
    "clears it, and the rest of the morning stays dry with good sight."
#define EVENT(text) "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define USAGE                                                                                      \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":2,"              \
    "\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
#define DONE "data: [DONE]\n\n"

static struct rig rig;
static char scratch[16384];

static const char *post(const char *fields, const char *body)
{
    snprintf(scratch, sizeof(scratch),
             "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n" ID
             "%scontent-length: %zu\r\n\r\n%s",
             fields, strlen(body), body);
    return scratch;
}

static const char *chunk(const char *data)
{
    static char framed[8192];
    snprintf(framed, sizeof(framed), "%zx\r\n%s\r\n", strlen(data), data);
    return framed;
}

// Number `name` of the decision in an answer's head; -1 when it is not there.
static int decided(const char *head, const char *name)
{
    const char *decision = strstr(head, "x-warmpath-decision: ");
    const char *field = decision == NULL ? NULL : strstr(decision, name);
    return field != NULL && field[strlen(name)] == '='
               ? (int)strtol(field + strlen(name) + 1, NULL, 10)
               : -1;
}

// A client that asks `body`; the backend has read it as it was sent.
static bool ask(const char *fields, const char *body, struct rig_pair *pair)
{
    *pair = (struct rig_pair){.client = rig_connect(&rig)};
    return peer_send(pair->client, post(fields, body)) &&
           (pair->backend = rig_accept(&rig, 0)) != NULL &&
           peer_expect(pair->backend, post(fields, body));
}

static void close_both(struct rig_pair *pair)
{
    peer_close(pair->client);
    peer_close(pair->backend);
}

// The blocks of that body that the index expects at the backend.
static int matched_blocks(const char *body)
{
    struct rig_pair pair = {0};
    char head[4096];
    bool ok = ask("x-warmpath-decision: 1\r\n", body, &pair) &&
              peer_send(pair.backend, "HTTP/1.1 400 no\r\ncontent-length: 0\r\n\r\n") &&
              peer_read_head(pair.client, head, sizeof(head));
    close_both(&pair);
    return ok ? decided(head, "matched_blocks") : -1;
}

#define CHAT(turns) "{\"model\":\"m\",\"stream\":true,\"messages\":[" turns "]}"
#define FIRST CHAT(TURN("system", SYSTEM) "," TURN("user", "Fog in Bergen?"))
// The same in one piece.
#define WHOLE "{\"model\":\"m\",\"messages\":[" TURN("system", SYSTEM) "," TURN("user", "Fog?") "]}"
#define SECOND                                                                                     \
    CHAT(TURN("system", SYSTEM) "," TURN("user", "Fog in Bergen?") "," TURN(                       \
        "assistant", ANSWER) "," TURN("user", "And in Oslo?"))

TEST(events_pass_whole_and_the_answer_extends_what_the_backend_holds)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK(ask("", FIRST, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD));
    CHECK(peer_expect(pair.client, STREAM_HEAD));
    // In two pieces, cut in the middle of the second event.
    CHECK(peer_send(pair.backend, chunk(EVENT("There will be fog") "data: {\"choi")));
    CHECK(peer_expect(pair.client, chunk(EVENT("There will be fog"))));
    CHECK(rig_turn(&rig));
    CHECK(peer_is_silent(pair.client));
    static const char rest[] =
        "ces\":[{\"index\":0,\"delta\":{\"content\":\" over the inner harbour until about nine, "
        "then a light wind from the west clears it, and the rest of the morning stays dry with "
        "good sight.\"}}]}\n\n" DONE;
    CHECK(peer_send(pair.backend, chunk(rest)));
    char whole[1024];
    snprintf(whole, sizeof(whole), "data: {\"choi%s", rest);
    CHECK(peer_expect(pair.client, chunk(whole)));
    CHECK(peer_send(pair.backend, "0\r\n\r\n"));
    CHECK(peer_expect(pair.client, "0\r\n\r\n"));
    close_both(&pair);
    int prompt = matched_blocks(FIRST);
    CHECK(prompt >= 4);
    // The next turn begins with the answer too, which has more than two blocks.
    CHECK(matched_blocks(SECOND) >= prompt + 2);
    CHECK(rig_stop(&rig));
}

TEST(an_answer_in_one_piece_teaches_as_much)
{
    struct rig_pair pair;
    static const char body[] = "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                               "\"content\":\"" ANSWER "\"}}]}";
    char answer[2048];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 200 OK\r\n" ID
             "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
             sizeof(body) - 1, body);
    CHECK(ask("", FIRST, &pair));
    size_t half = strlen(answer) - 60;
    CHECK(peer_send_bytes(pair.backend, answer, half));
    CHECK(peer_expect_bytes(pair.client, answer, half));
    CHECK(peer_send(pair.backend, answer + half));
    CHECK(peer_expect(pair.client, answer + half));
    close_both(&pair);
    CHECK(matched_blocks(SECOND) >= matched_blocks(FIRST) + 2);
    CHECK(rig_stop(&rig));
}

TEST(a_refused_prompt_is_not_believed_to_be_cached)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK(rig_stop(&rig));
}

TEST(a_prompt_whose_client_left_is_not_believed_to_be_cached)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK(ask("", FIRST, &pair));
    peer_close(pair.client);
    CHECK(peer_expect_gone(pair.backend));
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK(rig_stop(&rig));
}

#define ASKED                                                                                      \
    "{\"stream_options\":{\"include_usage\":true},\"model\":\"m\",\"stream\":true,\"messages\":"   \
    "[" TURN("user", "Fog?") "]}"
#define NOT_ASKED "{\"model\":\"m\",\"stream\":true,\"messages\":[" TURN("user", "Fog?") "]}"

TEST(usage_is_asked_for_and_hidden_from_whoever_did_not_ask)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL "ask_usage: true\n"}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, post("connection: close\r\n", NOT_ASKED)));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, post("", ASKED)));
    CHECK(peer_send(backend, STREAM_HEAD));
    CHECK(peer_send(backend, chunk(EVENT("Yes."))));
    CHECK(peer_send(backend, chunk(USAGE DONE)));
    CHECK(peer_send(backend, "0\r\n\r\n"));
    char text[4096];
    CHECK(peer_read_rest(client, text, sizeof(text)));
    CHECK(strstr(text, "Yes.") != NULL);
    CHECK(strstr(text, "[DONE]") != NULL);
    CHECK(strstr(text, "usage") == NULL);
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_asked_for_usage_gets_it)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL "ask_usage: true\n"}));
    CHECK(ask("", ASKED, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD));
    CHECK(peer_expect(pair.client, STREAM_HEAD));
    CHECK(peer_send(pair.backend, chunk(USAGE DONE)));
    CHECK(peer_expect(pair.client, chunk(USAGE DONE)));
    CHECK(rig_stop(&rig));
}

TEST(without_leave_nothing_is_asked)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK(ask("", NOT_ASKED, &pair));
    CHECK(rig_stop(&rig));
}

TEST(an_event_without_an_end_passes_in_spite_of_it)
{
    enum { size = 3 * observer_tail_max };
    static char event[size];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK(ask("", FIRST, &pair));
    CHECK(peer_send(pair.backend,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" ID "\r\n"));
    static const char field[] = {'d', 'a', 't', 'a', ':', ' '};
    memset(event, 'x', size);
    memcpy(event, field, sizeof(field));
    CHECK(peer_send_bytes(pair.backend, event, size));
    peer_close(pair.backend);
    char head[1024];
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK_EQ(peer_drain(pair.client), size);
    CHECK(rig_stop(&rig));
}

// The body of an answer in chunks that a client has got, without its frames; SIZE_MAX when these
// are wrong or do not come to their end.
static size_t unframed(const char *framed, char *out)
{
    size_t total = 0;
    for (;;) {
        char *end = NULL;
        size_t size = strtoul(framed, &end, 16);
        if (end == framed || strncmp(end, "\r\n", 2) != 0 || strlen(end + 2) < size + 2 ||
            strncmp(end + 2 + size, "\r\n", 2) != 0) {
            return SIZE_MAX;
        }
        memcpy(out + total, end + 2, size);
        total += size;
        framed = end + 2 + size + 2;
        if (size == 0) {
            out[total] = '\0';
            return *framed == '\0' ? total : SIZE_MAX;
        }
    }
}

// The backend's answer comes in two parts; the client gets a whole answer whose body is `body`.
static bool passes_cut_at(const char *answer, size_t at, const char *body)
{
    static char text[8192];
    static char data[8192];
    struct peer *client = rig_connect(&rig);
    bool ok = peer_send(client, post("connection: close\r\n", NOT_ASKED));
    struct peer *backend = rig_accept(&rig, 0);
    ok = ok && peer_expect(backend, post("", ASKED)) && peer_send_bytes(backend, answer, at) &&
         rig_turn(&rig) && peer_send(backend, answer + at) &&
         peer_read_rest(client, text, sizeof(text));
    const char *framed = ok ? strstr(text, "\r\n\r\n") : NULL;
    ok = framed != NULL && unframed(framed + 4, data) != SIZE_MAX && strcmp(data, body) == 0;
    peer_close(client);
    peer_close(backend);
    return ok;
}

TEST(a_watched_stream_may_be_cut_anywhere_on_its_way)
{
    static const char events[] = EVENT("Yes.") ": alive\r\n\r\n" EVENT("No.") USAGE DONE;
    static const char shown[] = EVENT("Yes.") ": alive\r\n\r\n" EVENT("No.") DONE;
    char answer[4096];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL "ask_usage: true\n"}));
    // Two chunks whose border is in the middle of the usage, then the last one.
    enum { border = sizeof(EVENT("Yes.") ": alive\r\n\r\n" EVENT("No.")) + 30 };
    snprintf(answer, sizeof(answer), STREAM_HEAD "%x\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n", border,
             border, events, sizeof(events) - 1 - border, events + border);
    size_t at = 1;
    while (at < strlen(answer) && passes_cut_at(answer, at, shown)) {
        at++;
    }
    CHECK_EQ(at, strlen(answer)); // or where it was cut
    CHECK(rig_stop(&rig));
}

TEST(a_stream_to_http_1_0_and_one_without_chunks_pass_whole)
{
    static const char *const heads[] = {
        STREAM_HEAD, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" ID "\r\n"};
    char text[4096];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    for (int i = 0; i < 4; i++) {
        bool is_chunked = i % 2 == 0;
        bool is_old = i < 2;
        if (is_chunked && !is_old) {
            continue; // shown elsewhere
        }
        struct peer *client = rig_connect(&rig);
        char request[1024];
        snprintf(request, sizeof(request),
                 "POST /v1/chat/completions HTTP/1.%d\r\nhost: h\r\ncontent-length: %zu\r\n\r\n%s",
                 is_old ? 0 : 1, strlen(NOT_ASKED), NOT_ASKED);
        CHECK(peer_send(client, request));
        struct peer *backend = rig_accept(&rig, 0);
        CHECK(peer_read_head(backend, text, sizeof(text)));
        CHECK(peer_expect(backend, NOT_ASKED));
        CHECK(peer_send(backend, heads[i % 2]));
        CHECK(peer_send(backend,
                        is_chunked ? chunk(EVENT("Yes.") "data: ") : EVENT("Yes.") "data: "));
        CHECK(rig_turn(&rig));
        CHECK(peer_send(backend, is_chunked ? chunk("[DONE]\n") : "[DONE]\n")); // not ended
        CHECK(!is_chunked || peer_send(backend, "0\r\n\r\n"));
        peer_close(backend);
        CHECK(peer_read_rest(client, text, sizeof(text)));
        CHECK(strstr(text, "\r\n\r\n" EVENT("Yes.") "data: [DONE]\n") != NULL);
        peer_close(client);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_held_back_event_is_left_out_when_the_stream_breaks)
{
    struct rig_pair pair;
    char text[4096];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK(ask("", FIRST, &pair));
    CHECK(peer_send(pair.backend, STREAM_HEAD));
    CHECK(peer_send(pair.backend, chunk(EVENT("Yes.") "data: {\"choices\":[{\"half")));
    CHECK(rig_turn(&rig));
    peer_close(pair.backend);
    CHECK(peer_read_rest(pair.client, text, sizeof(text)));
    CHECK(strstr(text, "Yes.") != NULL);
    CHECK(strstr(text, "half") == NULL);
    CHECK(strstr(text, "\n\ndata: {\"error\"") != NULL);
    CHECK(strstr(text, "\r\n0\r\n") == NULL);
    CHECK(rig_stop(&rig));
}

TEST(a_document_that_no_block_holds_passes_unread)
{
    enum { size = 3 << 20 };
    static uint8_t body[size];
    struct rig_pair pair;
    char head[1024];
    memset(body, ' ', size);
    // Smaller than the document, and larger than the first blocks.
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL
                                                "limits: {connections: 64, requests: 64, "
                                                "backends: 8, body_size: 600k, "
                                                "body_memory: 16m}\n"}));
    CHECK(ask("", FIRST, &pair));
    snprintf(head, sizeof(head),
             "HTTP/1.1 200 OK\r\n" ID
             "content-type: application/json\r\ncontent-length: %d\r\n\r\n",
             size);
    CHECK(peer_send(pair.backend, head));
    CHECK(peer_expect(pair.client, head));
    CHECK(rig_pump(&(struct rig_flow){.from = pair.backend,
                                      .to = pair.client,
                                      .bytes = body,
                                      .size = size,
                                      .expected = body,
                                      .expected_size = size}));
    close_both(&pair);
    CHECK(rig_stop(&rig));
}

TEST(a_chunked_request_is_asked_for_usage_in_its_one_chunk)
{
    char request[1024];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL "ask_usage: true\n"}));
    struct peer *client = rig_connect(&rig);
    static const char head[] =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\n" ID "transfer-encoding: chunked\r\n\r\n";
    snprintf(request, sizeof(request), "%s5\r\n%.5s\r\n%zx\r\n%s\r\n0\r\nx-t: 1\r\n\r\n", head,
             NOT_ASKED, strlen(NOT_ASKED) - 5, NOT_ASKED + 5);
    CHECK(peer_send(client, request));
    struct peer *backend = rig_accept(&rig, 0);
    snprintf(request, sizeof(request), "%s%zx\r\n%s\r\n0\r\nx-t: 1\r\n\r\n", head, strlen(ASKED),
             ASKED);
    CHECK(peer_expect(backend, request));
    CHECK(rig_stop(&rig));
}

TEST(usage_is_asked_for_again_over_a_fresh_connection_and_at_another_backend)
{
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = PREFIX_POOL "ask_usage: true\nretry: {backoff: 0}\n",
                                    .backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    uint32_t index;
    CHECK(peer_send(client, post("", NOT_ASKED)));
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, post("", ASKED)));
    CHECK(peer_send(backend, "HTTP/1.1 503 no\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n"));
    backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, post("", ASKED)));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    fleet_set_draining(rig.fleet, rig.backends[1 - index].backend, true);
    CHECK(rig_publish(&rig));
    // Over the kept connection, which breaks before it says a word.
    struct peer *second = rig_connect(&rig);
    CHECK(peer_send(second, post("", NOT_ASKED)));
    CHECK(peer_expect(backend, post("", ASKED)));
    peer_reset(backend);
    backend = rig_accept(&rig, index);
    CHECK(peer_expect(backend, post("", ASKED)));
    CHECK(peer_send(backend, STREAM_HEAD));
    CHECK(peer_send(backend, chunk(EVENT("Yes.") USAGE DONE)));
    CHECK(peer_send(backend, "0\r\n\r\n"));
    CHECK(peer_expect(second, STREAM_HEAD));
    CHECK(peer_expect(second, chunk(EVENT("Yes.") DONE)));
    CHECK(peer_expect(second, "0\r\n\r\n"));
    CHECK(rig_stop(&rig));
}

static bool has_no_load(void)
{
    for (uint32_t i = 0; i < rig.backend_count; i++) {
        const struct load *load = &rig.backends[i].backend->load;
        if (atomic_load(&load->requests) != 0 || atomic_load(&load->sequences) != 0 ||
            atomic_load(&load->queued_tokens) != 0 || atomic_load(&load->context_tokens) != 0) {
            test_fail(__FILE__, __LINE__, "backend %u: %d requests, %d sequences", i,
                      atomic_load(&load->requests), atomic_load(&load->sequences));
            return false;
        }
    }
    return true;
}

#define JSON_HEAD "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 26\r\n\r\n"
#define JSON_BODY "{\"choices\":[{\"index\":0}]}\n"

enum end {
    END_NOT,      // the answer is whole
    END_BACKEND,  // the backend closes
    END_RESET,    // the backend resets
    END_CLIENT,   // the client closes
    END_DEADLINE, // nobody says anything more
};

static const struct ending {
    const char *answer;
    enum end end;
    bool is_retried;
} outcomes[] = {
    {STREAM_HEAD "5\r\nda", END_BACKEND, false},
    {STREAM_HEAD "8\r\ndata: {}\r\n", END_CLIENT, false},
    {STREAM_HEAD "8\r\ndata: {}\r\n", END_DEADLINE, false},
    {STREAM_HEAD "8\r\ndata: {}\r\nxyz", END_BACKEND, false},
    {STREAM_HEAD "8\r\ndata: {}\r\n0\r\n\r\n", END_NOT, false},
    {STREAM_HEAD "39\r\n" EVENT("!") "\r\n", END_CLIENT, false},
    {STREAM_HEAD "39\r\n" EVENT("!") "\r\n", END_RESET, false},
    {STREAM_HEAD "39\r\n" EVENT("!") "\r\n0\r\n\r\n", END_NOT, false},
    {STREAM_HEAD, END_CLIENT, false},
    {"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" EVENT("!"), END_BACKEND, false},
    {"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\ndata: 1\n\n",
     END_NOT, false},
    {"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: text/event-stream\r\n\r\n\x1f",
     END_BACKEND, false},
    {JSON_HEAD JSON_BODY, END_NOT, false},
    {JSON_HEAD "{", END_BACKEND, false},
    {JSON_HEAD "{", END_CLIENT, false},
    {JSON_HEAD "{", END_DEADLINE, false},
    {"HTTP/1.1 204 No Content\r\n\r\n", END_NOT, false},
    {"HTTP/1.1 100 Continue\r\n\r\n" JSON_HEAD JSON_BODY, END_NOT, false},
    {"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n", END_NOT, false},
    {"HTTP/1.1 400 no\r\ncontent-length: 1\r\n\r\n", END_BACKEND, false},
    {"HTTP/1.1 429 no\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n", END_NOT, true},
    {"SSH-2.0-OpenSSH\r\n", END_NOT, false},
    {"", END_RESET, true},
    {"", END_CLIENT, false},
    {"", END_DEADLINE, false},
    {"HTTP/1.1 2", END_DEADLINE, false},
    {"HTTP/1.1 2", END_RESET, true},
};

static bool comes_to_its_end(const struct ending *outcome, const char *body)
{
    uint32_t index;
    struct peer *client = rig_connect(&rig);
    bool ok = peer_send(client, post("x-session-id: s\r\n", body));
    struct peer *backend = rig_accept_any(&rig, &index);
    ok = ok && peer_expect(backend, post("x-session-id: s\r\n", body)) &&
         peer_send(backend, outcome->answer) && rig_turn(&rig);
    if (outcome->end == END_BACKEND) {
        peer_close(backend);
    } else if (outcome->end == END_RESET) {
        peer_reset(backend);
    } else if (outcome->end == END_CLIENT) {
        peer_close(client);
    }
    if (outcome->is_retried) {
        struct peer *other = rig_accept_any(&rig, &index);
        ok = ok && peer_expect(other, post("x-session-id: s\r\n", body)) &&
             peer_send(other, RIG_OK) && peer_expect(client, RIG_OK);
        peer_close(other);
    }
    // Deadlines included.
    ok = ok && rig_becomes_idle(&rig) && has_no_load();
    peer_close(client);
    peer_close(backend);
    return ok && rig_has_connections(&rig, 0);
}

TEST(however_an_attempt_ends_it_leaves_no_load)
{
    CHECK(rig_start(&rig, &(struct rig_options){
                              .config = "policy: warm\nretry: {backoff: 0}\n"
                                        "health: {eject_failures: 0}\nprefix: {block_size: 64}\n"
                                        "timeouts: {first_byte: 200ms, between_chunks: 200ms}\n",
                              .backend_count = 2}));
    size_t i = 0;
    while (i < 2 * ARRAY_COUNT(outcomes) &&
           comes_to_its_end(&outcomes[i / 2], i % 2 == 0 ? SECOND : WHOLE)) {
        i++;
    }
    CHECK_EQ(i, 2 * ARRAY_COUNT(outcomes)); // or which one it was
    CHECK(rig_stop(&rig));
}

TEST(a_connection_that_is_refused_leaves_no_load)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "policy: warm\nretry: {backoff: 0}\n",
                                                .backend_count = 2,
                                                .refusing = 3}));
    for (int i = 0; i < 8; i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, post("", i % 2 == 0 ? FIRST : WHOLE)));
        CHECK(peer_expect_problem(client, 503, "backend_unreachable"));
        peer_close(client);
    }
    CHECK(rig_becomes_idle(&rig));
    CHECK(has_no_load());
    CHECK(rig_stop(&rig));
}

TEST(a_stream_that_cannot_be_read_does_not_count_as_a_prompt_that_waits)
{
    struct rig_pair pair;
    char head[1024];
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    const struct load *load = &rig.backends[0].backend->load;
    CHECK(ask("", FIRST, &pair));
    CHECK(atomic_load(&load->queued_tokens) > 0);
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                                  "content-encoding: br\r\n\r\n?"));
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK_EQ(atomic_load(&load->queued_tokens), 0);
    CHECK_EQ(atomic_load(&load->sequences), 1);
    CHECK_EQ(atomic_load(&load->prefill_samples), 0);
    close_both(&pair);
    CHECK(rig_becomes_idle(&rig));
    CHECK(has_no_load());
    CHECK(rig_stop(&rig));
}

// An answer in one piece, five milliseconds after its prompt is taken to be done.
static bool serve_late(void)
{
    static const char body[] = "{\"choices\":[{\"index\":0}],\"usage\":{\"prompt_tokens\":100,"
                               "\"completion_tokens\":50}}";
    struct rig_pair pair;
    char answer[512];
    bool ok = ask("", WHOLE, &pair);
    while (ok && atomic_load(&rig.backends[0].backend->load.sequences) == 0) {
        ok = rig_turn(&rig);
    }
    poll(NULL, 0, 5); // what is measured
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 200 OK\r\n" ID
             "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
             sizeof(body) - 1, body);
    ok = ok && peer_send(pair.backend, answer) && peer_expect(pair.client, answer);
    close_both(&pair);
    return ok;
}

TEST(the_time_of_an_answer_in_one_piece_is_not_taken_for_none)
{
    struct traffic_view view;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    for (int i = 0; i < 20; i++) {
        CHECK(serve_late());
    }
    traffic_read(knowledge_traffic(proxy_knowledge(rig.proxy), 0), 1, &view);
    CHECK_EQ(view.completion_count, 20);
    CHECK(view.output_tokens == 50);
    CHECK(view.decode_ms >= 3); // the loop's clock is as old as its turn
    CHECK(rig_stop(&rig));
}

// Recording.  The policy is one that does not look at prompts.

static struct recorder *recorder;

static bool start_recording(const char *config, uint32_t backend_count)
{
    recorder_destroy(&recorder);
    recorder = recorder_create(&(struct recorder_options){.worker_count = 1, .span_tokens = 512});
    return rig_start(&rig, &(struct rig_options){.config = config,
                                                 .backend_count = backend_count,
                                                 .recorder = recorder});
}

// The test is the keeper: what was recorded so far, of which the last is left.
static uint32_t take_entries(struct recorder_entry *last, uint64_t keys[4])
{
    const uint64_t *all = NULL;
    uint32_t count = 0;
    for (; recorder_peek(recorder, 0, last, &all); count++) {
        for (uint32_t i = 0; i < last->key_count && i < 4; i++) {
            keys[i] = all[i];
        }
        recorder_drop(recorder, 0);
    }
    return count;
}

static bool is_answered(const char *fields, const char *body, const char *events)
{
    struct rig_pair pair;
    bool ok = ask(fields, body, &pair) && peer_send(pair.backend, STREAM_HEAD) &&
              peer_send(pair.backend, chunk(events)) && peer_send(pair.backend, "0\r\n\r\n") &&
              peer_expect(pair.client, STREAM_HEAD) && peer_expect(pair.client, chunk(events)) &&
              peer_expect(pair.client, "0\r\n\r\n");
    close_both(&pair);
    return ok && rig_becomes_idle(&rig);
}

TEST(an_answer_is_recorded_whatever_the_policy)
{
    struct recorder_entry entry = {0};
    uint64_t keys[4];
    uint64_t before_us = clock_monotonic_ns() / 1000;
    CHECK(start_recording("policy: round_robin\n", 1));
    CHECK(is_answered("x-session-id: s\r\n", SECOND, EVENT("Fog") EVENT(".") USAGE DONE));
    CHECK_EQ(take_entries(&entry, keys), 1);
    CHECK(entry.arrived_us >= before_us && entry.arrived_us <= clock_monotonic_ns() / 1000);
    CHECK(entry.session_key != 0);
    CHECK(entry.prompt_size > strlen(SYSTEM ANSWER) && entry.prompt_size < strlen(SECOND));
    CHECK_EQ(entry.told_tokens, 100);
    CHECK_EQ(entry.output_tokens, 2);
    CHECK_EQ(entry.turn, 1);
    CHECK_EQ(entry.span_size, 2048);
    CHECK_EQ(entry.key_count, 0); // less than a span
    CHECK(entry.is_text);
    // Without usage: what was seen of the answer, and nothing of the prompt.
    CHECK(is_answered("", FIRST, EVENT("Fog") EVENT("and") EVENT("rain") DONE));
    CHECK_EQ(take_entries(&entry, keys), 1);
    CHECK_EQ(entry.told_tokens, 0);
    CHECK_EQ(entry.output_tokens, 3);
    CHECK_EQ(entry.session_key, 0);
    CHECK_EQ(entry.turn, 0);
    CHECK(rig_stop(&rig));
}

// A prompt of two spans and some, with a salt of its own.
static const char *long_body(const char *salt, const char *question)
{
    static char body[8192];
    static char words[4900];
    for (size_t i = 0; i + 1 < sizeof(words); i++) {
        words[i] = (char)('a' + i * i % 23);
    }
    snprintf(body, sizeof(body),
             "{\"model\":\"m\",\"stream\":true,\"cache_salt\":\"%s\",\"messages\":[" TURN(
                 "system", "%s") "," TURN("user", "%s") "]}",
             salt, words, question);
    return body;
}

TEST(common_prefixes_have_equal_keys_and_salts_share_none)
{
    struct recorder_entry entry = {0};
    uint64_t first[4] = {0};
    uint64_t second[4] = {0};
    uint64_t other[4] = {0};
    CHECK(start_recording("policy: round_robin\n", 1));
    CHECK(is_answered("", long_body("a", "Fog?"), EVENT("!") DONE));
    CHECK_EQ(take_entries(&entry, first), 1);
    CHECK_EQ(entry.key_count, 2);
    CHECK(is_answered("", long_body("a", "Rain?"), EVENT("!") DONE));
    CHECK_EQ(take_entries(&entry, second), 1);
    CHECK(is_answered("", long_body("b", "Fog?"), EVENT("!") DONE));
    CHECK_EQ(take_entries(&entry, other), 1);
    for (int i = 0; i < 2; i++) {
        CHECK(first[i] == second[i]);
        CHECK(first[i] != other[i]);
    }
    CHECK(rig_stop(&rig));
}

TEST(token_ids_are_recorded_by_their_number)
{
    struct recorder_entry entry = {0};
    uint64_t keys[4];
    char request[512];
    static const char body[] = "{\"model\":\"m\",\"prompt\":[1,2,3,4,5]}";
    CHECK(start_recording("policy: round_robin\n", 1));
    struct rig_pair pair;
    snprintf(request, sizeof(request),
             "POST /v1/completions HTTP/1.1\r\nhost: h\r\n" ID "content-length: %zu\r\n\r\n%s",
             sizeof(body) - 1, body);
    CHECK(rig_ask(&rig, request, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK_EQ(take_entries(&entry, keys), 1);
    CHECK(!entry.is_text);
    CHECK_EQ(entry.prompt_size, 20);
    CHECK_EQ(entry.span_size, 2048);
    CHECK_EQ(entry.span_tokens, 512);
    CHECK(rig_stop(&rig));
}

TEST(only_what_came_to_a_good_end_is_recorded_and_once)
{
    struct recorder_entry entry = {0};
    uint64_t keys[4];
    CHECK(start_recording("policy: round_robin\nretry: {backoff: 0}\n"
                          "health: {eject_failures: 0}\n"
                          "timeouts: {first_byte: 200ms, between_chunks: 200ms}\n",
                          2));
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) {
        // Whole answers of 2xx: those that end by themselves, and those whose end is the
        // connection's.
        const struct ending *ending = &outcomes[i];
        bool is_whole = ending->end == END_NOT && strstr(ending->answer, "HTTP/1.1 20") != NULL;
        bool until_close = ending->end == END_BACKEND &&
                           strncmp(ending->answer, "HTTP/1.1 200", 12) == 0 &&
                           strstr(ending->answer, "chunked") == NULL &&
                           strstr(ending->answer, "content-length") == NULL;
        CHECK(comes_to_its_end(ending, SECOND));
        uint32_t count = take_entries(&entry, keys);
        if (count != (is_whole || until_close || ending->is_retried)) {
            test_fail(__FILE__, __LINE__, "%u entries of ending %zu", count, i);
            return;
        }
    }
    struct rig_pair pair;
    CHECK(rig_ask(&rig, RIG_GET, &pair)); // no prompt
    CHECK(peer_send(pair.backend, RIG_OK) && peer_expect(pair.client, RIG_OK));
    CHECK_EQ(take_entries(&entry, keys), 0);
    CHECK(rig_stop(&rig));
}

TEST(a_retry_arrived_when_the_request_did)
{
    struct recorder_entry entry = {0};
    uint64_t keys[4];
    uint32_t index;
    CHECK(start_recording("policy: round_robin\nretry: {backoff: 0}\n", 2));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, post("", WHOLE)));
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, post("", WHOLE)));
    uint64_t routed_us = clock_monotonic_ns() / 1000;
    poll(NULL, 0, 3); // what is measured
    CHECK(peer_send(backend, "HTTP/1.1 503 no\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n"));
    backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, post("", WHOLE)));
    CHECK(peer_send(backend, RIG_OK) && peer_expect(client, RIG_OK));
    CHECK_EQ(take_entries(&entry, keys), 1);
    CHECK(entry.arrived_us <= routed_us);
    CHECK(rig_stop(&rig));
}

// Twenty-one by the tiny dialect: a token for each byte and each marker.
#define SHORT "{\"messages\":[" TURN("user", "Hi") "]}"
enum { short_tokens = 21 };

static bool answer_usage(const char *body, unsigned prompt_tokens)
{
    struct rig_pair pair = {0};
    char json[256];
    char answer[512];
    snprintf(json, sizeof(json),
             "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\"}}],"
             "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":1}}",
             prompt_tokens);
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 200 OK\r\n" ID
             "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
             strlen(json), json);
    bool good =
        ask("", body, &pair) && peer_send(pair.backend, answer) && peer_expect(pair.client, answer);
    close_both(&pair);
    return good && rig_becomes_idle(&rig);
}

TEST(usage_that_agrees_confirms_and_usage_that_differs_revokes)
{
    static const char tools[] =
        "{\"messages\":[" TURN("user", "Hi") "],\"tools\":[{\"type\":\"function\","
                                             "\"function\":{\"name\":\"f\"}}]}";
    struct tiny_set tiny;
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){.is_trusted = true}));
    struct dialect *dialect = tiny.set.dialects[0];
    log_set_level(LOG_LEVEL_ERROR); // it warns
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL, .dialects = &tiny.set}));
    CHECK(answer_usage(SHORT, short_tokens));
    CHECK_EQ(atomic_load(&dialect->shared.confirmed_count), 1);
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 0);
    CHECK_EQ(atomic_load(&dialect->shared.revoked), 0);
    CHECK(answer_usage(tools, 7));
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 1);
    CHECK((atomic_load(&dialect->shared.revoked) & CHAT_TOOLS_SHAPE) != 0);
    CHECK_EQ(atomic_load(&dialect->shared.revoked) & CHAT_PLAIN_SHAPE, 0);
    CHECK_EQ(atomic_load(&dialect->shared.by_ids_count), 2);
    // Its requests go by their text from now on, whose number of tokens is news and no drift.
    CHECK(answer_usage(tools, 8));
    CHECK_EQ(atomic_load(&dialect->shared.drift_count), 1);
    CHECK_EQ(atomic_load(&dialect->shared.by_text_count), 1);
    CHECK(answer_usage(SHORT, short_tokens));
    CHECK_EQ(atomic_load(&dialect->shared.confirmed_count), 2);
    CHECK(rig_stop(&rig));
    tiny_set_close(&tiny);
}
