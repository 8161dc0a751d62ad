// SPDX-License-Identifier: Apache-2.0

#include "exchange/account.h"

#include "metrics/meters.h"
#include "metrics/receipt_ring.h"
#include "proxy/rig.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: r\r\n"                    \
    "transfer-encoding: chunked\r\n\r\n"
#define EVENT(text) "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"}}]}\n\n"
#define USAGE                                                                                      \
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":2,"              \
    "\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
#define DONE "data: [DONE]\n\n"
#define BODY                                                                                       \
    "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"How long "    \
    "is the shadow of the lighthouse at noon on the shortest day of the year, and does it reach "  \
    "the water when the tide is low?\"}]}"

static struct rig rig;
static struct receipt_ring *ring;
static char scratch[8192];

static bool start(const char *config, uint32_t backends, uint32_t refusing)
{
    size_t size = receipt_ring_block_size();
    void *block = aligned_alloc(64, size);
    memset(block, 0, size);
    ring = receipt_ring_over(block);
    return rig_start(
        &rig, &(struct rig_options){
                  .config = config, .backend_count = backends, .refusing = refusing, .ring = ring});
}

static bool stop(void)
{
    bool good = rig_stop(&rig);
    free(ring);
    return good;
}

static const char *chunk(const char *data)
{
    snprintf(scratch, sizeof(scratch), "%zx\r\n%s\r\n", strlen(data), data);
    return scratch;
}

static const char *post(const char *body)
{
    snprintf(scratch, sizeof(scratch),
             "POST /v1/chat/completions?a=b HTTP/1.1\r\nhost: h\r\nx-request-id: "
             "r\r\ncontent-length: %zu\r\n\r\n%s",
             strlen(body), body);
    return scratch;
}

static const struct receipt *first(struct receipt_parts *parts)
{
    const struct receipt *receipt = receipt_ring_peek(ring);
    if (receipt != NULL) {
        receipt_parts(receipt, parts);
    }
    return receipt;
}

// The receipt of the only request that is over.
static const struct receipt *taken(struct receipt_parts *parts)
{
    while (first(parts) != NULL && first(parts)->outcome == RECEIPT_RUNNING) {
        receipt_ring_drop(ring);
    }
    return first(parts);
}

static struct peer *accepted(void)
{
    uint32_t index;
    char head[4096];
    struct peer *backend = rig_accept_any(&rig, &index);
    return peer_read_head(backend, head, sizeof(head)) &&
                   peer_expect_bytes(backend, BODY, sizeof(BODY) - 1)
               ? backend
               : NULL;
}

// A stream of two tokens whose usage says what was cached, under the policy of `config`.
static void stream_through(void)
{
    char head[4096];
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, post(BODY)));
    struct peer *backend = accepted();
    CHECK(peer_send(backend, STREAM_HEAD));
    CHECK(peer_send(backend, chunk(EVENT("It"))));
    CHECK(peer_read_head(client, head, sizeof(head)));
    CHECK(peer_expect(client, chunk(EVENT("It"))));
    CHECK(peer_send(backend, chunk(EVENT(" is"))));
    CHECK(peer_expect(client, chunk(EVENT(" is"))));
    CHECK(peer_send(backend, chunk(USAGE)));
    CHECK(peer_expect(client, chunk(USAGE)));
    CHECK(peer_send(backend, chunk(DONE)));
    CHECK(peer_send(backend, "0\r\n\r\n"));
    CHECK(peer_expect(client, chunk(DONE)));
    CHECK(peer_expect(client, "0\r\n\r\n"));
}

