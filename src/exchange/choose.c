// SPDX-License-Identifier: Apache-2.0
//
// The step that chooses a backend, which counts the request in there: an attempt begins.

#include "base/base.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "exchange/observer.h"
#include "sys/clock.h"

static const struct slice no_detail = {0};

// The value of the first session header that the request has.
static struct slice choose_session(const struct exchange *x)
{
    const struct config_list *headers = &x->worker->config->session_headers;
    for (uint32_t i = 0; i < headers->count; i++) {
        const struct http_field *field = http_head_find_text(&x->request->head, headers->items[i]);
        if (field != NULL && field->value_size > 0) {
            return http_field_value(&x->request->head, field);
        }
    }
    return no_detail;
}

// Requests that change nothing (GET, HEAD) have no output to speak of.
static struct slice choose_path(const struct exchange *x)
{
    bool is_post = slice_is(http_head_method(&x->request->head), "POST");
    return is_post ? http_head_path(&x->request->head) : no_detail;
}

struct route_input choose_input(const struct exchange *x)
{
    return (struct route_input){
        .api = x->request->reading.prompt.api,
        .body = request_body(x->request),
        .reading = &x->request->reading,
        .session = choose_session(x),
        .path = choose_path(x),
        .wall_s = x->worker->token_thread != NULL ? clock_wall_ms() / 1000 : 0,
    };
}

const struct step *choose_first(const struct exchange *x)
{
    return tokenize_is_needed(x) ? &step_tokenize : &step_choose;
}

// Only an observer reads the usage that comes back, and hides it from the client.
static void choose_ask_usage(struct exchange *x, const struct prompt *prompt)
{
    if (x->hop.observer != NULL && x->hop.observer->is_named && x->worker->config->ask_usage &&
        prompt->usage_text != NULL && prompt->form != PROMPT_NOTHING) {
        body_edits_add(&x->request->edits, prompt->usage_at, prompt->usage_over,
                       slice_str(prompt->usage_text));
        x->hop.observer->hides_usage = true;
    }
}

static const struct step *choose_none(struct exchange *x)
{
    if (x->request->tried.count > 0) {
        return respond_problem(x, HTTP_PROBLEM_UNREACHABLE, no_detail);
    }
    bool is_empty = x->worker->view->member_count == 0;
    return respond_problem(x, HTTP_PROBLEM_NO_BACKEND,
                           is_empty ? slice_str("the fleet is empty") : no_detail);
}

const struct step *choose_run(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct route_request request;
    struct route_choice choice = {.decision = account_decision(x)};

    struct route_input input = choose_input(x);
    input.token_result = tokenize_result(x);
    input.is_timed = account_is_detailed(x);
    route_read(worker->route, worker->view, &input, &request);
    tokenize_release(x); // its ids are good until another turn
    if (x->request->tried.count == 0) {
        x->request->prompt_key = request.key_count > 0 ? request.keys[request.key_count - 1] : 0;
        x->request->poison_epoch = poison_epoch(&worker->proxy->poison);
    }
    account_model(x, request.served);
    request.is_second = x->refuser != 0;
    ASSERT(x->hop.observer == NULL); // it would read the decision that is overwritten now
    switch (route_choose(worker->route, worker->view, &request, &x->request->tried,
                         loop_now_us(worker->loop), &choice)) {
    case ROUTE_CHOSEN:
        break;
    case ROUTE_NO_SUCH_MODEL:
        return respond_no_such_model(x, request.model);
    case ROUTE_NO_BACKEND:
        return choose_none(x);
    }
    ASSERT(choice.backend != NULL && x->hop.upstream == NULL);
    x->hop = (struct hop){
        .worker = worker,
        .wake = exchange_wake,
        .owner = x,
        .request = x->request,
        .backend = choice.backend,
        .on_trial = choice.on_trial,
        .kind = request.kind,
        .on_kind_trial = choice.on_kind_trial,
        .is_streamed = request.prompt->stream,
        .has_progress = request.kind != 0 && request.prompt->api != PROMPT_OTHER,
        .begun_ms = loop_now_ms(worker->loop),
    };
    hop_go_on(&x->hop, x->hop.begun_ms);
    account_route(x, &request, &choice);
    x->hop.observer = observer_begin(worker, &request, choice.backend, account_decision(x),
                                     x->request->arrived_us);
    x->request->edits.count = 0;
    choose_ask_usage(x, request.prompt);
    forward_ids(x, &request);
    ASSERT(x->request->tried.count < route_tried_max);
    x->request->tried.ids[x->request->tried.count++] = choice.backend->id;
    return &step_attempt;
}
