// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#include <sys/socket.h>

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

TEST(a_refused_connection_costs_no_retry)
{
    uint32_t index;
    CHECK(
        rig_start(&rig, &(struct rig_options){.config = NO_RETRIES "\nhealth: {eject_failures: 0}",
                                              .backend_count = 4,
                                              .refusing = 1 | 2 | 8}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(peer_send(client, RIG_GET));
        CHECK(serve(client, &index));
        CHECK_EQ(index, 2);
        CHECK(rig_becomes_idle(&rig));
    }
    CHECK_EQ(requests(2), 4);
    CHECK(faults(0) > 0 && faults(1) > 0 && faults(3) > 0);
    CHECK_EQ(faults(2), 0);
    CHECK(rig_stop(&rig));
}

TEST(when_all_backends_refuse_none_is_reachable)
{
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 3, .refusing = 7}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect_problem(client, 503, "backend_unreachable"));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(requests(i), 1); // each one once
        CHECK_EQ(faults(i), 1);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_backend_that_breaks_before_its_head_is_replaced_by_another_that_gets_it_all)
{
    static const char *const bodies[] = {
        POST "content-length: 5\r\n\r\nhello",
        POST "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
        RIG_GET,
    };
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = "health: {eject_failures: 0}", .backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        uint32_t first;
        CHECK(peer_send(client, bodies[i]));
        struct peer *broken = rig_accept_any(&rig, &first);
        CHECK(peer_expect(broken, bodies[i]));
        CHECK(i != 1 || peer_send(broken, "HTTP/1.1 200 OK\r\ncontent-le")); // no head yet
        (i == 0 ? peer_reset : peer_close)(broken);
        struct peer *backend = rig_accept(&rig, 1 - first);
        CHECK(peer_expect(backend, bodies[i]));
        CHECK_EQ(faults(first), faults(1 - first) + 1);
        CHECK(peer_send(backend, "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"
                                 "connection: close\r\ncontent-length: 2\r\n\r\nok"));
        CHECK(peer_expect(client, RIG_OK));
        CHECK_EQ(rig_totals(&rig).retry_count, i + 1);
        // So that the counts are equal again.
        atomic_store(&rig.backends[first].backend->shared.failure_count, 0);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_busy_backend_is_passed_over_and_then_left_in_peace)
{
    uint32_t busy;
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept_any(&rig, &busy);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, BUSY));
    CHECK(serve(client, &index));
    CHECK_EQ(index, 1 - busy);
    CHECK(peer_expect_end(backend));
    CHECK_EQ(faults(busy), 0);
    // It asked for a minute.
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(peer_send(client, RIG_GET));
        CHECK(serve(client, &index));
        CHECK_EQ(index, 1 - busy);
    }
    // When the other one is busy too, both are asked, and the last word is passed on.
    CHECK(peer_send(client, RIG_GET));
    backend = rig_accept(&rig, 1 - busy);
    CHECK(peer_send(backend, "HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n"));
    backend = rig_accept(&rig, busy);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, BUSY));
    CHECK(peer_expect(client, BUSY));
    CHECK(rig_has_no_call(&rig));
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}

#define STATUS(code) "HTTP/1.1 " code " No\r\nx-request-id: r\r\ncontent-length: 1\r\n\r\n!"

struct status_case {
    const char *response;
    bool is_retried;
    bool is_fault;
};

// The first backend that gets a request sends that response.
static bool retries_as(const struct status_case *wanted)
{
    uint32_t first = 0;
    uint32_t second = 0;
    struct peer *client = rig_connect(&rig);
    bool sent = peer_send(client, RIG_GET);
    struct peer *backend = rig_accept_any(&rig, &first);

    sent = sent && peer_expect(backend, RIG_GET) && peer_send(backend, wanted->response);
    bool responded = wanted->is_retried
                         ? serve(client, &second) && second == 1 - first
                         : peer_expect(client, wanted->response) && rig_has_no_call(&rig);
    return sent && responded && faults(first) == wanted->is_fault &&
           rig_totals(&rig).retry_count == wanted->is_retried;
}