static void check_stream(const struct receipt *receipt, const struct receipt_parts *parts)
{
    CHECK_EQ(receipt->outcome, RECEIPT_OK);
    CHECK_EQ(receipt->status, 200);
    CHECK_EQ(receipt->attempts, 1);
    CHECK_EQ(receipt->prompt_tokens, 100);
    CHECK_EQ(receipt->cached_tokens, 64);
    CHECK(receipt->has_cached_tokens && receipt->is_streamed);
    CHECK_EQ(receipt->output_tokens, 2);
    CHECK(receipt->saved_us > 0);
    CHECK(receipt->complete_us > 0 && receipt->sent_us >= receipt->complete_us);
    CHECK(receipt->head_us >= receipt->sent_us && receipt->first_us >= receipt->head_us);
    CHECK(receipt->last_us >= receipt->first_us && receipt->end_us >= receipt->last_us);
    CHECK(receipt->stage_ns[RECEIPT_STAGE_PARSE] > 0);
    CHECK(receipt->stage_ns[RECEIPT_STAGE_MATCH] > 0);
    CHECK(receipt->stage_ns[RECEIPT_STAGE_DECIDE] > 0);
    CHECK_EQ(receipt->request_bytes, sizeof(BODY) - 1);
    CHECK(receipt->response_bytes > sizeof(USAGE));
    CHECK(slice_is(parts->id, "r"));
    CHECK(slice_is(parts->model, "m"));
    CHECK(slice_is(parts->path, "/v1/chat/completions"));
}

TEST(a_stream_leaves_what_was_decided_and_what_came_of_it)
{
    struct receipt_parts parts;
    CHECK(start("policy: warm\nprefix: {block_size: 64}\n", 3, 0));
    stream_through();
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    check_stream(receipt, &parts);
    CHECK_STR(receipt_policy_name(receipt), "warm");
    CHECK_EQ(receipt->decision.candidate_count, 3);
    CHECK_EQ(receipt->rival_count, 2);
    CHECK(parts.rivals[0].backend != receipt->decision.chosen.backend);
    CHECK(parts.rivals[0].prefill_ms > 0);
    CHECK_EQ(receipt->depth_count, 2);
    CHECK(receipt->stage_ns[RECEIPT_STAGE_TOKENIZE] > 0);
    CHECK(stop());
}

TEST(a_policy_that_looks_at_no_prompt_leaves_the_same_times_and_tokens)
{
    struct receipt_parts parts;
    CHECK(start("policy: round_robin\n", 2, 0));
    stream_through();
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    check_stream(receipt, &parts);
    CHECK_STR(receipt_policy_name(receipt), "round_robin");
    CHECK_EQ(receipt->decision.chosen.expected_tokens, 0);
    CHECK_EQ(receipt->depth_count, 0);
    CHECK(isnan(receipt->decision.chosen.cost));
    CHECK(stop());
}

TEST(a_response_without_a_backend_is_refused_with_its_problem)
{
    struct receipt_parts parts;
    CHECK(start("blocked_paths: [/a]\n", 1, 0));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect_problem(client, 403, "path_blocked"));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_REFUSED);
    CHECK_EQ(receipt->status, 403);
    CHECK_STR(receipt->problem, "path_blocked");
    CHECK_EQ(receipt->decision.chosen.backend, 0);
    CHECK_EQ(rig_totals(&rig).problems[HTTP_PROBLEM_BLOCKED], 1);
    CHECK(stop());
}

TEST(a_model_that_no_backend_serves_is_still_named)
{
    struct receipt_parts parts;
    char answer[4096];
    CHECK(start("", 1, 0));
    fleet_set_models(rig.fleet, rig.backends[0].backend,
                     &(struct fleet_model){.name = "other", .document = "{}"}, 1);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, post(BODY)));
    CHECK(peer_read_head(client, answer, sizeof(answer)));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_REFUSED);
    CHECK_STR(receipt->problem, "model_not_found");
    CHECK(slice_is(parts.model, "m"));
    CHECK(stop());
}

TEST(a_made_up_name_is_counted_as_the_model_that_serves_it)
{
    struct receipt_parts parts;
    char head[4096];
    CHECK(start("", 1, 0));
    fleet_set_any_name(rig.fleet, FLEET_ANY_NAME_ON);
    fleet_set_models(rig.fleet, rig.backends[0].backend,
                     &(struct fleet_model){.name = "other", .document = "{}"}, 1);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, post(BODY)));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_read_head(backend, head, sizeof(head)));
    CHECK(peer_expect(backend, BODY)); // it gets the name that the client gave
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_OK);
    CHECK(slice_is(parts.model, "other"));
    CHECK(stop());
}

