// SPDX-License-Identifier: Apache-2.0
//
// The steps that bring a request to a backend, and what happens when one fails.
//
// An attempt begins when routing counts the request in at a backend and ends in attempt_end, on
// every path.  Another backend is tried only while no byte of an answer has reached the client, never
// one that was tried before, and within limits: retry.attempts for attempts that an engine may have
// worked on, and the worker's budget.  A connection that was refused put no load on anyone and costs
// neither, so a dead backend never makes a request fail while another one lives.
//
// A kept connection that breaks before it brings a byte was closed by the backend while idle: that
// says nothing about the backend, and the same one gets a fresh connection.

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "http/forward.h"
#include "http/traceparent.h"
#include "net/tcp.h"
#include "proxy/account.h"
#include "proxy/exchange_internal.h"
#include "proxy/trail.h"
#include "proxy/upstream.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <errno.h>
#include <string.h>

// Backoff stops doubling here; retry.attempts is never that large.
enum { backoff_doublings_max = 8 };

static const struct {
    bool is_fault;
    bool is_retried;
    bool is_free; // of the budget and of retry.attempts: no engine has seen the request
    enum http_problem problem;
} failures[] = {
    [FAILURE_CONNECT] = {true, true, true, HTTP_PROBLEM_UNREACHABLE},
    [FAILURE_CONNECT_TIMEOUT] = {true, true, true, HTTP_PROBLEM_CONNECT_TIMEOUT},
    [FAILURE_RESET] = {true, true, false, HTTP_PROBLEM_BAD_ANSWER},
    [FAILURE_BUSY] = {false, true, false, HTTP_PROBLEM_NO_BACKEND},
    [FAILURE_GARBAGE] = {true, false, false, HTTP_PROBLEM_BAD_ANSWER},
    [FAILURE_FIRST_BYTE] = {true, false, false, HTTP_PROBLEM_FIRST_BYTE_TIMEOUT},
};

static const struct slice no_detail = {0};

static struct backend_rules rules_of(const struct config *config)
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
    struct backend_rules rules = rules_of(x->worker->config);
    bool was_out = backend_tier(x->backend, now_ms) == BACKEND_DOWN;

    backend_judge(x->backend, outcome, x->on_trial, now_ms, &rules);
    if (outcome == BACKEND_FAULT && !was_out && backend_tier(x->backend, now_ms) == BACKEND_DOWN) {
        log_warn_seldom(x->backend->id, "backend %s ejected after repeated failures",
                        x->backend->url);
    }
}

void attempt_end(struct exchange *x, bool keep)
{
    if (x->upstream != NULL) {
        if (keep) {
            upstream_keep(&x->upstream);
        } else {
            upstream_close(&x->upstream);
        }
    }
    account_learn(x);
    trail_end(&x->trail);
    if (x->backend != NULL) {
        backend_end(x->backend, x->on_trial);
        x->backend = NULL;
    }
}

// The value of the first session header that the request has.
static struct slice session_of(const struct exchange *x)
{
    const struct config_list *headers = &x->worker->config->session_headers;
    for (uint32_t i = 0; i < headers->count; i++) {
        const struct http_field *field = http_head_find_text(x->head, headers->items[i]);
        if (field != NULL && field->value_size > 0) {
            return http_field_value(x->head, field);
        }
    }
    return no_detail;
}

struct route_input attempt_input(const struct exchange *x)
{
    return (struct route_input){
        .api = prompt_api_of(http_head_path(x->head)),
        .body = slice_of(x->body, x->body_size),
        .session = session_of(x),
        .wall_s = x->worker->token_thread != NULL ? clock_wall_ms() / 1000 : 0,
    };
}

bool attempt_may_retry(struct exchange *x, enum failure failure)
{
    const struct config *config = x->worker->config;
    struct route_request request;

    if (!failures[failure].is_retried || x->head == NULL || x->tried.count == route_tried_max) {
        return false;
    }
    if (!failures[failure].is_free && x->attempts >= config->retry.attempts) {
        return false;
    }
    struct route_input input = attempt_input(x);
    route_read_model(x->worker->route, &input, &request);
    // An engine that is busy is better news than one that is down: its answer is passed on then.
    enum backend_tier worst = failure == FAILURE_BUSY ? BACKEND_BUSY : BACKEND_DOWN;
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    if (!route_has_more(x->worker->view, &request, &x->tried, worst, now_ms)) {
        return false;
    }
    struct retry_budget_rules budget = {config->retry.budget_percent, config->retry.budget_min};
    return failures[failure].is_free ||
           retry_budget_withdraw(&x->worker->retry_budget, &budget, now_ms);
}