TEST(a_status_of_retry_on_is_retried_and_every_5xx_but_501_and_503_is_a_fault)
{
    static const struct status_case cases[] = {
        {STATUS("404"), false, false}, {STATUS("429"), false, false}, {STATUS("500"), true, true},
        {STATUS("501"), false, false}, {STATUS("502"), false, true},  {STATUS("503"), true, false},
        {STATUS("504"), true, true},   {STATUS("505"), false, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK(rig_start(&rig, &(struct rig_options){.config = "retry: {on: [500, 503, 504]}",
                                                    .backend_count = 2}));
        if (!retries_as(&cases[i])) {
            test_fail(__FILE__, __LINE__, "%.12s", cases[i].response);
        }
        CHECK(rig_stop(&rig));
    }
}

TEST(the_last_backend_left_passes_its_status_on)
{
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = "retry: {attempts: 5}\n"
                                                          "health: {eject_failures: 0}",
                                                .backend_count = 3}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    for (uint32_t i = 0; i < 3; i++) {
        struct peer *backend = rig_accept_any(&rig, &index);
        CHECK(peer_expect(backend, RIG_GET));
        CHECK(peer_send(backend, i < 2 ? STATUS("502") : STATUS("504")));
    }
    CHECK(peer_expect(client, STATUS("504")));
    CHECK_EQ(faults(0) + faults(1) + faults(2), 3);
    CHECK_EQ(rig_totals(&rig).problem_count, 0);
    CHECK(rig_stop(&rig));
}

// The backends in the order in which they got the request and reset it.
static uint32_t reset_all(uint32_t order[rig_backend_count_max], struct peer *client, uint32_t most)
{
    uint32_t count = 0;

    while (count < most) {
        struct peer *backend = rig_accept_any(&rig, &order[count]);
        if (!peer_expect(backend, RIG_GET)) {
            break;
        }
        peer_reset(backend);
        count++;
    }
    // An answer means that nobody else is asked.
    bool over = peer_expect_problem(client, 502, "bad_backend_answer") && rig_has_no_call(&rig);
    return over ? count : 0;
}

TEST(a_request_is_sent_as_often_as_retry_attempts_says)
{
    uint32_t order[rig_backend_count_max];
    CHECK(rig_start(&rig, &(struct rig_options){.config = "retry: {attempts: 2, backoff: 0}",
                                                .backend_count = 3}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    CHECK_EQ(reset_all(order, client, 2), 2);
    CHECK(order[0] != order[1]);
    CHECK_EQ(requests(0) + requests(1) + requests(2), 2);
    CHECK(rig_replan(&rig, "retry: {attempts: 1, backoff: 0}"));
    CHECK(peer_send(client, RIG_GET));
    CHECK_EQ(reset_all(order, client, 1), 1);
    CHECK_EQ(rig_totals(&rig).retry_count, 1);
    CHECK(rig_stop(&rig));
}

static bool break_within_head(struct peer *backend)
{
    bool broken =
        peer_expect(backend, RIG_GET) && peer_send(backend, "HTTP/1.1 200 OK\r\ncontent-le");
    peer_close(backend);
    return broken;
}

TEST(no_backend_gets_a_request_twice)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = "retry: {attempts: 10}\n"
                                                          "policy: random\n"
                                                          "health: {eject_failures: 0}",
                                                .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t round = 0; round < 5; round++) {
        CHECK(peer_send(client, RIG_GET));
        uint32_t asked = 0;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t index = 0;
            struct peer *backend = rig_accept_any(&rig, &index);
            asked |= break_within_head(backend) ? 1U << index : 0;
        }
        CHECK_EQ(asked, 15);
        CHECK(peer_expect_problem(client, 502, "bad_backend_answer"));
    }
    CHECK(rig_stop(&rig));
}

// Retries are there in plenty: only the rule for requests that may kill engines ends them.
#define MANY_RETRIES "retry: {attempts: 10, backoff: 0}\nhealth: {eject_failures: 0}\n"

// The backends that get the request and close, before the client gets its 502.
static uint32_t close_all(struct peer *client, const char *request, uint32_t most)
{
    uint32_t count = 0;

    if (!peer_send(client, request)) {
        return 0;
    }
    for (; count < most; count++) {
        uint32_t index;
        struct peer *backend = rig_accept_any(&rig, &index);
        if (!peer_expect(backend, request)) {
            return 0;
        }
        peer_close(backend);
    }
    bool over = peer_expect_problem(client, 502, "bad_backend_answer") && rig_has_no_call(&rig);
    return over ? count : 0;
}

