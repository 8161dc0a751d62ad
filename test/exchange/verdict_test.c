// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#include <string.h>

#define BODY "{\"model\":\"m\",\"stream\":true}"
#define POST                                                                                       \
    "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"                         \
    "connection: close\r\ncontent-length: 27\r\n\r\n" BODY
#define CLOSES "connection: close\r\n"
#define REFUSAL "HTTP/1.1 400 No\r\n" CLOSES "content-length: 1\r\n\r\n!"
#define STREAM "HTTP/1.1 200 OK\r\n" CLOSES "content-type: text/event-stream\r\n\r\n"
#define TOKEN "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"
#define ROLE "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"
#define ERROR "data: {\"error\":{\"message\":\"no\"}}\n\n"
#define SETTINGS                                                                                   \
    "policy: round_robin\nmodels: {learn: false}\nhealth: {interval: 0}\nretry: {backoff: 0}"

static struct rig rig;

static bool has_refusals(uint32_t index)
{
    return atomic_load(&rig.backends[index].backend->shared.refuses);
}

// That backend gets the request and sends this.
static bool serve(uint32_t index, const char *response)
{
    char head[2048];
    struct peer *backend = rig_accept(&rig, index);
    bool is_served = backend != NULL && peer_read_head(backend, head, sizeof(head)) &&
                     peer_expect(backend, BODY) && peer_send(backend, response);
    peer_close(backend);
    return is_served;
}

// A client's request, and the start of the response to it after `count` backends had it in turn.
static bool ask(uint32_t count, const char *const responses[], const uint32_t indices[],
                const char *expected)
{
    char head[2048] = "";
    struct peer *client = rig_connect(&rig);
    bool is_good = peer_send(client, POST);
    for (uint32_t i = 0; is_good && i < count; i++) {
        is_good = serve(indices[i], responses[i]);
    }
    is_good = is_good && peer_read_head(client, head, sizeof(head)) &&
              strncmp(head, expected, strlen(expected)) == 0;
    peer_drain(client);
    peer_close(client);
    return is_good && rig_becomes_idle(&rig);
}

static bool ask_one(uint32_t index, const char *response, const char *expected)
{
    return ask(1, &response, &index, expected);
}

TEST(the_first_refusal_passes_and_the_second_in_a_row_goes_to_another_backend)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS, .backend_count = 2}));
    CHECK(ask_one(0, REFUSAL, "HTTP/1.1 400"));
    CHECK(has_refusals(0));
    CHECK(ask_one(1, STREAM TOKEN, "HTTP/1.1 200"));
    CHECK(ask(2, (const char *[]){REFUSAL, STREAM TOKEN}, (uint32_t[]){0, 1}, "HTTP/1.1 200"));
    CHECK(rig_stop(&rig));
}

TEST(a_backend_is_left_out_after_two_proofs)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS, .backend_count = 2}));
    CHECK(ask_one(0, REFUSAL, "HTTP/1.1 400"));
    CHECK(ask_one(1, STREAM TOKEN, "HTTP/1.1 200"));
    for (int i = 0; i < 2; i++) {
        CHECK(ask(2, (const char *[]){REFUSAL, STREAM TOKEN}, (uint32_t[]){0, 1}, "HTTP/1.1 200"));
    }
    for (int i = 0; i < 4; i++) {
        CHECK(ask_one(1, STREAM TOKEN, "HTTP/1.1 200"));
    }
    CHECK(rig_stop(&rig));
}

#define CHUNKED                                                                                    \
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
#define CHUNK_ROLE "34\r\n" ROLE "\r\n"
#define CHUNK_TOKEN "2f\r\n" TOKEN "\r\n"
#define CHUNK_ERROR "22\r\n" ERROR "\r\n"
#define CHUNK_END "0\r\n\r\n"

TEST(behind_a_200_too_the_second_refusal_in_a_row_goes_to_another_backend)
{
    static const char *const empty[] = {
        CHUNKED CHUNK_END,
        CHUNKED CHUNK_ROLE CHUNK_ERROR CHUNK_END,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
    };
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS, .backend_count = 2}));
        CHECK(ask_one(0, empty[i], "HTTP/1.1 200"));
        CHECK(ask_one(1, STREAM TOKEN, "HTTP/1.1 200"));
        CHECK(ask(2, (const char *[]){empty[i], STREAM TOKEN}, (uint32_t[]){0, 1}, "HTTP/1.1 200"));
        CHECK(rig_stop(&rig));
    }
}