// Full jitter: many requests that failed together do not come back together.
static const struct step *back_off(struct exchange *x)
{
    uint32_t doublings =
        x->tried.count < backoff_doublings_max ? x->tried.count - 1 : backoff_doublings_max;
    uint32_t most_ms = x->worker->config->retry.backoff << doublings;
    uint32_t delay_ms = most_ms == 0 ? 0 : rng_below(&x->worker->rng, most_ms + 1);

    worker_count(&x->worker->shared.retry_count);
    if (delay_ms == 0) {
        return tokenize_is_needed(x) ? &step_tokenize : &step_route;
    }
    exchange_set_phase(x, PHASE_BACK_OFF, delay_ms);
    return &step_back_off;
}

// Left by the deadline alone.
const struct step *back_off_run(struct exchange *x)
{
    (void)x;
    return NULL;
}

// Forgets what the attempt brought, except for bytes that are on their way to the client.
static void clear_attempt(struct exchange *x)
{
    attempt_end(x, false);
    buffer_put(x->worker, &x->sending);
    exchange_drop_answer(x);
}

const struct step *attempt_again(struct exchange *x)
{
    clear_attempt(x);
    account_wait(x);
    return back_off(x);
}

const struct step *attempt_failed(struct exchange *x, enum failure failure)
{
    ASSERT(x->backend != NULL && !x->has_begun);

    if (failures[failure].is_fault) {
        log_debug("backend %s: %s", x->backend->url, http_problem_code(failures[failure].problem));
        attempt_judge(x, BACKEND_FAULT);
    }
    if (attempt_may_retry(x, failure)) {
        return attempt_again(x);
    }
    clear_attempt(x);
    return exchange_refuse(x, failures[failure].problem, no_detail);
}

// A fresh connection to the same backend, in place of a kept one that was dead.
static const struct step *connect_afresh(struct exchange *x)
{
    upstream_close(&x->upstream);
    exchange_drop_answer(x);
    x->use_fresh = true;
    return &step_connect;
}

const struct step *attempt_reset(struct exchange *x)
{
    return x->upstream->reused && !x->got_bytes ? connect_afresh(x)
                                                : attempt_failed(x, FAILURE_RESET);
}

// Without a trail nobody would look at what comes back, nor hide it from the client.
static void ask_for_usage(struct exchange *x, const struct prompt *prompt)
{
    bool asks = x->trail != NULL && x->trail->is_named && x->worker->config->ask_usage &&
                prompt->usage_text != NULL && prompt->form != PROMPT_NOTHING;

    x->insertion = asks ? prompt->usage_text : NULL;
    x->insertion_at = prompt->usage_at;
    x->insertion_over = prompt->usage_over;
    if (asks) {
        x->trail->hides_usage = true;
    }
}

const struct step *route_run(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct route_request request;
    struct route_choice choice;

    ASSERT(x->backend == NULL && x->head != NULL);
    if (x->tried.count == 0) {
        x->arrived_us = loop_now_us(worker->loop);
    }
    struct route_input input = attempt_input(x);
    input.token_result = tokenize_result(x);
    input.is_timed = account_is_detailed(x);
    route_read(worker->route, worker->view, &input, &request);
    tokenize_release(x); // its ids are good until another turn
    account_model(x, request.model);
    switch (route_choose(worker->route, worker->view, &request, &x->tried,
                         loop_now_us(worker->loop), &choice)) {
    case ROUTE_CHOSEN:
        break;
    case ROUTE_NO_SUCH_MODEL:
        return exchange_refuse(x, HTTP_PROBLEM_NO_SUCH_MODEL, request.model);
    case ROUTE_NO_BACKEND:
        return exchange_refuse(
            x, x->tried.count > 0 ? HTTP_PROBLEM_UNREACHABLE : HTTP_PROBLEM_NO_BACKEND, no_detail);
    }
    x->backend = choice.backend;
    x->on_trial = choice.on_trial;
    x->decision = choice.decision;
    account_route(x, &request, &choice);
    // Who looks at no prompt may still want to know what became of it.
    x->trail = request.chain != NULL || x->account != NULL
                   ? trail_begin(worker, &request, &choice, x->arrived_us)
                   : NULL;
    if (forward_ids(x, &request) && worker->config->ask_usage) {
        input = attempt_input(x); // places in the old body mean nothing in the new one
        route_read_model(worker->route, &input, &request);
    }
    ask_for_usage(x, request.prompt);
    x->tried.ids[x->tried.count++] = choice.backend->id;
    x->use_fresh = false;
    return &step_connect;
}

