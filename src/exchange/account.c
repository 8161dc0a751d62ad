// SPDX-License-Identifier: Apache-2.0

#include "exchange/account.h"

#include "base/base.h"
#include "base/hash.h"
#include "config/config.h"
#include "exchange/exchange_internal.h"
#include "exchange/observer.h"
#include "http/traceparent.h"
#include "metrics/meters.h"
#include "metrics/receipt_ring.h"
#include "sys/clock.h"

#include <stddef.h>
#include <string.h>

// If too many requests run to announce all, those that end within this time are not announced.
enum { announce_us = 1000000 };

struct account *account_open(struct worker *worker)
{
    struct account *account = pool_take(&worker->accounts);

    ASSERT(account != NULL);
    // The parts are as long as the counts in the receipt say.
    memset(account, 0, offsetof(struct account, rivals));
    account->began_us = loop_now_us(worker->loop);
    account->receipt.wall_us = account->began_us + worker->wall_offset_us;
    account->receipt.number = worker->receipt_number++;
    account->receipt.worker = worker->index;
    return account;
}

static bool is_counted(const struct exchange *x)
{
    return x->worker->meters != NULL;
}

// Microseconds since the request began; at least 1, since 0 means never.
static uint64_t account_moment(const struct exchange *x, uint64_t now_us)
{
    uint64_t began_us = x->account->began_us;
    return now_us > began_us ? now_us - began_us : 1;
}

static uint64_t account_now(const struct exchange *x)
{
    return account_moment(x, loop_now_us(x->worker->loop));
}

static uint16_t keep_text(char *to, struct slice text)
{
    size_t size = text.size < receipt_text_max ? text.size : receipt_text_max;
    if (size > 0) {
        memcpy(to, text.bytes, size);
    }
    return (uint16_t)size;
}

// Joins the client's trace, or begins one for one request in tracing.every.
static void join_trace(struct exchange *x, struct receipt *receipt)
{
    struct worker *worker = x->worker;
    struct traceparent caller;

    if (!worker->is_traced || !is_counted(x)) {
        return;
    }
    if (traceparent_find(&x->request->head, &caller)) {
        receipt->trace[0] = caller.trace[0];
        receipt->trace[1] = caller.trace[1];
        receipt->parent = caller.parent;
        receipt->is_sampled = (caller.flags & TRACEPARENT_SAMPLED) != 0;
    } else if (rng_below(&worker->rng, worker->config->tracing.every) == 0) {
        receipt->trace[0] = rng_next(&worker->rng);
        receipt->trace[1] = rng_next(&worker->rng) | 1;
        receipt->is_sampled = true;
    } else {
        return;
    }
    receipt->span = rng_next(&worker->rng) | 1;
}

struct slice account_traceparent(const struct exchange *x, struct text *space, bool *begins_trace)
{
    const struct receipt *receipt = &x->account->receipt;

    *begins_trace = receipt->span != 0 && receipt->parent == 0;
    if (receipt->span == 0) {
        return (struct slice){0};
    }
    traceparent_write(&(struct traceparent){.trace = {receipt->trace[0], receipt->trace[1]},
                                            .parent = receipt->span,
                                            .flags = receipt->is_sampled ? TRACEPARENT_SAMPLED : 0},
                      space);
    return text_slice(space);
}

void account_request(struct exchange *x)
{
    struct account *account = x->account;
    struct receipt *receipt = &account->receipt;

    receipt->id_hash = hash_bytes(x->request->id_text, 0);
    receipt->id_size = keep_text(account->id, x->request->id_text);
    receipt->path_size = keep_text(account->path, http_head_path(&x->request->head));
    join_trace(x, receipt);
}

void account_body(struct exchange *x)
{
    if (x->request != NULL) {
        x->account->receipt.request_bytes = x->request->body_size;
    }
}

void account_wait(struct exchange *x)
{
    struct account *account = x->account;

    account->waiting_us = loop_now_us(x->worker->loop);
    account->waiting_token_ns = account->receipt.stage_ns[RECEIPT_STAGE_TOKENIZE];
    if (account->receipt.complete_us == 0) {
        account->receipt.complete_us = account_moment(x, account->waiting_us);
    }
}

