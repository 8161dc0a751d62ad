// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
#define BUSY                                                                                       \
    "HTTP/1.1 429 Later\r\nx-request-id: r\r\nretry-after: 60\r\ncontent-length: 1\r\n\r\n!"
// Nothing to spare: whatever still goes elsewhere costs nothing.
#define NO_RETRIES "retry: {attempts: 1, budget_percent: 0, budget_min: 0}"

static struct rig rig;

static uint64_t faults(uint32_t index)
{
    return atomic_load(&rig.backends[index].backend->shared.failure_count);
}

static uint64_t requests(uint32_t index)
{
    return atomic_load(&rig.backends[index].backend->shared.request_count);
}

// Reads the request from whatever backend gets it and answers it.
static bool serve(struct peer *client, uint32_t *index)
{
    struct peer *backend = rig_accept_any(&rig, index);
    bool served = peer_expect(backend, RIG_GET) &&
                  peer_send(backend, "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"
                                     "connection: close\r\ncontent-length: 2\r\n\r\nok") &&
                  peer_expect(client, RIG_OK) && peer_expect_end(backend);
    peer_close(backend);
    return served;
}

static unsigned lives(uint32_t index)
{
    return atomic_load(&rig.backends[index].backend->shared.lives);
}

TEST(a_refused_connection_ends_a_life_and_a_failed_handshake_does_not)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = NO_RETRIES, .refusing = 1}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect_problem(client, 503, "backend_unreachable"));
    CHECK_EQ(lives(0), 1);
    CHECK(rig_stop(&rig));

    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = NO_RETRIES "\nbackend_tls: {verify: false}"}));
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(&rig, 0, url);
    spec.tls = true;
    fleet_remove(rig.fleet, rig.backends[0].backend);
    rig.backends[0].backend = fleet_add(rig.fleet, &spec);
    CHECK(rig_publish(&rig));
    client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_send(backend, "this is no TLS, whatever it is"));
    CHECK(peer_expect_problem(client, 503, "backend_unreachable"));
    CHECK_EQ(faults(0), 1);
    CHECK_EQ(lives(0), 0);
    CHECK(rig_stop(&rig));
}

TEST(a_kept_connection_that_turns_out_dead_is_replaced_at_the_same_backend_for_free)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = NO_RETRIES, .backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    struct peer *kept[2] = {0};
    uint32_t order[2];
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(peer_send(client, RIG_GET));
        struct peer *backend = rig_accept_any(&rig, &order[i]);
        kept[order[i]] = backend;
        CHECK(peer_expect(backend, RIG_GET));
        CHECK(peer_send(backend, RIG_OK));
        CHECK(peer_expect(client, RIG_OK));
    }
    // The same order again; each takes the request on its old connection and closes that.
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(peer_send(client, RIG_GET));
        CHECK(peer_expect(kept[order[i]], RIG_GET));
        (i == 0 ? peer_close : peer_reset)(kept[order[i]]);
        struct peer *fresh = rig_accept(&rig, order[i]);
        CHECK(peer_expect(fresh, RIG_GET));
        CHECK(peer_send(fresh, RIG_OK));
        CHECK(peer_expect(client, RIG_OK));
        CHECK_EQ(faults(order[i]), 0);
        CHECK_EQ(requests(order[i]), 2); // the fresh one is the same attempt
    }
    CHECK_EQ(rig_totals(&rig).retry_count, 0);
    CHECK(rig_stop(&rig));
}

TEST(a_kept_connection_that_has_said_something_is_a_fault_and_so_is_a_fresh_one)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "health: {eject_failures: 0}"}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(peer_send(pair.client, RIG_GET));
    CHECK(peer_expect(pair.backend, RIG_GET));
    CHECK(peer_send(pair.backend, "H"));
    peer_close(pair.backend);
    CHECK(peer_expect_problem(pair.client, 502, "bad_backend_answer"));
    CHECK_EQ(faults(0), 1);
    // A dead kept connection, and a fresh one that dies as well: no third one.
    CHECK(peer_send(pair.client, RIG_GET));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(peer_send(pair.client, RIG_GET));
    CHECK(peer_expect(backend, RIG_GET));
    peer_close(backend);
    backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, RIG_GET));
    peer_close(backend);
    CHECK(peer_expect_problem(pair.client, 502, "bad_backend_answer"));
    CHECK_EQ(faults(0), 2);
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(the_head_for_the_backend_says_what_the_configuration_wants)
{
    static const char request[] =
        "GET /a HTTP/1.0\r\nx-request-id: r\r\nauthorization: Bearer c\r\n"
        "x-forwarded-for: 9.9.9.9\r\nconnection: x-hop\r\nx-hop: 1\r\n\r\n";
    static const struct {
        const char *config;
        const char *fields;
    } cases[] = {
        {"", "x-request-id: r\r\nauthorization: Bearer c\r\nx-forwarded-for: 9.9.9.9\r\n"},
        {"authorization: strip", "x-request-id: r\r\nx-forwarded-for: 9.9.9.9\r\n"},
        {"authorization: replace\napi_key: unused",
         "x-request-id: r\r\nx-forwarded-for: 9.9.9.9\r\nauthorization: Bearer rig-key\r\n"},
        {"forwarded_for: true", "x-request-id: r\r\nauthorization: Bearer c\r\n"
                                "x-forwarded-for: 9.9.9.9, 127.0.0.1\r\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char wanted[512];
        CHECK(rig_start(&rig, &(struct rig_options){.config = cases[i].config}));
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, request));
        struct peer *backend = rig_accept(&rig, 0);
        snprintf(wanted, sizeof(wanted), "GET /a HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n%s\r\n",
                 rig.backends[0].port, cases[i].fields);
        CHECK(peer_expect(backend, wanted));
        CHECK(rig_stop(&rig));
    }
}