TEST(a_request_without_a_body_is_timed_too_and_skips_the_hashing)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    CHECK(start("policy: round_robin", 1, 0));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_expect(pair.client, RIG_OK));
    CHECK(rig_becomes_idle(&rig));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL && receipt_is_timed(receipt));
    CHECK_EQ(receipt->stage_ns[RECEIPT_STAGE_TOKENIZE], 0);
    CHECK(stop());
}

TEST(a_client_that_leaves_is_gone)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    CHECK(start("", 1, 0));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    peer_close(pair.client);
    CHECK(rig_becomes_idle(&rig));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_GONE);
    CHECK(receipt->decision.chosen.backend != 0);
    CHECK(stop());
}

TEST(an_answer_that_breaks_off_is_broken)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    char rest[4096];
    CHECK(start("", 1, 0));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"));
    peer_close(pair.backend);
    CHECK(peer_read_rest(pair.client, rest, sizeof(rest)));
    CHECK(rig_becomes_idle(&rig));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_BROKEN);
    CHECK_STR(receipt->problem, "bad_backend_answer");
    CHECK(stop());
}

TEST(a_second_attempt_is_counted_and_its_backend_is_the_one_that_is_named)
{
    struct receipt_parts parts;
    CHECK(start("policy: round_robin\nretry: {backoff: 0}\n", 2, 1));
    struct peer *backend = NULL;
    for (int i = 0; i < 2; i++) { // one of the two meets the dead one first
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, RIG_GET));
        backend = backend != NULL ? backend : rig_accept(&rig, 1);
        char head[4096];
        CHECK(peer_read_head(backend, head, sizeof(head)));
        CHECK(peer_send(backend, RIG_OK));
        CHECK(peer_read_head(client, head, sizeof(head)));
        CHECK(peer_expect(client, "ok"));
    }
    uint32_t attempts = 0;
    for (int i = 0; i < 2; i++) {
        const struct receipt *receipt = taken(&parts);
        CHECK(receipt != NULL);
        CHECK_EQ(receipt->outcome, RECEIPT_OK);
        CHECK_EQ(receipt->decision.chosen.backend, rig.backends[1].backend->id);
        attempts += receipt->attempts;
        receipt_ring_drop(ring);
    }
    CHECK(attempts > 2);
    CHECK(stop());
}

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define CALLER "00f067aa0ba902b7"

// The head that the backend gets for a request with these fields.
static bool head_of(const char *fields, char *head, size_t capacity)
{
    char answer[4096];
    snprintf(scratch, sizeof(scratch), "GET /a HTTP/1.1\r\nhost: h\r\n%s\r\n", fields);
    struct peer *client = rig_connect(&rig);
    struct peer *backend = peer_send(client, scratch) ? rig_accept(&rig, 0) : NULL;
    bool good = peer_read_head(backend, head, capacity) && peer_send(backend, RIG_OK) &&
                peer_read_head(client, answer, sizeof(answer)) && peer_expect(client, "ok");
    peer_close(backend);
    return good;
}

TEST(a_trace_goes_on_with_our_span_as_the_parent)
{
    struct receipt_parts parts;
    char head[4096];
    CHECK(start("tracing: {endpoint: 'http://127.0.0.1:1'}\n", 1, 0));
    CHECK(head_of("traceparent: 00-" TRACE "-" CALLER "-01\r\ntracestate: a=b\r\n", head,
                  sizeof(head)));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL && receipt->is_sampled);
    CHECK_EQ(receipt->parent, 0x00f067aa0ba902b7);
    CHECK_EQ(receipt->trace[0], 0x4bf92f3577b34da6);
    char wanted[128];
    snprintf(wanted, sizeof(wanted), "traceparent: 00-" TRACE "-%016lx-01\r\n",
             (unsigned long)receipt->span);
    CHECK(strstr(head, wanted) != NULL);
    CHECK(strstr(head, "tracestate: a=b\r\n") != NULL);
    CHECK(stop());
}