static void write_head(struct exchange *x)
{
    const struct config *config = x->worker->config;
    const struct backend *backend = x->backend;
    uint8_t address_space[64];
    struct text address = text_over(address_space, sizeof(address_space));
    uint8_t rank_space[24];
    struct text rank = text_over(rank_space, sizeof(rank_space));
    uint8_t trace_space[traceparent_size];
    struct text trace = text_over(trace_space, sizeof(trace_space));
    struct http_forward_request how = {
        .host = slice_str(backend->authority),
        .request_id = x->request_id_text,
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
    how.traceparent = account_traceparent(x->account, &trace);
    how.begins_trace = how.traceparent.size > 0 && x->account->receipt.parent == 0;
    size_t body_size = x->body_size;
    if (x->is_rewritten) {
        how.content_length = body_size;
    }
    if (x->insertion != NULL) {
        body_size += strlen(x->insertion) - x->insertion_over;
        how.content_length = body_size;
    }
    struct text out = text_over(x->sending.bytes, x->worker->buffer_size);
    http_forward_request(x->head, &how, &out);
    // A chunked body goes on as one chunk, with its trailers behind it.
    if (x->head->framing == HTTP_CHUNKED && x->body_size > 0) {
        text_add_hex(&out, body_size);
        text_add_str(&out, "\r\n");
    }
    ASSERT(!out.overflow);
    x->sending.end = (uint32_t)out.size;
}

// Only a port where nobody listens says that the process is gone, and what it held with it; a network
// or a certificate that fails says nothing of its cache.
static const struct step *connect_failed(struct exchange *x, int error)
{
    if (error == ECONNREFUSED) {
        fleet_view_lose(x->worker->view, x->backend);
        route_try_gone(&x->tried, x->backend);
    }
    return attempt_failed(x, FAILURE_CONNECT);
}

const struct step *connect_run(struct exchange *x)
{
    struct worker *worker = x->worker;
    enum status status;

    if (x->upstream == NULL) {
        status = upstream_open(worker, x->backend, x->use_fresh, &x->upstream);
        if (status == STATUS_EXHAUSTED) {
            attempt_end(x, false);
            return exchange_refuse(x, HTTP_PROBLEM_OVERLOADED, slice_str("no connection is free"));
        }
        if (status != STATUS_OK) {
            return connect_failed(x, errno);
        }
        x->upstream->exchange = x;
        if (!x->upstream->connected) {
            exchange_set_phase(x, PHASE_CONNECT, worker->config->timeouts.connect);
        }
    }
    status = upstream_connect(x->upstream);
    if (status == STATUS_AGAIN) {
        return NULL;
    }
    if (status != STATUS_OK) {
        int error = x->upstream->connected ? 0 : errno;
        log_debug("backend %s: cannot connect: %s", x->backend->url,
                  transport_why(&x->upstream->transport));
        return connect_failed(x, error);
    }
    if (x->sending.bytes == NULL && !buffer_take(worker, &x->sending)) {
        attempt_end(x, false);
        return exchange_refuse(x, HTTP_PROBLEM_OVERLOADED, slice_str("no buffer is free"));
    }
    write_head(x);
    x->sent = 0;
    x->request_is_sent = false;
    x->send_failed = false;
    x->got_bytes = false;
    x->attempts += !x->use_fresh;
    exchange_set_phase(x, PHASE_FIRST_BYTE, worker->config->timeouts.first_byte);
    return &step_send_request;
}

enum { part_count = 7 };

// Head, body, and for a chunked one its end: what of them is not sent yet.
static uint32_t parts_left(const struct exchange *x, struct slice parts[part_count])
{
    bool chunked = x->head->framing == HTTP_CHUNKED;
    struct slice end = slice_str(x->body_size > 0 ? "\r\n0\r\n" : "0\r\n");
    size_t before = x->insertion != NULL ? x->insertion_at : x->body_size;
    size_t behind = x->insertion != NULL ? before + x->insertion_over : before;
    struct slice all[part_count] = {
        slice_of(x->sending.bytes, x->sending.end),
        slice_of(x->body, before),
        x->insertion != NULL ? slice_str(x->insertion) : no_detail,
        slice_of(x->body + behind, x->body_size - behind),
        chunked ? end : no_detail,
        slice_of(x->body + x->body_size, x->trailer_size),
        chunked ? slice_str("\r\n") : no_detail,
    };
    size_t skip = x->sent;
    uint32_t count = 0;

    for (uint32_t i = 0; i < part_count; i++) {
        size_t passed = skip < all[i].size ? skip : all[i].size;
        skip -= passed;
        if (all[i].size > passed) {
            parts[count++] = slice_of(all[i].bytes + passed, all[i].size - passed);
        }
    }
    return count;
}

const struct step *send_request_run(struct exchange *x)
{
    struct transport *transport = &x->upstream->transport;
    struct slice parts[part_count];
    uint32_t count;

    while ((count = parts_left(x, parts)) > 0) {
        size_t moved = 0;
        enum status status =
            transport->can_write ? transport_write(transport, parts, count, &moved) : STATUS_AGAIN;
        if (status == STATUS_AGAIN && !transport->can_read) {
            return NULL;
        }
        if (status != STATUS_OK) {
            // It may have answered early and closed (413, 401): what it said is worth reading.
            x->send_failed = status != STATUS_AGAIN;
            transport->can_read = true;
            return &step_await_head;
        }
        x->sent += moved;
    }
    x->request_is_sent = true;
    if (x->account != NULL) {
        x->account->receipt.sent_us = account_moment(x->account, loop_now_us(x->worker->loop));
    }
    buffer_put(x->worker, &x->sending);
    return &step_await_head;
}
