// SPDX-License-Identifier: Apache-2.0
//
// The steps that take a request in: its head, then its body.  Everything that can be refused is
// refused before the body is read.

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "fleet/fleet.h"
#include "http/path.h"
#include "sys/clock.h"

static const char models_path[] = "/v1/models";
static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static const struct slice no_detail = {0};

// A longer request id of a client goes to the backend, but is not repeated in the response.
enum { given_id_size_max = 512 };

// The client stopped in the middle of a request, or the connection broke.
static const struct step *receive_failed(struct exchange *x, enum status status)
{
    if (status == STATUS_EXHAUSTED) {
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str("no buffer is free"));
    }
    exchange_abort(x);
    return NULL;
}

static void receive_request_id(struct exchange *x)
{
    const struct http_field *field = http_head_find(&x->request->head, HTTP_NAME_REQUEST_ID);
    if (field != NULL && field->value_size > 0) {
        // Buffers have room for what we add to a head, but not for another head.
        if (field->value_size <= given_id_size_max) {
            x->request->id_text = http_field_value(&x->request->head, field);
        }
        return;
    }
    static const char digits[] = "0123456789abcdef";
    uint64_t words[2] = {rng_next(&x->worker->rng), rng_next(&x->worker->rng)};
    for (uint32_t i = 0; i < request_id_size; i++) {
        x->request->id[i] = digits[words[i / 16] >> (4 * (i % 16)) & 15];
    }
    x->request->id_text = slice_of(x->request->id, request_id_size);
}

// NULL when the request is not about models.
static const struct step *receive_models_request(struct exchange *x)
{
    const struct fleet_view *view = x->worker->view;
    struct slice path = http_head_path(&x->request->head);
    struct slice method = http_head_method(&x->request->head);

    if ((!slice_is(method, "GET") && !x->is_head_request) ||
        !slice_starts_with(path, models_path)) {
        return NULL;
    }
    struct slice rest =
        slice_of(path.bytes + sizeof(models_path) - 1, path.size - (sizeof(models_path) - 1));
    if (rest.size == 0) {
        if (!view->has_healthy) {
            return respond_problem(x, HTTP_PROBLEM_NO_BACKEND, no_detail);
        }
        return respond_document(x, slice_str(view->models_document));
    }
    if (rest.bytes[0] != '/' || rest.size == 1) {
        return NULL;
    }
    struct slice name = slice_of(rest.bytes + 1, rest.size - 1);
    const struct fleet_view_model *model = fleet_view_model(view, name);
    if (model != NULL && model->document != NULL) {
        return respond_document(x, slice_str(model->document));
    }
    if (view->any_model.count > 0) {
        return NULL; // one of these backends may know it
    }
    // All backends of a model without a document are down, or its pool is empty.
    bool may_come_back = model != NULL || view->member_count == 0;
    return may_come_back ? respond_problem(x, HTTP_PROBLEM_NO_BACKEND, no_detail)
                         : respond_no_such_model(x, name);
}

static bool receive_is_blocked(const struct exchange *x)
{
    const struct config_list *blocked = &x->worker->config->blocked_paths;
    uint8_t space[http_path_size_max];
    uint8_t blocked_space[http_path_size_max];

    if (blocked->count == 0) {
        return false;
    }
    struct slice path = http_path_plain(http_head_path(&x->request->head), space);
    for (uint32_t i = 0; i < blocked->count; i++) {
        if (slice_equal(path, http_path_plain(slice_str(blocked->items[i]), blocked_space))) {
            return true;
        }
    }
    return false;
}

// Counts the request in; false when there are as many as are allowed.
static bool receive_admit(struct exchange *x)
{
    struct worker *worker = x->worker;
    unsigned before = atomic_fetch_add_explicit(&worker->proxy->in_flight, 1, memory_order_relaxed);
    x->is_counted = true;
    worker_count(&worker->shared.request_count);
    return before < worker->config->limits.requests;
}

