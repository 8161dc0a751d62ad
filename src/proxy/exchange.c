// SPDX-License-Identifier: Apache-2.0

#include "proxy/exchange.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "proxy/account.h"
#include "proxy/exchange_internal.h"

// More than all steps times all attempts: a longer walk without parking is a cycle.
enum { step_walk_max = 256 };

enum { retry_after_s = 1 };

#define X(name) const struct step step_##name = {#name, name##_run};
STEPS(X)
#undef X

bool exchange_start(struct client *client)
{
    struct worker *worker = client->worker;
    struct exchange *x = pool_take(&worker->exchanges);
    struct http_head *head = pool_take(&worker->heads);

    if (x == NULL || head == NULL) {
        if (x != NULL) {
            pool_put(&worker->exchanges, &x);
        }
        if (head != NULL) {
            pool_put(&worker->heads, &head);
        }
        return false;
    }
    *x = (struct exchange){
        .step = &step_read_head,
        .worker = worker,
        .client = client,
        .head = head,
        .account = account_open(worker),
        .request_deadline_ms = UINT64_MAX,
    };
    http_head_start(head, HTTP_KIND_REQUEST,
                    (struct http_limits){.head_size = worker->head_size_max,
                                         .target_size = worker->config->limits.uri_size});
    client->exchange = x;
    exchange_set_phase(x, PHASE_HEADER, worker->config->timeouts.header);
    return true;
}

// A client that closed its side while we work for it is gone, unless the operator knows better.
static bool client_is_gone(const struct exchange *x)
{
    const struct transport *transport = &x->client->transport;
    return x->is_complete &&
           (transport->is_dead || (transport->hung_up && !x->worker->config->half_close));
}

static void walk(struct exchange *x, const struct step *next)
{
    unsigned walked = 0;

    while (next != NULL) {
        ASSERT(walked < step_walk_max);
        walked++;
        x->step = next;
        if (client_is_gone(x) && next != &step_finish) {
            exchange_abort(x);
            return;
        }
        next = next->run(x);
    }
    // The last step may have freed `x`.
}

void exchange_run(struct exchange *x)
{
    walk(x, x->step);
}

void exchange_wake(struct exchange *x)
{
    client_wake(x->client);
}

void exchange_set_phase(struct exchange *x, enum phase phase, uint32_t limit_ms)
{
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    // Events come before timers: the deadline may have passed without having been noticed.
    uint64_t left_ms = x->request_deadline_ms > now_ms ? x->request_deadline_ms - now_ms : 1;

    if (x->request_deadline_ms == UINT64_MAX || (limit_ms != 0 && limit_ms < left_ms)) {
        x->phase = phase;
        client_set_deadline(x->client, limit_ms);
        return;
    }
    x->phase = PHASE_REQUEST;
    client_set_deadline(x->client, left_ms);
}

void exchange_await(struct exchange *x, enum phase phase, uint32_t limit_ms)
{
    if (x->awaited != phase) {
        x->awaited = phase;
        exchange_set_phase(x, phase, limit_ms);
    }
}

// NULL when the exchange is over.
static const struct step *expired(struct exchange *x)
{
    struct slice none = {0};

    switch (x->phase) {
    case PHASE_HEADER:
    case PHASE_BODY:
        return exchange_refuse(x, HTTP_PROBLEM_SLOW_REQUEST, none);
    case PHASE_CONNECT:
        return attempt_failed(x, FAILURE_CONNECT_TIMEOUT);
    case PHASE_FIRST_BYTE:
        return attempt_failed(x, FAILURE_FIRST_BYTE);
    case PHASE_CHUNK:
        return relay_broken(x, HTTP_PROBLEM_CHUNK_TIMEOUT);
    case PHASE_BACK_OFF:
        return tokenize_is_needed(x) ? &step_tokenize : &step_route;
    case PHASE_REQUEST:
        if (x->has_begun) {
            return relay_broken(x, HTTP_PROBLEM_REQUEST_TIMEOUT);
        }
        attempt_end(x, false);
        return exchange_refuse(x, HTTP_PROBLEM_REQUEST_TIMEOUT, none);
    case PHASE_CLIENT:
        break;
    }
    ASSERT(false);
    return NULL;
}

// The kernel tells of room only when much of its buffer is free: a client that reads slowly is found
// out by asking.
static bool client_has_read(struct exchange *x)
{
    size_t before = x->unsent;
    x->unsent = transport_unsent(&x->client->transport);
    return x->unsent < before;
}

void exchange_await_client(struct exchange *x)
{
    if (x->awaited != PHASE_CLIENT) {
        x->unsent = transport_unsent(&x->client->transport);
    }
    exchange_await(x, PHASE_CLIENT, x->worker->config->timeouts.unread);
}

void exchange_expire(struct exchange *x)
{
    struct client *client = x->client;

    if (x->phase == PHASE_CLIENT && client_has_read(x)) {
        exchange_set_phase(x, PHASE_CLIENT, x->worker->config->timeouts.unread);
        return;
    }
    // What waits for a client that does not read is not waited for any longer.
    if (x->phase == PHASE_CLIENT || (x->phase == PHASE_REQUEST && x->answer_is_done)) {
        exchange_abort(x);
        return;
    }
    if (x->phase == PHASE_REQUEST) {
        x->request_deadline_ms = UINT64_MAX; // done; what follows has its own limits
    }
    walk(x, expired(x));
    if (client_is_open(client) && client->exchange == NULL) {
        client_wake(client);
    }
}