TEST(a_request_whose_connection_ends_without_a_byte_reaches_one_other_backend)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES, .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK_EQ(close_all(client, RIG_GET, 2), 2);
    CHECK_EQ(close_all(client, POST "content-length: 5\r\n\r\nhello", 2), 2);
    CHECK_EQ(faults(0) + faults(1) + faults(2) + faults(3), 4);
    CHECK_EQ(rig_totals(&rig).retry_count, 2);
    // A reset counts as well.
    uint32_t order[rig_backend_count_max];
    CHECK(peer_send(client, RIG_GET));
    CHECK_EQ(reset_all(order, client, 2), 2);
    CHECK(order[0] != order[1]);
    CHECK(rig_stop(&rig));
}

TEST(a_prompt_that_two_backends_died_of_gets_no_second_one)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES, .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK_EQ(close_all(client, POST "content-length: 5\r\n\r\nhello", 2), 2);
    CHECK_EQ(rig_totals(&rig).poison_count, 1);
    CHECK_EQ(close_all(client, POST "content-length: 5\r\n\r\nhello", 1), 1);
    CHECK_EQ(rig_totals(&rig).poison_count, 2);
    // Another body, another path and a request without a body are other prompts, or none.
    CHECK_EQ(close_all(client, POST "content-length: 5\r\n\r\nworld", 2), 2);
    CHECK_EQ(close_all(client,
                       "POST /b HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"
                       "content-length: 5\r\n\r\nhello",
                       2),
             2);
    CHECK_EQ(close_all(client, RIG_GET, 2), 2);
    CHECK_EQ(close_all(client, RIG_GET, 2), 2);
    CHECK_EQ(rig_totals(&rig).poison_count, 4);
    CHECK_EQ(rig_totals(&rig).retry_count, 5);
    CHECK(rig_stop(&rig));
}

TEST(a_complete_response_shows_that_a_prompt_is_harmless)
{
    static const char request[] = POST "content-length: 5\r\n\r\nhello";
    static const char *const responses[] = {
        "HTTP/1.1 400 No\r\nx-request-id: r\r\ncontent-length: 0\r\n\r\n", RIG_OK};
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES, .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK_EQ(close_all(client, request, 2), 2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t index;
        CHECK(peer_send(client, request));
        struct peer *backend = rig_accept_any(&rig, &index);
        CHECK(peer_expect(backend, request));
        CHECK(peer_send(backend, responses[i]));
        CHECK(peer_expect(client, responses[i]));
        peer_close(backend);
        CHECK(rig_turn(&rig));
        // A refusal of the request shows nothing.
        CHECK_EQ(close_all(client, request, i + 1), i + 1);
    }
    CHECK_EQ(close_all(client, request, 2), 2);
    CHECK_EQ(rig_totals(&rig).poison_count, 2);
    CHECK(rig_stop(&rig));
}

TEST(other_failures_of_a_poison_prompt_are_retried)
{
    static const char request[] = POST "content-length: 5\r\n\r\nhello";
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES, .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK_EQ(close_all(client, request, 2), 2);
    CHECK(peer_send(client, request));
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, request));
    CHECK(peer_send(backend, STATUS("503")));
    backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, request));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    CHECK(rig_stop(&rig));
}

TEST(after_such_an_end_the_response_of_the_other_backend_is_final)
{
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES, .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, RIG_GET));
    peer_close(backend);
    backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, STATUS("502")));
    CHECK(peer_expect(client, STATUS("502")));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_refused_connection_does_not_count_as_the_one_other_backend)
{
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES "policy: random",
                                                .backend_count = 6,
                                                .refusing = 1 | 2 | 8}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t round = 0; round < 8; round++) {
        CHECK_EQ(close_all(client, RIG_GET, 2), 2);
    }
    CHECK_EQ(faults(2) + faults(4) + faults(5), 16);
    CHECK(rig_stop(&rig));
}

// Always goes to the same backend first.
#define SESSION_GET "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\nx-session-id: s\r\n\r\n"

// Sends the request, which a backend has then read on a connection that was kept.
static struct peer *ask_on_kept(struct peer *client, uint32_t *index)
{
    if (!peer_send(client, SESSION_GET)) {
        return NULL;
    }
    struct peer *backend = rig_accept_any(&rig, index);
    bool kept = peer_expect(backend, SESSION_GET) && peer_send(backend, RIG_OK) &&
                peer_expect(client, RIG_OK) && peer_send(client, SESSION_GET) &&
                peer_expect(backend, SESSION_GET);
    return kept ? backend : NULL;
}

