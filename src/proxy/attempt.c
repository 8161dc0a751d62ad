// SPDX-License-Identifier: Apache-2.0
//
// The steps of one attempt: connect, send the request, await the head of the response.
//
// An attempt begins in choose, which counts the request in at a backend, and ends in attempt_end, on
// every path.
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
#include "sys/log.h"

#include <errno.h>
#include <string.h>

enum {
    // Reads per wake-up: after that others have their turn.
    head_reads_max = 16,
    // Interim heads before one response; no engine sends more than a few.
    interim_count_max = 64,
};

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

// A fresh connection to the same backend, in place of a kept one that was dead.
static const struct step *connect_afresh(struct exchange *x)
{
    upstream_close(&x->upstream);
    exchange_drop_answer(x);
    x->use_fresh = true;
    return &step_connect;
}

const struct step *attempt_starved(struct exchange *x, const char *what)
{
    attempt_end(x, false);
    return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str(what));
}

static void attempt_write_head(struct exchange *x)
{
    const struct request *request = x->request;
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
    how.traceparent = account_traceparent(x->account, &trace);
    how.begins_trace = how.traceparent.size > 0 && x->account->receipt.parent == 0;
    size_t body_size = body_edits_size(&request->edits, request->body_size);
    if (request->edits.count > 0) {
        how.content_length = body_size;
    }
    struct text out = text_over(x->sending.bytes, x->worker->buffer_size);
    http_forward_request(&x->request->head, &how, &out);
    // A chunked body goes on as one chunk, with its trailers behind it.
    if (x->request->head.framing == HTTP_CHUNKED && x->request->body_size > 0) {
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
        route_try_gone(&x->request->tried, x->backend);
    }
    return x->step->backend_gone(x);
}