// The head is here: everything that can be said without the body.
static const struct step *receive_head_complete(struct exchange *x)
{
    const struct config *config = x->worker->config;
    struct http_head *head = &x->request->head;

    x->is_http10 = head->is_http10;
    x->is_head_request = slice_is(http_head_method(head), "HEAD");
    x->keep_alive = head->keep_alive;
    x->is_complete = head->framing == HTTP_NO_BODY ||
                     (head->framing == HTTP_LENGTH && head->content_length == 0);
    if (config->timeouts.request != 0) {
        x->request_deadline_ms = loop_now_ms(x->worker->loop) + config->timeouts.request;
    }
    receive_request_id(x);
    account_request(x);
    if (!receive_admit(x)) {
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str("limits.requests"));
    }
    if (receive_is_blocked(x)) {
        return respond_problem(x, HTTP_PROBLEM_BLOCKED, http_head_path(head));
    }
    if (head->framing == HTTP_LENGTH && head->content_length > x->worker->body_size_max) {
        return respond_problem(x, HTTP_PROBLEM_LARGE_BODY, no_detail);
    }
    retry_budget_deposit(
        &x->worker->retry_budget,
        &(struct retry_budget_rules){config->retry.budget_percent, config->retry.budget_min});
    const struct step *local = x->is_complete ? receive_models_request(x) : NULL;
    if (local != NULL) {
        return local;
    }
    chunked_start(&x->request->chunks, CHUNKED_KEEP_DATA_AND_TRAILERS);
    exchange_wait(x, WAIT_CLIENT, config->timeouts.body);
    return &step_read_body;
}

const struct step *read_head_run(struct exchange *x)
{
    struct http_head *head = &x->request->head;
    enum status status = client_read_head(x->client, x->request);

    switch (status) {
    case STATUS_OK:
        return receive_head_complete(x);
    case STATUS_AGAIN:
        return NULL;
    case STATUS_MALFORMED:
        return respond_problem(x, HTTP_PROBLEM_MALFORMED, slice_str(head->why));
    case STATUS_TOO_LARGE:
        return respond_problem(
            x, head->target_is_long ? HTTP_PROBLEM_LONG_URI : HTTP_PROBLEM_LARGE_HEAD, no_detail);
    default:
        return receive_failed(x, status);
    }
}

// A client that expects a 100 waits for it before it sends the body.  One that has begun to send
// needs none.
static void receive_continue(struct exchange *x)
{
    struct buffer *out = &x->response.head;
    if (!x->request->head.expects || x->is_complete ||
        client_has_body_bytes(x->client, x->request)) {
        return;
    }
    x->request->head.expects = false;
    if (buffer_take(x->worker, out)) {
        memcpy(out->bytes, continue_line, sizeof(continue_line) - 1);
        out->end = sizeof(continue_line) - 1;
    }
}

static const struct step *receive_body_failed(struct exchange *x, enum status status)
{
    switch (status) {
    case STATUS_MALFORMED:
        return respond_problem(x, HTTP_PROBLEM_MALFORMED,
                               slice_str("the chunked body is malformed"));
    case STATUS_TOO_LARGE:
        return respond_problem(x, HTTP_PROBLEM_LARGE_BODY, no_detail);
    case STATUS_EXHAUSTED:
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str("limits.body_memory"));
    default:
        exchange_abort(x);
        return NULL;
    }
}

// The one reading of the body.  False when memory is short.
static bool receive_read_body(struct exchange *x)
{
    struct request *request = x->request;
    struct reading *reading = &request->reading;
    enum prompt_api api = prompt_api_of(http_head_path(&request->head));

    ASSERT(x->is_complete && reading->reader == NULL);
    reading->prompt = (struct prompt){.api = api, .sequences = 1};
    if (request->body_size == 0) {
        return true;
    }
    reading->reader = pool_take(&x->worker->readers);
    if (reading->reader == NULL) {
        return false;
    }
    bool is_timed = account_is_detailed(x);
    uint64_t begin_ns = is_timed ? clock_monotonic_ns() : 0;
    prompt_read(reading->reader, api, request_body(request), &reading->prompt);
    if (is_timed) {
        account_add(x, RECEIPT_STAGE_PARSE, clock_monotonic_ns() - begin_ns);
    }
    return true;
}

static const struct step *receive_body_complete(struct exchange *x)
{
    x->is_complete = true;
    account_wait(x);
    x->request->arrived_us = loop_now_us(x->worker->loop);
    if (!receive_read_body(x)) {
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED, slice_str("limits.requests"));
    }
    return choose_first(x);
}

const struct step *read_body_run(struct exchange *x)
{
    receive_continue(x);
    enum status status = exchange_flush(x);
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        return receive_failed(x, status);
    }
    if (x->is_complete) {
        return receive_body_complete(x);
    }
    bool moved = false;
    status = client_read_body(x->client, x->request, &moved);
    if (status == STATUS_OK) {
        return receive_body_complete(x);
    }
    if (moved) {
        exchange_wait(x, WAIT_CLIENT, x->worker->config->timeouts.body);
    }
    return status == STATUS_AGAIN ? NULL : receive_body_failed(x, status);
}

const struct step *receive_expire(struct exchange *x)
{
    return respond_problem(x, HTTP_PROBLEM_SLOW_REQUEST, no_detail);
}