void exchange_drop_request(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct client *client = x->client;

    if (x->head == NULL) {
        return;
    }
    pool_put(&worker->heads, &x->head);
    body_store_put(&worker->bodies, &x->block);
    buffer_put(worker, &x->sending);
    x->body = NULL;
    // What is left is the beginning of the next request.
    uint32_t left = client->in.end - x->in_used;
    if (left == 0) {
        buffer_put(worker, &client->in);
    } else {
        memmove(client->in.bytes, client->in.bytes + x->in_used, left);
        client->in.end = left;
    }
    x->in_used = 0;
}

void exchange_drop_answer(struct exchange *x)
{
    buffer_put(x->worker, &x->receiving);
    if (x->answer_head != NULL) {
        pool_put(&x->worker->heads, &x->answer_head);
    }
}

// Gives everything back; the client is on its own again.
static void release(struct exchange *x)
{
    struct worker *worker = x->worker;

    attempt_end(x, false);
    account_close(x, false);
    tokenize_release(x);
    exchange_drop_request(x);
    exchange_drop_answer(x);
    buffer_put(worker, &x->out_head);
    buffer_put(worker, &x->out);
    if (x->is_counted) {
        atomic_fetch_sub_explicit(&worker->proxy->in_flight, 1, memory_order_relaxed);
    }
    x->client->exchange = NULL;
    pool_put(&worker->exchanges, &x);
}

void exchange_abort(struct exchange *x)
{
    struct client *client = x->client;
    release(x);
    client_close(client, TRANSPORT_ABORT);
}

// A request that is refused before its body was read may be all here nevertheless; then the
// connection can go on.
static void absorb_body(struct exchange *x)
{
    if (x->is_complete || x->head == NULL || x->head->size == 0 ||
        x->head->framing != HTTP_LENGTH || x->block.bytes != NULL) {
        return;
    }
    uint64_t here = x->client->in.end - x->head->size;
    if (x->head->content_length <= here) {
        x->in_used = x->head->size + (uint32_t)x->head->content_length;
        x->is_complete = true;
    }
}

const struct step *exchange_refuse(struct exchange *x, enum http_problem problem,
                                   struct slice detail)
{
    struct worker *worker = x->worker;
    uint16_t status = http_problem_status(problem);

    ASSERT(!x->has_begun && x->backend == NULL);
    if (x->out_head.bytes == NULL && !buffer_take(worker, &x->out_head)) {
        exchange_abort(x);
        return NULL;
    }
    absorb_body(x);
    x->keep_alive &= x->is_complete;
    x->is_lingering = !x->is_complete;
    struct text out =
        text_over(x->out_head.bytes + x->out_head.end, worker->buffer_size - x->out_head.end);
    http_problem_answer(
        &(struct http_problem_answer){
            .problem = problem,
            .detail = detail,
            .request_id = x->request_id_text,
            .retry_after_s = status == 503 ? retry_after_s : 0,
            .close = !x->keep_alive,
            .without_body = x->is_head_request,
        },
        &out);
    ASSERT(!out.overflow);
    x->out_head.end += (uint32_t)out.size;
    worker_count(&worker->shared.problems[problem]);
    if (x->account != NULL) {
        x->account->receipt.problem = http_problem_code(problem);
        x->account->receipt.status = status;
    }
    return &step_answer;
}

const struct step *answer_run(struct exchange *x)
{
    x->has_begun = true;
    x->answer_is_done = true;
    account_close(x, true); // whoever has read the last byte finds it counted
    switch (exchange_flush(x)) {
    case STATUS_OK:
        return &step_finish;
    case STATUS_AGAIN:
        exchange_await_client(x);
        return NULL;
    default:
        exchange_abort(x);
        return NULL;
    }
}

const struct step *finish_run(struct exchange *x)
{
    struct client *client = x->client;
    bool keep = x->keep_alive && !x->is_truncated && !x->worker->draining;
    // Closing on bytes that nobody read would make the kernel throw the answer away.
    bool linger =
        !x->is_truncated && (x->is_lingering || client->in.end > x->in_used ||
                             (client->transport.tls == NULL && client->transport.can_read));
    // Where the end of the stream is the end of the answer, one that is missing must not look like it.
    bool ends_by_close =
        x->framing == HTTP_UNTIL_CLOSE || (x->framing == HTTP_CHUNKED && x->is_http10);
    enum transport_end end = !x->is_truncated ? TRANSPORT_ORDERLY
                             : ends_by_close  ? TRANSPORT_ABORT
                                              : TRANSPORT_TRUNCATE;
    release(x);
    if (keep) {
        client_rest(client);
    } else if (linger) {
        client_linger(client);
    } else {
        client_close(client, end);
    }
    return NULL;
}

// How much of `moved` bytes fell to a part of that size; the rest is for the next.
static size_t take_from(size_t *moved, size_t size)
{
    size_t part = *moved < size ? *moved : size;
    *moved -= part;
    return part;
}

enum status exchange_flush(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct transport *transport = &x->client->transport;

    while (!buffer_is_empty(&x->out_head) || !buffer_is_empty(&x->out) || x->document.size > 0) {
        if (!transport->can_write) {
            return STATUS_AGAIN;
        }
        struct slice parts[3] = {buffer_slice(&x->out_head), buffer_slice(&x->out), x->document};
        size_t moved = 0;
        enum status status = transport_write(transport, parts, 3, &moved);
        if (status != STATUS_OK) {
            return status;
        }
        x->awaited = PHASE_HEADER; // something moved
        if (x->account != NULL) {
            x->account->receipt.answer_bytes += moved;
        }
        x->out_head.begin += (uint32_t)take_from(&moved, parts[0].size);
        x->out.begin += (uint32_t)take_from(&moved, parts[1].size);
        size_t sent = take_from(&moved, parts[2].size);
        x->document = slice_of(x->document.bytes + sent, x->document.size - sent);
    }
    buffer_put(worker, &x->out_head);
    buffer_put(worker, &x->out);
    return STATUS_OK;
}