void account_sent(struct exchange *x)
{
    x->account->receipt.sent_us = account_now(x);
}

void account_head(struct exchange *x, uint16_t status)
{
    x->account->receipt.status = status;
    x->account->receipt.head_us = account_now(x);
}

void account_wrote(struct exchange *x, size_t size)
{
    if (!x->account->is_closed) {
        x->account->receipt.response_bytes += size;
    }
}

void account_status(struct exchange *x, uint16_t status)
{
    x->account->receipt.status = status;
}

void account_problem(struct exchange *x, const char *code)
{
    x->account->receipt.problem = code;
}

void account_add(struct exchange *x, enum receipt_stage stage, uint64_t ns)
{
    uint32_t *sum_ns = &x->account->receipt.stage_ns[stage];
    *sum_ns = saturate_u32(*sum_ns + ns);
}

// Adds the part of the wait in which its own prompt was not worked on.
static void end_wait(struct exchange *x, uint64_t now_us)
{
    struct account *account = x->account;
    uint64_t worked_ns =
        account->receipt.stage_ns[RECEIPT_STAGE_TOKENIZE] - account->waiting_token_ns;
    uint64_t waited_ns = (now_us - account->waiting_us) * 1000;

    if (account->waiting_us != 0 && waited_ns > worked_ns) {
        account_add(x, RECEIPT_STAGE_QUEUE, waited_ns - worked_ns);
    }
    account->waiting_us = 0;
}

static void keep_keys(struct account *account, const struct route_request *request)
{
    uint32_t sampled = 0;
    uint32_t depths = 0;

    for (uint32_t i = 0; i < request->key_count && sampled < receipt_sampled_max; i++) {
        account->sampled[sampled] = request->keys[i];
        sampled += (request->keys[i] & (receipt_sample - 1)) == 0;
    }
    while (depths < receipt_depth_max && (uint32_t)1 << depths <= request->key_count) {
        account->depths[depths] = request->keys[((uint32_t)1 << depths) - 1];
        depths++;
    }
    account->receipt.sampled_count = sampled;
    account->receipt.depth_count = depths;
}

// Clients can make up any number of names: only those that a backend serves are counted apart.
static bool is_served(const struct fleet_view *view, struct slice model)
{
    return model.size > 0 && fleet_view_model(view, model) != NULL;
}

bool account_is_detailed(const struct exchange *x)
{
    return is_counted(x) && x->worker->detailed_left > 0;
}

void account_model(struct exchange *x, struct slice model)
{
    x->account->is_served = is_served(x->worker->view, model);
    x->account->receipt.model_size = keep_text(x->account->model, model);
}

struct decision *account_decision(const struct exchange *x)
{
    return &x->account->receipt.decision;
}

void account_route(struct exchange *x, const struct route_request *request,
                   const struct route_choice *choice)
{
    struct account *account = x->account;
    struct receipt *receipt = &account->receipt;
    struct worker *worker = x->worker;
    uint64_t now_us = loop_now_us(worker->loop);
    ASSERT(receipt->decision.chosen.backend == choice->backend->id);

    end_wait(x, now_us);
    account_add(x, RECEIPT_STAGE_PARSE, request->parse_ns);
    account_add(x, RECEIPT_STAGE_TOKENIZE, request->hash_ns);
    account_add(x, RECEIPT_STAGE_MATCH, choice->match_ns);
    account_add(x, RECEIPT_STAGE_DECIDE, choice->decide_ns);
    receipt->prompt_tokens = receipt->decision.prompt_tokens;
    receipt->block_tokens = request->block_tokens;
    receipt->token_ms = load_prefill_ms(&choice->backend->load);
    receipt->url_size = keep_text(account->url, slice_str(choice->backend->url));
    receipt->is_streamed = request->prompt->stream;
    receipt->attempts++;
    // An earlier attempt has left these.
    receipt->sent_us = receipt->head_us = receipt->first_us = receipt->last_us = 0;
    receipt->output_tokens = receipt->cached_tokens = 0;
    receipt->has_cached_tokens = false;
    receipt->rival_count = 0;
    receipt->is_announced = false;
    keep_keys(account, request);
    if (account_is_detailed(x)) {
        receipt->rival_count = route_rivals(worker->route, worker->view, request, choice->backend,
                                            now_us, account->rivals);
    }
    account_announce(x);
}

