// SPDX-License-Identifier: Apache-2.0
//
// The step that chooses a backend, which counts the request in there: an attempt begins.

#include "base/base.h"
#include "config/config.h"
#include "proxy/account.h"
#include "proxy/exchange_internal.h"
#include "proxy/trail.h"
#include "sys/clock.h"

static const struct slice no_detail = {0};

// The value of the first session header that the request has.
static struct slice choose_session(const struct exchange *x)
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

struct route_input choose_input(const struct exchange *x)
{
    return (struct route_input){
        .api = prompt_api_of(http_head_path(x->head)),
        .body = slice_of(x->body, x->body_size),
        .session = choose_session(x),
        .wall_s = x->worker->token_thread != NULL ? clock_wall_ms() / 1000 : 0,
    };
}

const struct step *choose_first(const struct exchange *x)
{
    return tokenize_is_needed(x) ? &step_tokenize : &step_choose;
}

// Without a trail nobody would look at what comes back, nor hide it from the client.
static void choose_ask_usage(struct exchange *x, const struct prompt *prompt)
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

const struct step *choose_run(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct route_request request;
    struct route_choice choice;

    if (x->tried.count == 0) {
        x->arrived_us = loop_now_us(worker->loop);
    }
    struct route_input input = choose_input(x);
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
        return respond_problem(x, HTTP_PROBLEM_NO_SUCH_MODEL, request.model);
    case ROUTE_NO_BACKEND:
        return respond_problem(
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
        input = choose_input(x); // places in the old body mean nothing in the new one
        route_read_model(worker->route, &input, &request);
    }
    choose_ask_usage(x, request.prompt);
    x->tried.ids[x->tried.count++] = choice.backend->id;
    x->use_fresh = false;
    return &step_connect;
}
