// SPDX-License-Identifier: Apache-2.0
//
// The step of one attempt: connect, send the request, await the head of the response.
//
// An attempt begins in choose, which counts the request in at a backend, and ends in attempt_end,
// on every path.

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "exchange/observer.h"
#include "exchange/preview.h"
#include "http/forward.h"
#include "http/traceparent.h"
#include "net/tcp.h"
#include "sys/log.h"
#include "worker/upstream.h"

#include <errno.h>
#include <string.h>

// Interim heads before one response; no engine sends more than a few.
enum { interim_count_max = 64 };

// A whole response may take so long; a client that was refused waits no longer for another one.
enum { opinion_wait_ms = 60000 };

static struct backend_rules attempt_rules(const struct config *config)
{
    return (struct backend_rules){
        .eject_failures = config->health.eject_failures,
        .eject_time_ms = config->health.eject_time,
        .eject_time_max_ms = config->health.eject_time_max,
    };
}

void attempt_judge(struct exchange *x, enum backend_outcome outcome)
{
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    struct backend_rules rules = attempt_rules(x->worker->config);
    bool is_fault = outcome == BACKEND_FAULT || outcome == BACKEND_UNREACHED;
    bool was_out = backend_tier(x->hop.backend, now_ms) == BACKEND_DOWN;

    backend_judge(x->hop.backend, outcome, x->hop.on_trial, now_ms, &rules);
    if (is_fault && !was_out && backend_tier(x->hop.backend, now_ms) == BACKEND_DOWN) {
        log_warn_seldom(x->hop.backend->id, "backend %s ejected after repeated failures",
                        x->hop.backend->url);
    }
}

void attempt_end(struct exchange *x, bool keep)
{
    account_learn(x);
    hop_end(&x->hop, keep);
}

static void attempt_write_head(struct exchange *x)
{
    const struct request *request = x->request;
    const struct config *config = x->worker->config;
    const struct backend *backend = x->hop.backend;
    uint8_t address_space[64];
    struct text address = text_over(address_space, sizeof(address_space));
    uint8_t rank_space[24];
    struct text rank = text_over(rank_space, sizeof(rank_space));
    uint8_t trace_space[traceparent_size];
    struct text trace = text_over(trace_space, sizeof(trace_space));
    struct http_forward_request how = {
        .host = slice_str(backend->authority),
        .request_id = x->request->id_text,
        .keep_authorization = config->authorization == CONFIG_AUTHORIZATION_FORWARD,
    };

    if (config->authorization == CONFIG_AUTHORIZATION_REPLACE && backend->authorization != NULL) {
        how.authorization = slice_str(backend->authorization);
    }
    if (config->forwarded_for) {
        address_format_host(&x->client->peer, &address);
        how.forwarded_for = text_slice(&address);
    }
    if (backend->rank_count > 1) {
        text_add_u64(&rank, backend->rank);
        how.rank = text_slice(&rank);
    }
    how.traceparent = account_traceparent(x, &trace, &how.begins_trace);
    size_t body_size = body_edits_size(&request->edits, request->body_size);
    if (request->edits.count > 0) {
        how.content_length = body_size;
    }
    struct text out = text_over(x->hop.sending.bytes, x->worker->buffer_size);
    http_forward_request(&x->request->head, &how, &out);
    // A chunked body goes on as one chunk, with its trailers behind it.
    if (x->request->head.framing == HTTP_CHUNKED && x->request->body_size > 0) {
        text_add_hex(&out, body_size);
        text_add_str(&out, "\r\n");
    }
    ASSERT(!out.overflow);
    x->hop.sending.end = (uint32_t)out.size;
}

// One turn for each portion, since an engine may send a byte at a time.
static const struct step *attempt_await_more(struct exchange *x)
{
    bool is_first = x->hop.previewed == 0;

    hop_await_more(&x->hop);
    if (is_first) {
        exchange_wait(x, WAIT_BACKEND, preview_wait_ms);
    }
    client_again(x->client);
    return NULL;
}