const struct step *connect_run(struct exchange *x)
{
    struct worker *worker = x->worker;
    enum status status;

    if (x->upstream == NULL) {
        status = upstream_open(worker, x->backend, x->use_fresh, &x->upstream);
        if (status == STATUS_EXHAUSTED) {
            return attempt_starved(x, "no connection is free");
        }
        if (status != STATUS_OK) {
            return connect_failed(x, errno);
        }
        x->upstream->exchange = x;
        if (!x->upstream->connected) {
            exchange_wait(x, WAIT_BACKEND, worker->config->timeouts.connect);
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
        return attempt_starved(x, "no buffer is free");
    }
    attempt_write_head(x);
    x->sent = 0;
    x->request_is_sent = false;
    x->send_failed = false;
    x->got_bytes = false;
    x->request->attempts += !x->use_fresh;
    exchange_wait(x, WAIT_BACKEND, worker->config->timeouts.first_byte);
    return &step_send_request;
}

const struct step *connect_expire(struct exchange *x)
{
    return retry_after(x, FAILURE_CONNECT_TIMEOUT);
}

const struct step *connect_gone(struct exchange *x)
{
    return retry_after(x, FAILURE_CONNECT);
}

enum { part_max = body_part_max + 4 };

// Head, edited body, and for a chunked one its end: the parts of them that are not sent yet.
static uint32_t parts_left(const struct exchange *x, struct slice parts[part_max])
{
    const struct request *request = x->request;
    struct slice all[part_max] = {slice_of(x->sending.bytes, x->sending.end)};
    uint32_t all_count = 1 + body_edits_parts(&request->edits, request_body(request), all + 1);
    size_t skip = x->sent;
    uint32_t count = 0;

    if (request->head.framing == HTTP_CHUNKED) {
        all[all_count++] = slice_str(request->body_size > 0 ? "\r\n0\r\n" : "0\r\n");
        all[all_count++] = slice_of(request->body + request->body_size, request->trailer_size);
        all[all_count++] = slice_str("\r\n");
    }
    for (uint32_t i = 0; i < all_count; i++) {
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
    struct slice parts[part_max];
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

// Feeds what has been received to the parser: the worker's own if it all came at once, else one
// that the exchange keeps.
static enum status feed_head(struct exchange *x, struct http_head **head)
{
    struct worker *worker = x->worker;
    struct http_limits limits = {.head_size = worker->head_size_max,
                                 .target_size = worker->head_size_max};

    if (x->answer_head == NULL) {
        http_head_start(worker->answer_head, HTTP_KIND_RESPONSE, limits);
        *head = worker->answer_head;
        enum status status = http_head_feed(*head, buffer_slice(&x->receiving));
        if (status != STATUS_AGAIN) {
            return status;
        }
        x->answer_head = pool_take(&worker->heads);
        if (x->answer_head == NULL) {
            return STATUS_EXHAUSTED;
        }
        http_head_start(x->answer_head, HTTP_KIND_RESPONSE, limits);
    }
    *head = x->answer_head;
    return http_head_feed(x->answer_head, buffer_slice(&x->receiving));
}

static void note_garbage(const struct exchange *x, const struct http_head *head)
{
    log_warn_seldom(x->backend->id, "backend %s: its answer is no HTTP: %s", x->backend->url,
                    head->why != NULL ? head->why : "the head is too large");
}

// One or more heads may have come: interim ones, then the answer's.  With *wait more must come.
static const struct step *take_heads(struct exchange *x, bool *wait)
{
    struct http_head *head = NULL;

    *wait = false;
    while (!buffer_is_empty(&x->receiving)) {
        switch (feed_head(x, &head)) {
        case STATUS_OK:
            break;
        case STATUS_AGAIN:
            *wait = true;
            return NULL;
        case STATUS_EXHAUSTED:
            return attempt_starved(x, "no head is free");
        default:
            note_garbage(x, head);
            return retry_after(x, FAILURE_GARBAGE);
        }
        if (head->status == 101) {
            return retry_after(x, FAILURE_GARBAGE); // we asked for no upgrade
        }
        if (head->status >= 200) {
            return relay_begin(x, head);
        }
        if (++x->interim_count > interim_count_max) {
            return retry_after(x, FAILURE_GARBAGE);
        }
        response_pass_interim(x, head);
        x->receiving.begin += head->size;
        if (x->answer_head != NULL) {
            pool_put(&x->worker->heads, &x->answer_head);
        }
    }
    *wait = true;
    return NULL;
}

// Makes room at the end of the buffer for the next read.
static bool make_room(struct exchange *x)
{
    struct buffer *in = &x->receiving;

    if (in->bytes == NULL) {
        return buffer_take(x->worker, in);
    }
    if (in->begin > 0) {
        memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
        in->end -= in->begin;
        in->begin = 0;
    }
    return true;
}

const struct step *await_head_run(struct exchange *x)
{
    struct transport *transport = &x->upstream->transport;
    bool wait = true;

    for (unsigned turn = 0; transport->can_read; turn++) {
        if (turn == head_reads_max) {
            worker_again(x->worker, x->client);
            return NULL;
        }
        if (!make_room(x)) {
            return attempt_starved(x, "no buffer is free");
        }
        size_t size = 0;
        struct buffer *in = &x->receiving;
        enum status status =
            transport_read(transport, in->bytes + in->end, x->worker->read_size - in->end, &size);
        if (status == STATUS_AGAIN) {
            break;
        }
        if (status != STATUS_OK) {
            return x->step->backend_gone(x);
        }
        in->end += (uint32_t)size;
        x->got_bytes = true;
        const struct step *next = take_heads(x, &wait);
        if (!wait) {
            return next;
        }
    }
    if (buffer_is_empty(&x->receiving)) {
        buffer_put(x->worker, &x->receiving);
    }
    if (exchange_flush(x) == STATUS_IO) { // of interim heads; whoever waits for them is gone
        exchange_abort(x);
        return NULL;
    }
    if (x->send_failed) {
        return x->step->backend_gone(x);
    }
    // The backend reads on: the request may not be all sent.
    return !x->request_is_sent && transport->can_write ? &step_send_request : NULL;
}

const struct step *await_head_expire(struct exchange *x)
{
    return retry_after(x, FAILURE_FIRST_BYTE);
}

const struct step *await_head_gone(struct exchange *x)
{
    return x->upstream->reused && !x->got_bytes ? connect_afresh(x) : retry_after(x, FAILURE_RESET);
}
