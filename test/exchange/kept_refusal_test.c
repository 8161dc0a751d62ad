// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#include <string.h>

#define BODY "{\"model\":\"m\",\"stream\":true}"
#define POST                                                                                       \
    "POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"                         \
    "content-length: 27\r\n\r\n" BODY
#define REFUSAL "HTTP/1.1 400 No\r\nconnection: close\r\ncontent-length: 7\r\n\r\nrefused"
#define STREAM                                                                                     \
    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n"                  \
    "transfer-encoding: chunked\r\n\r\n"
#define TOKEN "2f\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n\r\n0\r\n\r\n"
#define SETTINGS                                                                                   \
    "policy: round_robin\nmodels: {learn: false}\nhealth: {interval: 0}\nretry: {backoff: 0}\n"

static struct rig rig;

static struct peer *client;

// That backend has the request.
static struct peer *take_request(uint32_t index)
{
    char head[2048];
    struct peer *backend = rig_accept(&rig, index);
    bool is_taken = backend != NULL && peer_read_head(backend, head, sizeof(head)) &&
                    peer_expect(backend, BODY);
    return is_taken ? backend : NULL;
}

static bool serve(uint32_t index, const char *response)
{
    struct peer *backend = take_request(index);
    bool is_served = backend != NULL && peer_send(backend, response);
    peer_close(backend);
    return is_served;
}

// The client gets that status, and then those bytes.
static bool gets(const char *status, const char *rest)
{
    char head[2048] = "";
    return peer_read_head(client, head, sizeof(head)) &&
           strncmp(head, status, strlen(status)) == 0 && peer_expect(client, rest);
}

// A client whose request the first of two backends has refused for the second time; the other one
// has it now.  NULL: it went otherwise.
static struct peer *begin_opinion(const char *config)
{
    bool is_good = rig_start(&rig, &(struct rig_options){.config = config, .backend_count = 2}) &&
                   (client = rig_connect(&rig)) != NULL && peer_send(client, POST) &&
                   serve(0, REFUSAL) && gets("HTTP/1.1 400", "refused") &&
                   peer_send(client, POST) && serve(1, STREAM TOKEN) &&
                   gets("HTTP/1.1 200", TOKEN) && peer_send(client, POST) && serve(0, REFUSAL);
    return is_good ? take_request(1) : NULL;
}

static bool end_opinion(struct peer *adviser)
{
    bool is_idle = rig_becomes_idle(&rig);
    peer_close(client);
    peer_close(adviser);
    return rig_stop(&rig) && is_idle;
}

TEST(a_refusal_waits_for_the_other_backend_and_gives_way_to_its_output)
{
    struct peer *adviser = begin_opinion(SETTINGS);
    CHECK(adviser != NULL);
    CHECK(peer_is_silent(client));
    CHECK(peer_send(adviser, STREAM TOKEN));
    CHECK(gets("HTTP/1.1 200", TOKEN));
    CHECK(end_opinion(adviser));
}

TEST(it_passes_when_the_other_backend_fails)
{
    static const char *const failures[] = {
        "", "HTTP/1.1 2", "HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", "not http\r\n\r\n"};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct peer *adviser = begin_opinion(SETTINGS);
        CHECK(adviser != NULL);
        CHECK(peer_send(adviser, failures[i]));
        peer_reset(adviser);
        CHECK(gets("HTTP/1.1 400", "refused"));
        CHECK(end_opinion(NULL));
    }
}

TEST(it_passes_when_the_time_of_the_request_is_over)
{
    struct peer *adviser = begin_opinion(SETTINGS "timeouts: {request: 500ms}");
    CHECK(adviser != NULL);
    CHECK(gets("HTTP/1.1 400", "refused"));
    CHECK(end_opinion(adviser));
}

TEST(it_passes_when_the_other_backend_is_taken_out)
{
    struct peer *adviser = begin_opinion(SETTINGS);
    CHECK(adviser != NULL);
    atomic_store(&rig.backends[1].backend->shared.probe, BACKEND_PROBE_DOWN);
    CHECK(gets("HTTP/1.1 400", "refused"));
    CHECK(end_opinion(adviser));
}

TEST(it_passes_though_its_backend_is_gone_meanwhile)
{
    struct peer *adviser = begin_opinion(SETTINGS);
    CHECK(adviser != NULL);
    fleet_remove(rig.fleet, rig.backends[0].backend);
    CHECK(rig_publish(&rig));
    peer_reset(adviser);
    CHECK(gets("HTTP/1.1 400", "refused"));
    CHECK(end_opinion(NULL));
}

TEST(a_client_that_leaves_takes_it_along)
{
    struct peer *adviser = begin_opinion(SETTINGS);
    CHECK(adviser != NULL);
    peer_close(client);
    client = NULL;
    CHECK(end_opinion(adviser));
}

TEST(interim_heads_of_the_other_backend_do_not_pass)
{
    struct peer *adviser = begin_opinion(SETTINGS);
    CHECK(adviser != NULL);
    CHECK(peer_send(adviser, "HTTP/1.1 103 Early\r\nlink: x\r\n\r\n"));
    CHECK(peer_is_silent(client));
    peer_reset(adviser);
    CHECK(gets("HTTP/1.1 400", "refused"));
    CHECK(end_opinion(NULL));
}
