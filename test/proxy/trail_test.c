// SPDX-License-Identifier: Apache-2.0

#include "proxy/trail.h"

#include "rig.h"
#include "test.h"

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
    return field != NULL ? (int)strtol(field + strlen(name) + 1, NULL, 10) : -1;
}

// A client that asks `body`; the backend has read it as it was sent.
static bool ask(const char *fields, const char *body, struct rig_pair *pair)
{
    pair->client = rig_connect(&rig);
    return peer_send(pair->client, post(fields, body)) &&
           (pair->backend = rig_accept(&rig, 0)) != NULL &&
           peer_expect(pair->backend, post(fields, body));
}

static void close_both(struct rig_pair *pair)
{
    peer_close(pair->client);
    peer_close(pair->backend);
}

// What a request of that body is believed to have in common with what was asked before.
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

TEST(what_an_engine_refused_is_not_believed_to_be_there)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK_EQ(matched_blocks(FIRST), 0);
    CHECK(rig_stop(&rig));
}

TEST(what_a_client_did_not_wait_for_is_not_believed_to_be_there)
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

TEST(whoever_asked_for_usage_gets_it)
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
    enum { size = 3 * trail_tail_max };
    static char event[size];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = PREFIX_POOL}));
    CHECK(ask("", FIRST, &pair));
    CHECK(peer_send(pair.backend,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" ID "\r\n"));
    memset(event, 'x', size);
    CHECK(peer_send(pair.backend, "data: "));
    CHECK(peer_send_bytes(pair.backend, event, size));
    peer_close(pair.backend);
    char head[1024];
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK_EQ(peer_drain(pair.client), size + 6);
    CHECK(rig_stop(&rig));
}