// Puts `count` ranks of one server in the place of a backend; that becomes the first.
static bool become_ranks(uint32_t index, struct backend **ranks, uint32_t count)
{
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(&rig, index, url);

    fleet_remove(rig.fleet, rig.backends[index].backend);
    spec.rank_count = count;
    for (spec.rank = 0; spec.rank < count; spec.rank++) {
        ranks[spec.rank] = fleet_add(rig.fleet, &spec);
        spec.server = ranks[0]->id;
    }
    rig.backends[index].backend = ranks[0];
    return rig_publish(&rig);
}

TEST(a_request_to_a_rank_names_it_whatever_the_client_said)
{
    struct backend *ranks[2];
    unsigned seen = 0;
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    CHECK(become_ranks(0, ranks, 2));
    for (uint32_t i = 0; i < 2; i++) {
        char head[512];
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                                "x-Data-Parallel-Rank: 9\r\n\r\n"));
        struct peer *backend = rig_accept(&rig, 0);
        CHECK(peer_read_head(backend, head, sizeof(head)));
        const char *field = strstr(head, "X-data-parallel-rank: ");
        CHECK(field != NULL && strstr(head, ": 9") == NULL);
        uint32_t rank = (uint32_t)(field[22] - '0');
        CHECK(rank < 2);
        CHECK_EQ(atomic_load(&ranks[rank]->shared.in_flight), 1);
        seen |= 1U << rank;
        CHECK(peer_send(backend, RIG_OK));
        CHECK(peer_expect(client, RIG_OK));
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK_EQ(seen, 3);
    CHECK(rig_stop(&rig));

    // A server that is one gets what the client sent.
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    struct peer *client = rig_connect(&rig);
    static const char pinned[] = "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                                 "x-Data-Parallel-Rank: 9\r\n\r\n";
    CHECK(peer_send(client, pinned));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_expect(backend, pinned));
    CHECK(rig_stop(&rig));
}

TEST(where_one_rank_is_refused_the_others_are_lost_too_and_not_tried)
{
    struct backend *ranks[4];
    uint32_t index;
    uint64_t tries = 0;
    CHECK(
        rig_start(&rig, &(struct rig_options){.config = NO_RETRIES "\nhealth: {eject_failures: 0}",
                                              .backend_count = 2,
                                              .refusing = 1}));
    CHECK(become_ranks(0, ranks, 4));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 5; i++) { // every one of five is the first choice of some request
        CHECK(peer_send(client, RIG_GET));
        CHECK(serve(client, &index));
        CHECK_EQ(index, 1);
        CHECK(rig_becomes_idle(&rig));
    }
    for (uint32_t i = 0; i < 4; i++) {
        tries += atomic_load(&ranks[i]->shared.request_count);
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(atomic_load(&ranks[i]->shared.lives), tries);
    }
    CHECK(tries > 0 && tries <= 5); // at most one for each request
    CHECK_EQ(lives(1), 0);
    CHECK(rig_stop(&rig));
}

TEST(the_largest_head_has_room_for_all_that_is_added_to_it)
{
    enum { head_size = 32768, field_count = 100 };
    static char request[head_size + 1];
    static char seen[2 * head_size];
    CHECK(
        rig_start(&rig, &(struct rig_options){
                            .config = "authorization: replace\napi_key: x\nforwarded_for: true"}));
    // A backend with the longest key there is, in place of the rig's own.
    static char key[4096 + 1];
    memset(key, 'k', sizeof(key) - 1);
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(&rig, 0, url);
    spec.api_key = key;
    fleet_remove(rig.fleet, rig.backends[0].backend);
    rig.backends[0].backend = fleet_add(rig.fleet, &spec);
    CHECK(rig_publish(&rig));
    // No blank behind the colons: each field grows by one.
    size_t used = (size_t)snprintf(request, sizeof(request), "GET /a HTTP/1.1\r\nhost: h\r\n");
    for (uint32_t i = 0; i < field_count; i++) {
        used += (size_t)snprintf(request + used, sizeof(request) - used, "a:b\r\n");
    }
    used += (size_t)snprintf(request + used, sizeof(request) - used, "fill:");
    memset(request + used, 'f', head_size - used - 4);
    memcpy(request + head_size - 4, "\r\n\r\n", 5);
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, request));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_read_head(backend, seen, sizeof(seen)));
    CHECK(strstr(seen, key) != NULL);
    CHECK(strstr(seen, "x-forwarded-for: 127.0.0.1\r\n") != NULL);
    CHECK(strlen(seen) > head_size + sizeof(key) + field_count);
    CHECK(rig_stop(&rig));
}