TEST(the_response_of_a_suspect_begins_with_its_output)
{
    char head[2048];
    CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS}));
    CHECK(ask_one(0, STREAM ERROR, "HTTP/1.1 200"));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, POST));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_read_head(backend, head, sizeof(head)) && peer_expect(backend, BODY));
    CHECK(peer_send(backend, CHUNKED CHUNK_ROLE));
    CHECK(peer_is_silent(client));
    CHECK(peer_send(backend, CHUNK_TOKEN CHUNK_END));
    CHECK(peer_read_head(client, head, sizeof(head)));
    CHECK(peer_expect(client, "63\r\n" ROLE TOKEN "\r\n" CHUNK_END));
    peer_close(client);
    peer_close(backend);
    CHECK(rig_stop(&rig));
}

TEST(a_request_that_both_refuse_clears_the_first)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS, .backend_count = 2}));
    CHECK(ask_one(0, REFUSAL, "HTTP/1.1 400"));
    CHECK(ask_one(1, REFUSAL, "HTTP/1.1 400"));
    CHECK(ask(2, (const char *[]){REFUSAL, REFUSAL}, (uint32_t[]){0, 1}, "HTTP/1.1 400"));
    CHECK(!has_refusals(0));
    CHECK(has_refusals(1));
    CHECK(rig_stop(&rig));
}

TEST(a_stream_of_a_role_and_an_error_is_a_refusal)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS}));
    CHECK(ask_one(0, STREAM ROLE TOKEN, "HTTP/1.1 200"));
    CHECK(!has_refusals(0));
    CHECK(ask_one(0, STREAM ROLE, "HTTP/1.1 200")); // the model had nothing to say
    CHECK(!has_refusals(0));
    CHECK(ask_one(0, STREAM ROLE ERROR, "HTTP/1.1 200"));
    CHECK(has_refusals(0));
    CHECK(rig_stop(&rig));
}

TEST(documents_and_bodies_without_output_are_refusals)
{
    static const char *const empty[] = {
        "HTTP/1.1 200 OK\r\n" CLOSES "content-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n" CLOSES "transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n" CLOSES
        "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\n" CLOSES "content-type: text/html\r\ncontent-length: 3\r\n\r\n<p>",
        STREAM,
        STREAM ERROR,
    };
    for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
        CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS}));
        CHECK(ask_one(0, empty[i], "HTTP/1.1 200"));
        CHECK(has_refusals(0));
        CHECK(rig_stop(&rig));
    }
}

TEST(content_that_is_not_read_counts_as_output)
{
    static const char *const opaque[] = {
        "HTTP/1.1 200 OK\r\n" CLOSES "content-encoding: gzip\r\ncontent-length: 2\r\n\r\nzz",
        "HTTP/1.1 200 OK\r\n" CLOSES
        "content-type: text/event-stream\r\ncontent-length: 1\r\n\r\nd",
        "HTTP/1.1 200 OK\r\n" CLOSES "content-type: application/json\r\ncontent-length: 51\r\n\r\n"
        "{\"choices\":[{\"message\":{\"content\":\"\"},\"index\":0}]} ",
    };
    for (size_t i = 0; i < sizeof(opaque) / sizeof(opaque[0]); i++) {
        CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS}));
        CHECK(ask_one(0, opaque[i], "HTTP/1.1 200"));
        CHECK(!has_refusals(0));
        CHECK(rig_stop(&rig));
    }
}

TEST(faults_and_pauses_are_not_refusals)
{
    static const char *const others[] = {
        "HTTP/1.1 500 No\r\n" CLOSES "content-length: 0\r\n\r\n",
        "HTTP/1.1 503 No\r\n" CLOSES "content-length: 0\r\n\r\n",
        "HTTP/1.1 429 No\r\n" CLOSES "content-length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        CHECK(rig_start(&rig, &(struct rig_options){.config = SETTINGS}));
        CHECK(ask_one(0, others[i], "HTTP/1.1 "));
        CHECK(!has_refusals(0));
        CHECK(rig_stop(&rig));
    }
}
