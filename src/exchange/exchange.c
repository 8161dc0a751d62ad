// SPDX-License-Identifier: Apache-2.0

#include "exchange/exchange.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"

// More than all steps times all attempts: a longer walk without parking is a cycle.
enum { step_walk_max = 256 };

#define STEP(name, on_expire, on_backend_gone, on_client_gone, on_waits, on_needs, on_excludes)    \
    const struct step step_##name = {#name,          name##_run, on_expire, on_backend_gone,       \
                                     on_client_gone, on_waits,   on_needs,  on_excludes};
#include "exchange/steps.def"
#undef STEP

const struct step *step_impossible(struct exchange *x)
{
    (void)x;
    ASSERT(false);
    return NULL;
}

void step_nothing(struct exchange *x)
{
    (void)x;
}

static uint32_t exchange_has(const struct exchange *x)
{
    return (x->request != NULL ? HAS_REQUEST : 0) | (x->is_complete ? HAS_ALL : 0) |
           (x->hop.backend != NULL ? HAS_BACKEND : 0) |
           (x->hop.upstream != NULL ? HAS_UPSTREAM : 0) |
           (x->worker->lane.owner == x ? HAS_LANE : 0) | (x->response.has_begun ? HAS_BEGUN : 0);
}

static bool exchange_fits_step(const struct exchange *x)
{
    return (exchange_has(x) & (x->step->needs | x->step->excludes)) == x->step->needs;
}

size_t exchange_size(void)
{
    return sizeof(struct exchange);
}

void exchange_start(struct client *client)
{
    struct worker *worker = client->worker;
    struct exchange *x = pool_take(&worker->exchanges);
    struct request *request = pool_take(&worker->requests);

    // One of each for every connection.
    ASSERT(x != NULL && request != NULL);
    memset(request, 0, offsetof(struct request, head));
    *x = (struct exchange){
        .step = &step_read_head,
        .worker = worker,
        .client = client,
        .request = request,
        .account = account_open(worker),
        .request_deadline_ms = UINT64_MAX,
    };
    http_head_start(&request->head, HTTP_KIND_REQUEST,
                    (struct http_limits){.head_size = worker->head_size_max,
                                         .target_size = worker->config->limits.uri_size});
    client->exchange = x;
    exchange_wait(x, WAIT_CLIENT, worker->config->timeouts.header);
}

static bool exchange_lost_client(const struct exchange *x)
{
    return x->is_complete && client_is_gone(x->client);
}

// Runs steps until one of them parks or the exchange is over.
static void exchange_go(struct exchange *x, const struct step *next)
{
    const struct client *client = x->client; // outlives `x`: recycled at the end of the turn
    unsigned walked = 0;

    while (next != NULL) {
        ASSERT(walked < step_walk_max);
        walked++;
        x->step = next;
        ASSERT_SLOW(exchange_fits_step(x));
        if (exchange_lost_client(x) && next != &step_finish) {
            exchange_abort(x);
            return;
        }
        next = next->run(x);
    }
    if (client->exchange == x) { // parked
        ASSERT(exchange_fits_step(x));
        ASSERT(x->wait != WAIT_NOTHING && (x->wait & x->step->waits) == x->wait);
    }
}

void exchange_run(struct exchange *x)
{
    exchange_go(x, x->step);
}

void exchange_wake(void *owner)
{
    struct exchange *x = owner;
    client_wake(x->client);
}

void exchange_wait(struct exchange *x, enum wait_for wait, uint32_t limit_ms)
{
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    uint64_t delay_ms = limit_ms;

    ASSERT(wait != WAIT_NOTHING);

    if (x->request_deadline_ms != UINT64_MAX) {
        // Events come before timers: the deadline may have passed without having been noticed.
        uint64_t left_ms = x->request_deadline_ms > now_ms ? x->request_deadline_ms - now_ms : 1;
        delay_ms = limit_ms != 0 && limit_ms < left_ms ? limit_ms : left_ms;
    }
    x->wait = wait;
    client_set_deadline(x->client, delay_ms);
}

void exchange_stall(struct exchange *x, enum wait_for wait, uint32_t limit_ms)
{
    ASSERT(wait == WAIT_CLIENT || wait == WAIT_BACKEND);
    if (x->wait != wait) {
        exchange_wait(x, wait, limit_ms);
    }
}

void exchange_stall_client(struct exchange *x)
{
    if (x->wait != WAIT_CLIENT) {
        x->response.unsent = client_unsent(x->client);
    }
    exchange_stall(x, WAIT_CLIENT, x->worker->config->timeouts.unread);
}