// A head has come: passes an interim one on, or begins the response.
static const struct step *attempt_take_head(struct exchange *x)
{
    struct hop *hop = &x->hop;

    if (hop->head->status >= 200) {
        http_head_response_framing(hop->head, x->is_head_request);
        return verdict_awaits_more(x, hop->head) ? attempt_await_more(x)
                                                 : relay_begin(x, hop->head);
    }
    // We ask for no upgrade.
    if (hop->head->status == 101 || ++hop->interim_count > interim_count_max) {
        return retry_after(x, HOP_INVALID);
    }
    if (x->kept.status == 0) { // a part of it may have gone when the refusal passes
        response_pass_interim(x, hop->head);
    }
    hop_skip_head(hop);
    return &step_attempt;
}

static const struct step *attempt_park(struct exchange *x)
{
    if (exchange_flush(x) == STATUS_IO) { // of interim heads: the client is gone
        exchange_abort(x);
    }
    return NULL;
}

const struct step *attempt_run(struct exchange *x)
{
    const struct config *config = x->worker->config;
    struct hop *hop = &x->hop;

    switch (hop_run(hop)) {
    case HOP_OPENED:
        exchange_wait(x, WAIT_BACKEND, config->timeouts.connect);
        return &step_attempt;
    case HOP_CONNECTED:
        attempt_write_head(x);
        x->request->attempts += !hop->is_fresh;
        exchange_wait(x, WAIT_BACKEND,
                      x->kept.status != 0 ? refusal_ask_ms : config->timeouts.first_byte);
        return &step_attempt;
    case HOP_SENT:
        account_sent(x);
        return &step_attempt;
    case HOP_HEAD:
        return attempt_take_head(x);
    case HOP_WAITS:
        return attempt_park(x);
    case HOP_GIVES_WAY:
        client_again(x->client);
        return NULL;
    case HOP_FAILED:
        return x->step->backend_gone(x);
    case HOP_STARVED:
        attempt_end(x, false);
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str(hop->missing));
    }
    ASSERT(false);
    return NULL;
}

// The client of a kept refusal waits for another backend, for as long as that one seems well.
static const struct step *attempt_expire_opinion(struct exchange *x)
{
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    uint32_t first_byte_ms = x->worker->config->timeouts.first_byte;
    uint64_t waited_ms = now_ms - x->hop.begun_ms;

    if (first_byte_ms != 0 && waited_ms >= first_byte_ms) {
        return retry_after(x, HOP_FIRST_BYTE_TIMEOUT);
    }
    if (backend_tier(x->hop.backend, now_ms) == BACKEND_DOWN && retry_is_allowed(x, HOP_REFUSED)) {
        return retry_elsewhere(x);
    }
    if (waited_ms >= opinion_wait_ms || backend_tier(x->hop.backend, now_ms) == BACKEND_DOWN) {
        return refusal_pass(x);
    }
    exchange_wait(x, WAIT_BACKEND, refusal_ask_ms);
    return NULL;
}

const struct step *attempt_expire(struct exchange *x)
{
    if (x->hop.previewed > 0) {
        x->hop.previewed = 0;
        x->hop.preview_is_over = true;
        return &step_attempt;
    }
    bool is_connecting = x->hop.stage == HOP_CONNECTING;
    if (!is_connecting && x->kept.status != 0) {
        return attempt_expire_opinion(x);
    }
    return retry_after(x, is_connecting ? HOP_CONNECT_TIMEOUT : HOP_FIRST_BYTE_TIMEOUT);
}

// A kept connection that breaks before it brings a byte was closed by the backend while idle.  That
// shows nothing of the backend, which gets a fresh connection.
const struct step *attempt_gone(struct exchange *x)
{
    struct hop *hop = &x->hop;

    if (hop->failure == HOP_RESET && hop->upstream->reused && !hop->got_bytes) {
        hop_reopen(hop);
        return &step_attempt;
    }
    if (hop->is_refused) {
        fleet_view_lose(x->worker->view, hop->backend);
        route_try_gone(&x->request->tried, hop->backend);
    }
    return retry_after(x, hop->failure);
}
