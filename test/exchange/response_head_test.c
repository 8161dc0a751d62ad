// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define ID "x-request-id: r\r\n"
#define LENGTH_HEAD "HTTP/1.1 200 OK\r\n" ID "content-length: "

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

TEST(the_answer_names_its_backend_if_the_configuration_says_so)
{
    char wanted[256];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "backend_header: true"}));
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    snprintf(wanted, sizeof(wanted),
             LENGTH_HEAD "2\r\nx-warmpath-backend: http://127.0.0.1:%u\r\n\r\nok",
             rig.backends[0].port);
    CHECK(peer_expect(pair.client, wanted));
    CHECK(rig_stop(&rig));
}

enum { head_size_max = 32768 };

// A head of exactly that size, one field filling it up.
static void write_head(char *head, const char *first_line, size_t size)
{
    size_t used = (size_t)snprintf(head, size, "%sx-fill: ", first_line);
    ASSERT(used + 4 <= size);
    memset(head + used, 'f', size - used - 4);
    memcpy(head + size - 4, "\r\n\r\n", 5);
}

TEST(a_head_may_be_as_large_as_the_limit_says_and_no_larger)
{
    static char head[head_size_max + 2];
    static char seen[head_size_max + 1024];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(ask(RIG_GET, &pair));
    write_head(head, LENGTH_HEAD "0\r\n", head_size_max);
    CHECK(peer_send(pair.backend, head));
    CHECK(peer_read_head(pair.client, seen, sizeof(seen)));
    CHECK_STR(seen, head);
    CHECK(peer_send(pair.client, RIG_GET));
    CHECK(peer_expect(pair.backend, RIG_GET));
    write_head(head, LENGTH_HEAD "0\r\n", head_size_max + 1);
    CHECK(peer_send(pair.backend, head));
    CHECK(peer_expect_problem(pair.client, 502, "bad_backend_answer"));
    CHECK(rig_stop(&rig));
}

TEST(hints_do_not_take_the_room_of_the_answer)
{
    static char hint[9000];
    static char head[head_size_max + 1];
    static char both[sizeof(hint) + sizeof(head)];
    static char seen[head_size_max + 1024];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    // In one piece, so that the hint has not left when the answer comes.
    write_head(hint, "HTTP/1.1 103 Early Hints\r\n", sizeof(hint) - 1);
    write_head(head, LENGTH_HEAD "0\r\n", head_size_max);
    snprintf(both, sizeof(both), "%s%s", hint, head);
    CHECK(ask(RIG_GET, &pair));
    CHECK(peer_send(pair.backend, both));
    CHECK(peer_read_head(pair.client, seen, sizeof(seen)));
    if (strstr(seen, "HTTP/1.1 103 ") == seen) { // it may have been quicker
        CHECK_STR(seen, hint);
        CHECK(peer_read_head(pair.client, seen, sizeof(seen)));
    }
    CHECK_STR(seen, head);
    CHECK(rig_stop(&rig));
}

TEST(an_id_that_is_longer_than_any_id_is_not_repeated_in_the_answer)
{
    static char request[head_size_max + 1];
    static char answer[head_size_max + 1];
    static char seen[2 * head_size_max];
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    size_t used = (size_t)snprintf(request, sizeof(request),
                                   "GET /a HTTP/1.1\r\nhost: h\r\n"
                                   "x-request-id: ");
    memset(request + used, 'i', 30000);
    memcpy(request + used + 30000, "\r\n\r\n", 5);
    write_head(answer, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n", 30000);
    CHECK(rig_ask(&rig, request, &pair)); // the backend may have a use for it
    CHECK(peer_send(pair.backend, answer));
    CHECK(peer_read_head(pair.client, seen, sizeof(seen)));
    CHECK_STR(seen, answer);
    // One of 512 bytes is.
    memcpy(request + used + 512, "\r\n\r\n", 5);
    CHECK(peer_send(pair.client, request));
    CHECK(peer_expect(pair.backend, request));
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    CHECK(peer_read_head(pair.client, seen, sizeof(seen)));
    CHECK(strstr(seen, request + used - 16) != NULL);
    CHECK(rig_stop(&rig));
}