// The kernel reports room only when much of its buffer is free, so a client that reads slowly is
// found by asking how much waits for it.
void exchange_expire_client(struct exchange *x)
{
    size_t before = x->response.unsent;
    x->response.unsent = client_unsent(x->client);
    if (x->response.unsent < before) {
        exchange_wait(x, WAIT_CLIENT, x->worker->config->timeouts.unread);
    } else {
        exchange_abort(x);
    }
}

// The request as a whole has taken too long.
static const struct step *exchange_expire_request(struct exchange *x)
{
    x->request_deadline_ms = UINT64_MAX; // later waits have limits of their own
    if (x->response.is_done) {
        exchange_abort(x);
        return NULL;
    }
    if (x->response.has_begun) {
        return relay_broken(x, HTTP_PROBLEM_REQUEST_TIMEOUT);
    }
    attempt_end(x, false);
    return respond_problem(x, HTTP_PROBLEM_REQUEST_TIMEOUT, (struct slice){0});
}

void exchange_expire(struct exchange *x)
{
    struct client *client = x->client;
    bool is_late = loop_now_ms(x->worker->loop) >= x->request_deadline_ms;
    const struct step *next = is_late ? exchange_expire_request(x) : x->step->expire(x);

    if (client->exchange == x) {
        exchange_go(x, next);
    }
    if (client_is_open(client) && client->exchange == NULL) {
        client_wake(client);
    }
}

void exchange_drop_request(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct request *request = x->request;

    if (request == NULL) {
        return;
    }
    account_body(x);
    body_store_put(&worker->bodies, &request->block);
    body_store_put(&worker->bodies, &request->ids);
    if (request->reading.reader != NULL) {
        pool_put(&worker->readers, &request->reading.reader);
    }
    client_skip_request(x->client, request);
    pool_put(&worker->requests, &x->request);
}

// Gives everything back; the client is on its own again.
static void exchange_release(struct exchange *x)
{
    struct worker *worker = x->worker;

    attempt_end(x, false);
    account_close(x, false);
    exchange_drop_request(x);
    buffer_put(worker, &x->response.head);
    buffer_put(worker, &x->response.out);
    refusal_drop(x);
    if (x->is_counted) {
        atomic_fetch_sub_explicit(&worker->proxy->in_flight, 1, memory_order_relaxed);
    }
    x->client->exchange = NULL;
    pool_put(&worker->accounts, &x->account);
    pool_put(&worker->exchanges, &x);
}

void exchange_abort(struct exchange *x)
{
    struct client *client = x->client;
    x->step->client_gone(x);
    exchange_release(x);
    client_end(client, CLIENT_RESET);
}

// A truncated response must not look complete: if its end is the connection's end, that is a reset.
static enum client_end finish_how(const struct exchange *x)
{
    bool ends_by_close = x->hop.body.framing == HTTP_UNTIL_CLOSE ||
                         (x->hop.body.framing == HTTP_CHUNKED && x->is_http10);

    if (x->response.is_truncated) {
        return ends_by_close ? CLIENT_RESET : CLIENT_TRUNCATE;
    }
    if (x->keep_alive && !x->worker->draining) {
        return CLIENT_KEEP;
    }
    return x->response.is_lingering ? CLIENT_LINGER : CLIENT_CLOSE;
}

const struct step *finish_run(struct exchange *x)
{
    struct client *client = x->client;
    enum client_end end = finish_how(x);

    ASSERT(x->response.is_done);
    exchange_release(x);
    client_end(client, end);
    return NULL;
}

// How much of `moved` bytes fell to a part of that size; the rest is for the next.
static size_t sent_of(size_t *moved, size_t size)
{
    size_t part = *moved < size ? *moved : size;
    *moved -= part;
    return part;
}

enum status exchange_flush(struct exchange *x)
{
    struct worker *worker = x->worker;

    while (!buffer_is_empty(&x->response.head) || !buffer_is_empty(&x->response.out) ||
           x->response.document.size > 0) {
        struct slice parts[3] = {buffer_slice(&x->response.head), buffer_slice(&x->response.out),
                                 x->response.document};
        size_t moved = 0;
        enum status status = client_write(x->client, parts, 3, &moved);
        if (status != STATUS_OK) {
            return status;
        }
        if (x->response.has_begun) {
            x->wait = WAIT_NOTHING; // bytes of the response moved: neither side is stalled
        }
        account_wrote(x, moved);
        x->response.head.begin += (uint32_t)sent_of(&moved, parts[0].size);
        x->response.out.begin += (uint32_t)sent_of(&moved, parts[1].size);
        size_t sent = sent_of(&moved, parts[2].size);
        x->response.document =
            slice_of(x->response.document.bytes + sent, x->response.document.size - sent);
    }
    buffer_put(worker, &x->response.head);
    buffer_put(worker, &x->response.out);
    return STATUS_OK;
}
