// SPDX-License-Identifier: Apache-2.0
//
// Whether a response has output, and what a response without any says of its backend.
//
// fleet/refusals.h has the rule.  This file finds the facts in a response: a status that promises
// no output, a body without bytes, a document or a stream that holds neither text nor usage.  A
// refusal by status comes before anything has gone to the client, so another backend can be asked
// for the same request.  One that shows only behind a 200 cannot be taken back, so the responses of
// a suspect backend wait for output (preview.h).  Where they cannot, the share of refusals decides,
// if other backends produce output for such requests.

#include "base/base.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "exchange/observer.h"
#include "exchange/preview.h"
#include "sys/log.h"

// 429 and 503 ask for a pause; other 5xx are faults, which the breaker counts.
static bool is_refusing_status(uint16_t status)
{
    bool is_client_error = status >= 300 && status < 500 && status != 429;
    return is_client_error || status == 501;
}

// These name the request as the cause: without another backend's word they prove nothing.
static bool is_clients_status(uint16_t status)
{
    return status == 400 || status == 413 || status == 422;
}

// A head that announces no body, where one should have output.
static bool is_empty_head(const struct exchange *x, const struct http_head *head)
{
    bool has_body = head->framing != HTTP_LENGTH || head->content_length > 0;
    return x->request->reading.prompt.api != PROMPT_OTHER && head->status < 300 &&
           (!has_body || head->status == 204);
}

static struct refusal_rules verdict_rules(const struct exchange *x)
{
    const struct config *config = x->worker->config;
    return (struct refusal_rules){
        .eject_time_ms = config->health.eject_time,
        .eject_time_max_ms = config->health.eject_time_max,
    };
}

// Routing reads this word of every backend, and the table only where it is set.
static void show_refusals(struct backend *backend)
{
    bool refuses = refusals_any(&backend->refusals);
    if (atomic_load_explicit(&backend->shared.refuses, memory_order_relaxed) != refuses) {
        atomic_store_explicit(&backend->shared.refuses, refuses, memory_order_relaxed);
    }
}

static struct backend *find_backend(const struct exchange *x, uint64_t id)
{
    const struct fleet_view *view = x->worker->view;

    for (uint32_t i = 0; i < view->member_count; i++) {
        if (view->members[i].backend->id == id) {
            return view->members[i].backend;
        }
    }
    return NULL; // removed meanwhile
}

static void log_ejection(const struct exchange *x, const struct backend *backend)
{
    const struct receipt *receipt = &x->account->receipt;

    log_warn_seldom(backend->id,
                    "backend %s: ejected for %.*s%s%.*s: it responds without output, where other "
                    "backends produce output for such requests",
                    backend->url, (int)receipt->path_size, x->account->path,
                    receipt->model_size > 0 ? " of model " : "", (int)receipt->model_size,
                    x->account->model);
}

static bool has_output_elsewhere(const struct exchange *x, uint64_t now_ms)
{
    const struct fleet_view *view = x->worker->view;

    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct backend *other = view->members[i].backend;
        if (other != x->hop.backend && other->pool == x->hop.backend->pool &&
            refusals_are_rare(&other->refusals, x->hop.kind, now_ms)) {
            return true;
        }
    }
    return false;
}

// The refusal is the client's response.
static void verdict_refused(struct exchange *x, uint64_t now_ms)
{
    struct backend *backend = x->hop.backend;

    if (x->refuser != 0) {
        // Two backends refuse the same request: it is to blame.
        struct backend *first = find_backend(x, x->refuser);
        if (first != NULL) {
            bool has_output = refusals_has_output(&backend->refusals, x->hop.kind, now_ms);
            refusals_absolve(&first->refusals, x->hop.kind, has_output, now_ms);
            show_refusals(first);
        }
    } else if (!x->hop.is_clients_fault && x->worker->config->health.eject_failures > 0 &&
               refusals_are_usual(&backend->refusals, x->hop.kind, now_ms) &&
               has_output_elsewhere(x, now_ms)) {
        struct refusal_rules rules = verdict_rules(x);
        refusals_eject(&backend->refusals, x->hop.kind, now_ms, &rules);
        log_ejection(x, backend);
    }
}

// A trial is over with its verdict, though its response may go on for long.
static void verdict_end_trial(struct exchange *x)
{
    if (x->hop.on_kind_trial) {
        refusals_end_trial(&x->hop.backend->refusals, x->hop.kind);
        x->hop.on_kind_trial = false;
    }
}

// Whether the backend is suspect.
static bool verdict_note(struct exchange *x, uint64_t now_ms)
{
    if (x->worker->config->health.eject_failures == 0) {
        return false;
    }
    struct backend *backend = x->hop.backend;
    struct refusal_rules rules = verdict_rules(x);
    bool is_suspect =
        refusals_note(&backend->refusals, x->hop.kind, x->hop.on_kind_trial, now_ms, &rules);

    show_refusals(backend);
    verdict_end_trial(x);
    return is_suspect;
}