void account_learn(struct exchange *x)
{
    const struct observer *observer = x->hop.observer;
    if (observer == NULL) {
        return;
    }
    struct receipt *receipt = &x->account->receipt;
    const struct response_usage *usage = &observer->usage;

    if (usage->has_prompt_tokens) {
        receipt->prompt_tokens = saturate_u32(usage->prompt_tokens);
    }
    receipt->has_cached_tokens = usage->has_cached_tokens;
    receipt->cached_tokens = usage->has_cached_tokens ? saturate_u32(usage->cached_tokens) : 0;
    receipt->output_tokens = usage->completion_tokens > 0 ? saturate_u32(usage->completion_tokens)
                                                          : observer->feedback.load.output_tokens;
    receipt->saved_us = (uint64_t)((float)receipt->cached_tokens * receipt->token_ms * 1000);
    if (observer->first_us != 0) {
        receipt->first_us = account_moment(x, observer->first_us);
        receipt->last_us = account_moment(x, observer->last_us);
    }
}

static enum receipt_outcome outcome_of(const struct exchange *x, bool is_finished)
{
    const struct receipt *receipt = &x->account->receipt;
    uint16_t status = receipt->status;

    if (!is_finished) {
        return RECEIPT_GONE;
    }
    if (x->response.is_truncated) {
        return RECEIPT_BROKEN;
    }
    if (receipt->problem != NULL) {
        return RECEIPT_REFUSED;
    }
    if (receipt->decision.chosen.backend == 0) {
        return RECEIPT_LOCAL;
    }
    if (status == 429 || status == 503) {
        return RECEIPT_BUSY;
    }
    return status < 400 ? RECEIPT_OK : status < 500 ? RECEIPT_REJECTED : RECEIPT_FAILED;
}

static struct receipt_parts parts_of(const struct account *account)
{
    const struct receipt *receipt = &account->receipt;
    return (struct receipt_parts){
        .rivals = account->rivals,
        .sampled = account->sampled,
        .depths = account->depths,
        .id = slice_of(account->id, receipt->id_size),
        .model = slice_of(account->model, receipt->model_size),
        .url = slice_of(account->url, receipt->url_size),
        .path = slice_of(account->path, receipt->path_size),
    };
}

bool account_announce(struct exchange *x)
{
    struct account *account = x->account;
    struct worker *worker = x->worker;

    if (account->is_closed || account->receipt.is_announced ||
        account->receipt.decision.policy == NULL || !is_counted(x) || worker->ring == NULL) {
        return false;
    }
    if (worker->detailed_left > 0) {
        worker->detailed_left--;
    } else if (loop_now_us(worker->loop) - account->began_us < announce_us) {
        return false;
    }
    struct receipt_parts parts = parts_of(account);
    account->receipt.is_announced = true;
    account->receipt.outcome = RECEIPT_RUNNING;
    return receipt_ring_put(worker->ring, &account->receipt, &parts);
}

void account_close(struct exchange *x, bool is_finished)
{
    struct account *account = x->account;
    struct worker *worker = x->worker;
    struct receipt *receipt = &account->receipt;
    bool is_request = is_finished || x->is_counted; // a connection may end before its first request

    if (account->is_closed || !is_request) {
        return;
    }
    account->is_closed = true;
    receipt->outcome = outcome_of(x, is_finished);
    account_body(x);
    receipt->response_bytes += buffer_slice(&x->response.head).size +
                               buffer_slice(&x->response.out).size + x->response.document.size;
    receipt->end_us = account_now(x);
    struct receipt_parts parts = parts_of(account);
    if (is_counted(x)) {
        meters_note(worker->meters, receipt, &parts, receipt->decision.chosen.slot,
                    account->is_served);
    }
    if (is_counted(x) && worker->ring != NULL) {
        receipt_ring_put(worker->ring, receipt, &parts);
    }
}