TEST(an_unsampled_trace_goes_on_unsampled)
{
    struct receipt_parts parts;
    char head[4096];
    CHECK(start("tracing: {endpoint: 'http://127.0.0.1:1'}\n", 1, 0));
    CHECK(head_of("traceparent: 00-" TRACE "-" CALLER "-00\r\n", head, sizeof(head)));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL && !receipt->is_sampled && receipt->span != 0);
    CHECK(strstr(head, "-00\r\n") != NULL);
    CHECK(stop());
}

TEST(without_a_collector_a_trace_passes_as_it_is_and_none_is_begun)
{
    struct receipt_parts parts;
    char head[4096];
    CHECK(start("", 1, 0));
    CHECK(head_of("traceparent: 00-" TRACE "-" CALLER "-01\r\ntracestate: a=b\r\n", head,
                  sizeof(head)));
    CHECK(strstr(head, "traceparent: 00-" TRACE "-" CALLER "-01\r\ntracestate: a=b\r\n") != NULL);
    CHECK(taken(&parts)->span == 0);
    CHECK(head_of("", head, sizeof(head)));
    CHECK(strstr(head, "traceparent") == NULL);
    CHECK(stop());
}

TEST(a_request_is_known_before_it_ends)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    char head[4096];
    CHECK(start("", 1, 0));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    const struct receipt *receipt = first(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_RUNNING);
    CHECK(slice_is(parts.id, "r") && receipt->decision.chosen.backend != 0);
    uint64_t number = receipt->number;
    receipt_ring_drop(ring);
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK(peer_expect(pair.client, "ok"));
    receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_OK);
    CHECK_EQ(receipt->number, number);
    CHECK(stop());
}

TEST(a_malformed_request_has_a_time_like_every_other)
{
    struct receipt_parts parts;
    char head[4096];
    CHECK(start("", 1, 0));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "nonsense\r\n\r\n"));
    CHECK(peer_read_head(client, head, sizeof(head)));
    const struct receipt *receipt = taken(&parts);
    CHECK(receipt != NULL);
    CHECK_EQ(receipt->outcome, RECEIPT_REFUSED);
    CHECK_EQ(receipt->status, 400);
    CHECK_EQ(parts.id.size, 0);
    CHECK(receipt->wall_us > (uint64_t)1700000000 * 1000000); // not 1970
    CHECK(stop());
}

TEST(beginnings_of_requests_do_not_keep_others_from_being_counted)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    char head[4096];
    CHECK(start("limits: {requests: 2, connections: 64}\n", 1, 0));
    for (int i = 0; i < 8; i++) {
        CHECK(peer_send(rig_connect(&rig), "GET /a HT"));
    }
    CHECK(rig_turn(&rig));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK(peer_expect(pair.client, "ok"));
    CHECK(taken(&parts) != NULL);
    CHECK(stop());
}

TEST(connections_that_carry_no_request_leave_nothing)
{
    struct receipt_parts parts;
    CHECK(start("", 1, 0));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, "GET /a HT"));
    CHECK(rig_turn(&rig));
    peer_close(client);
    CHECK(rig_becomes_idle(&rig));
    CHECK(taken(&parts) == NULL);
    CHECK(stop());
}

TEST(nothing_is_counted_without_meters)
{
    struct receipt_parts parts;
    struct rig_pair pair;
    CHECK(start("metrics: {enabled: false}\n", 1, 0));
    CHECK(rig_ask(&rig, RIG_GET, &pair));
    CHECK(peer_send(pair.backend, RIG_OK));
    char head[4096];
    CHECK(peer_read_head(pair.client, head, sizeof(head)));
    CHECK(proxy_meters(rig.proxy, 0) == NULL);
    CHECK(taken(&parts) == NULL);
    CHECK(stop());
}