// Not for a second opinion, which is the response whatever it shows.
static bool verdict_previews(const struct exchange *x, const struct http_head *head)
{
    const struct hop *hop = &x->hop;
    bool may_refuse = head->status < 300 || is_refusing_status(head->status);

    return hop->kind != 0 && x->refuser == 0 && may_refuse && head->framing != HTTP_UNTIL_CLOSE &&
           !hop->preview_is_over && hop->stage == HOP_AWAITING &&
           refusals_are_suspect(&hop->backend->refusals, hop->kind);
}

bool verdict_awaits_more(struct exchange *x, const struct http_head *head)
{
    struct hop *hop = &x->hop;
    struct slice bytes = buffer_slice(&hop->receiving);
    enum preview preview = PREVIEW_OUTPUT;

    if (verdict_previews(x, head) && bytes.size < x->worker->read_size) {
        preview = preview_response(x->worker, x->request->reading.prompt.api, head,
                                   slice_of(bytes.bytes + head->size, bytes.size - head->size));
    }
    hop->shows_nothing = preview == PREVIEW_NOTHING;
    return preview == PREVIEW_MORE;
}

static bool verdict_may_ask(const struct exchange *x)
{
    // Other paths may change an engine, and would change two.
    bool may_repeat = x->request->reading.prompt.api != PROMPT_OTHER;
    // The refusal is kept whole, and behind no interim head that the client has still to read.
    return may_repeat && x->refuser == 0 && x->hop.shows_nothing && x->response.head.bytes == NULL;
}

bool verdict_asks_another(struct exchange *x, const struct http_head *head)
{
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    bool is_refusal =
        is_refusing_status(head->status) || is_empty_head(x, head) || x->hop.shows_nothing;

    x->hop.is_success = head->status < 300 && !is_refusal;
    x->hop.has_verdict = x->hop.kind == 0 || !x->hop.is_success; // otherwise the body decides
    if (x->hop.kind == 0 || !is_refusal) {
        return false;
    }
    x->hop.is_clients_fault = is_clients_status(head->status);
    bool is_suspect = verdict_note(x, now_ms);
    struct refusals *refusals = &x->hop.backend->refusals;
    if (is_suspect && verdict_may_ask(x) && refusals_may_ask(refusals, x->hop.kind, now_ms) &&
        retry_is_allowed(x, HOP_REFUSED) && refusal_keep(x, head)) {
        refusals_ask(refusals, x->hop.kind, now_ms);
        x->refuser = x->hop.backend->id;
        attempt_judge(x, BACKEND_RESPONDING);
        return true;
    }
    verdict_refused(x, now_ms);
    return false;
}

void verdict_output(struct exchange *x)
{
    struct hop *hop = &x->hop;
    uint64_t now_ms = loop_now_ms(x->worker->loop);

    if (hop->has_verdict) {
        return;
    }
    hop->has_verdict = true;
    refusals_note_output(&hop->backend->refusals, hop->kind, hop->on_kind_trial, now_ms);
    show_refusals(hop->backend);
    verdict_end_trial(x);
    struct backend *refuser = x->refuser != 0 ? find_backend(x, x->refuser) : NULL;
    if (refuser != NULL) {
        struct refusal_rules rules = verdict_rules(x);
        if (refusals_prove(&refuser->refusals, hop->kind, now_ms, &rules)) {
            log_ejection(x, refuser);
        }
    }
    x->refuser = 0;
}

// Whether a portion of the body that is not read brought data.
static bool has_data(const struct hop *hop, size_t size)
{
    return hop->body.framing == HTTP_CHUNKED ? size > 0 && hop->body.chunked.data_size > 0
                                             : size > 0;
}

void verdict_portion(struct exchange *x, size_t size)
{
    struct hop *hop = &x->hop;
    const struct observer *observer = hop->observer;

    if (hop->kind == 0 || !hop->is_success) {
        return;
    }
    bool is_read = observer != NULL && !observer->is_opaque;
    bool has_moved =
        is_read ? observer->last_us == loop_now_us(x->worker->loop) : has_data(hop, size);
    if (has_moved && hop->is_streamed) {
        hop_note_output(hop, loop_now_ms(x->worker->loop));
    }
    if (is_read ? observer->output.has_answer : has_moved) {
        verdict_output(x);
    }
}

// A whole response has come.
static void verdict_moved(const struct exchange *x)
{
    const struct hop *hop = &x->hop;

    if (!hop->is_counted || !hop->is_success) {
        return;
    }
    if (hop->is_streamed) {
        progress_output(&hop->backend->progress, loop_now_ms(x->worker->loop));
    } else {
        progress_whole(&hop->backend->progress, hop->begun_ms, loop_now_ms(x->worker->loop));
    }
    backend_moved(hop->backend);
}

void verdict_end(struct exchange *x)
{
    const struct hop *hop = &x->hop;
    bool is_answered = hop->observer != NULL && observer_is_answered(hop->observer);

    if (is_answered) {
        verdict_output(x);
    }
    if (hop->has_verdict) {
        verdict_moved(x);
        return;
    }
    verdict_note(x, loop_now_ms(x->worker->loop));
    verdict_refused(x, loop_now_ms(x->worker->loop));
    x->hop.has_verdict = true;
}