TEST(a_kept_connection_that_ends_is_replaced_once_and_then_one_other_backend_is_asked)
{
    uint32_t first;
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES "policy: consistent_hash",
                                                .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    struct peer *backend = ask_on_kept(client, &first);
    CHECK(backend != NULL);
    peer_close(backend);
    backend = rig_accept(&rig, first);
    CHECK(peer_expect(backend, SESSION_GET));
    peer_close(backend);
    backend = rig_accept_any(&rig, &index);
    CHECK(index != first);
    CHECK(peer_expect(backend, SESSION_GET));
    peer_close(backend);
    CHECK(peer_expect_problem(client, 502, "bad_backend_answer"));
    CHECK(rig_has_no_call(&rig));
    CHECK_EQ(faults(first), 1);
    CHECK(rig_stop(&rig));
}

// An engine that died of a request over a kept connection takes no fresh one.
TEST(a_kept_connection_that_ends_before_a_refusal_was_not_stale)
{
    uint32_t first;
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES "policy: consistent_hash",
                                                .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    struct peer *backend = ask_on_kept(client, &first);
    CHECK(backend != NULL);
    CHECK_EQ(shutdown(rig.backends[first].fd, SHUT_RDWR), 0); // refuses from now on
    peer_close(backend);
    backend = rig_accept_any(&rig, &index);
    CHECK(peer_expect(backend, SESSION_GET));
    peer_close(backend);
    CHECK(peer_expect_problem(client, 502, "bad_backend_answer"));
    CHECK(rig_has_no_call(&rig));
    CHECK_EQ(rig_totals(&rig).retry_count, 1);
    CHECK(rig_stop(&rig));

    // It has cost an attempt.
    CHECK(rig_start(&rig, &(struct rig_options){.config = NO_RETRIES "\npolicy: consistent_hash",
                                                .backend_count = 2}));
    client = rig_connect(&rig);
    backend = ask_on_kept(client, &first);
    CHECK(backend != NULL);
    CHECK_EQ(shutdown(rig.backends[first].fd, SHUT_RDWR), 0);
    peer_close(backend);
    CHECK(peer_expect_problem(client, 502, "bad_backend_answer"));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_request_that_was_sent_in_part_killed_no_engine)
{
    enum { body_size = 24 << 20 }; // more than all buffers of the kernel take
    uint32_t index;
    CHECK(rig_start(&rig, &(struct rig_options){.config = MANY_RETRIES
                                                "limits: {body_size: 32m, body_memory: 64m}",
                                                .backend_count = 4}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, POST "content-length: 25165824\r\n\r\n"));
    CHECK(peer_send_zeros(client, body_size));
    for (uint32_t i = 0; i < 4; i++) {
        struct peer *backend = rig_accept_any(&rig, &index);
        CHECK(peer_expect(backend, "POST /a HTTP/1.1\r\n"));
        peer_reset(backend);
    }
    CHECK(peer_expect_problem(client, 502, "bad_backend_answer"));
    CHECK_EQ(rig_totals(&rig).retry_count, 3);
    CHECK(rig_stop(&rig));
}

TEST(retries_end_with_the_budget)
{
    uint32_t order[rig_backend_count_max];
    // Twice budget_min is there at first; ten seconds bring one more.
    CHECK(rig_start(
        &rig, &(struct rig_options){.config = "retry: {attempts: 2, backoff: 0, budget_percent: 0, "
                                              "budget_min: 1}\nhealth: {eject_failures: 0}",
                                    .backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    for (uint32_t round = 0; round < 4; round++) {
        CHECK(peer_send(client, RIG_GET));
        CHECK_EQ(reset_all(order, client, round < 2 ? 2 : 1), round < 2 ? 2 : 1);
    }
    CHECK_EQ(rig_totals(&rig).retry_count, 2);
    // A busy backend's answer is then the answer.
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept_any(&rig, order);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, BUSY));
    CHECK(peer_expect(client, BUSY));
    CHECK(rig_stop(&rig));
}

TEST(a_client_that_leaves_while_its_request_backs_off_leaves_nothing)
{
    struct rig_pair pair;
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "retry: {backoff: 10s}", .backend_count = 2}));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_reset(pair.backend);
    CHECK(rig_turn(&rig));
    peer_close(pair.client);
    CHECK(rig_has_connections(&rig, 0));
    CHECK(rig_becomes_idle(&rig));
    CHECK(rig_stop(&rig));
}
