// SPDX-License-Identifier: Apache-2.0
//
// Whether a failed attempt is followed by another one, and the pause before it.
//
// Another backend is tried only while no byte of a response has reached the client, never one that
// was tried before, and within limits: retry.attempts for attempts that an engine may have worked
// on, and the worker's budget.  A refused connection put no load on any engine and costs neither,
// so a dead backend never makes a request fail while another one is up.
//
// A request that was sent whole, and whose connection then ended without a byte of a response, may
// have killed the engine.  At most one other backend gets it, so that it cannot kill a fleet.  A
// prompt that two servers died of is poison (worker/poison_table.h): later requests with it reach
// no second backend.

#include "base/base.h"
#include "base/hash.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "sys/log.h"

// Backoff stops doubling here; retry.attempts is never that large.
enum { backoff_doublings_max = 8 };

static const struct {
    bool is_fault;
    bool is_retried;
    bool is_free; // of the budget and of retry.attempts: no engine has seen the request
    enum http_problem problem;
} failures[] = {
    [HOP_UNREACHABLE] = {true, true, true, HTTP_PROBLEM_UNREACHABLE},
    [HOP_CONNECT_TIMEOUT] = {true, true, true, HTTP_PROBLEM_CONNECT_TIMEOUT},
    [HOP_RESET] = {true, true, false, HTTP_PROBLEM_BAD_ANSWER},
    [HOP_BAD_STATUS] = {false, true, false, HTTP_PROBLEM_NO_BACKEND},
    [HOP_REFUSED] = {false, true, false, HTTP_PROBLEM_NO_BACKEND},
    [HOP_INVALID] = {true, false, false, HTTP_PROBLEM_BAD_ANSWER},
    [HOP_FIRST_BYTE_TIMEOUT] = {true, false, false, HTTP_PROBLEM_FIRST_BYTE_TIMEOUT},
};

static uint32_t retry_attempts_max(const struct exchange *x)
{
    uint32_t most = x->worker->config->retry.attempts;
    uint32_t limit = x->request->attempt_limit;
    return limit != 0 && limit < most ? limit : most;
}

bool retry_is_allowed(struct exchange *x, enum hop_failure failure)
{
    const struct config *config = x->worker->config;
    struct route_request request;

    if (!failures[failure].is_retried || x->request == NULL ||
        x->request->tried.count == route_tried_max) {
        return false;
    }
    if (!failures[failure].is_free && x->request->attempts >= retry_attempts_max(x)) {
        return false;
    }
    struct route_input input = choose_input(x);
    route_read_model(x->worker->route, &input, &request);
    request.is_second = failure == HOP_REFUSED;
    // An engine's own response is worth more to the client than a try at one that is down.
    bool has_response = failure == HOP_BAD_STATUS || failure == HOP_REFUSED;
    enum backend_tier worst = has_response ? BACKEND_BUSY : BACKEND_DOWN;
    uint64_t now_ms = loop_now_ms(x->worker->loop);
    if (!route_has_more(x->worker->view, &request, &x->request->tried, worst, now_ms)) {
        return false;
    }
    struct retry_budget_rules budget = {config->retry.budget_percent, config->retry.budget_min};
    return failures[failure].is_free ||
           retry_budget_withdraw(&x->worker->retry_budget, &budget, now_ms);
}

bool retry_is_for_status(const struct exchange *x, uint16_t status)
{
    const struct config_list *statuses = &x->worker->config->retry.on;

    if (status < 400) { // nearly all responses
        return false;
    }
    for (uint32_t i = 0; i < statuses->count; i++) {
        uint64_t listed;
        if (slice_parse_u64(slice_str(statuses->items[i]), &listed) && listed == status) {
            return true;
        }
    }
    return false;
}

// Full jitter: many requests that failed together do not come back together.
static const struct step *retry_back_off(struct exchange *x)
{
    uint32_t doublings = x->request->tried.count < backoff_doublings_max
                             ? x->request->tried.count - 1
                             : backoff_doublings_max;
    uint32_t most_ms = x->worker->config->retry.backoff << doublings;
    uint32_t delay_ms = most_ms == 0 ? 0 : rng_below(&x->worker->rng, most_ms + 1);

    worker_count(&x->worker->shared.retry_count);
    if (delay_ms == 0) {
        return choose_first(x);
    }
    exchange_wait(x, WAIT_TIME, delay_ms);
    return &step_back_off;
}

// An event before the pause is over changes nothing.
const struct step *back_off_run(struct exchange *x)
{
    (void)x;
    return NULL;
}

const struct step *back_off_expire(struct exchange *x)
{
    return choose_first(x);
}

const struct step *retry_elsewhere(struct exchange *x)
{
    ASSERT(!x->response.has_begun && x->request->tried.count > 0);
    attempt_end(x, false);
    account_wait(x);
    return retry_back_off(x);
}

// Whether the engine may have died of the request.  A kept connection that closed was perhaps only
// stale: that the backend takes no fresh one either shows that it was not.
static bool retry_is_death(const struct hop *hop, enum hop_failure failure)
{
    bool has_ended =
        failure == HOP_RESET || failure == HOP_UNREACHABLE || failure == HOP_CONNECT_TIMEOUT;
    return has_ended && !hop->got_bytes && (hop->was_sent || hop->stage == HOP_AWAITING);
}

// By its prefix, or by path and body if it has no keys.  0: it has no body either.
static uint64_t retry_prompt_hash(const struct request *request)
{
    if (request->prompt_key != 0 || request->body_size == 0) {
        return request->prompt_key;
    }
    return hash_bytes(request_body(request), hash_bytes(http_head_path(&request->head), 0));
}

// The URL of a server by its short name.
static const char *retry_server_url(const struct fleet_view *view, uint32_t name)
{
    for (uint32_t i = 0; i < view->member_count; i++) {
        if (poison_server_name(view->members[i].backend->server) == name) {
            return view->members[i].backend->url;
        }
    }
    return "a removed backend";
}

static enum poison_verdict retry_note_prompt(struct exchange *x)
{
    const struct request *request = x->request;
    const struct backend *backend = x->hop.backend;
    struct poison_death death = {
        .prompt = retry_prompt_hash(request),
        .server = backend->server,
        .earlier = request->dead_server,
        .epoch = request->poison_epoch,
    };
    uint32_t other = 0;

    if (death.prompt == 0) {
        return POISON_UNPROVEN;
    }
    enum poison_verdict verdict =
        poison_note_death(&x->worker->proxy->poison, &death, loop_now_ms(x->worker->loop), &other);
    if (verdict == POISON_PROVEN) {
        log_warn_seldom(backend->id,
                        "request %.*s: poison prompt: %s and %s closed the connection without a "
                        "byte of a response; the prompt loses this retry until a response to it is "
                        "complete, or %d s pass without such an end",
                        (int)request->id_text.size, (const char *)request->id_text.bytes,
                        retry_server_url(x->worker->view, other), backend->url, poison_fade_s);
    }
    return verdict;
}

// One other backend may get the request, unless this is the second one or its prompt was poison
// already.
static void retry_note_death(struct exchange *x)
{
    struct request *request = x->request;
    enum poison_verdict verdict = retry_note_prompt(x);

    if (request->attempt_limit == 0) {
        request->attempt_limit = request->attempts + (verdict != POISON_KNOWN);
    }
    if (verdict != POISON_UNPROVEN) {
        worker_count(&x->worker->shared.poison_count);
    }
    request->dead_server = x->hop.backend->server;
}

void retry_keep_prompt(struct exchange *x)
{
    const struct poison_table *table = &x->worker->proxy->poison;

    // A large body is not hashed while no engine dies.
    if (poison_awaits_response(table, loop_now_ms(x->worker->loop))) {
        x->prompt_hash = retry_prompt_hash(x->request);
    }
}

void retry_note_response(const struct exchange *x)
{
    if (x->prompt_hash != 0) {
        poison_note_response(&x->worker->proxy->poison, x->prompt_hash,
                             loop_now_ms(x->worker->loop));
    }
}

const struct step *retry_after(struct exchange *x, enum hop_failure failure)
{
    ASSERT(x->hop.backend != NULL && !x->response.has_begun);

    if (failures[failure].is_fault) {
        log_debug("backend %s: %s", x->hop.backend->url,
                  http_problem_code(failures[failure].problem));
        attempt_judge(x, failures[failure].is_free ? BACKEND_UNREACHED : BACKEND_FAULT);
    }
    if (retry_is_death(&x->hop, failure)) {
        retry_note_death(x);
        failure =
            HOP_RESET; // a fresh connection that failed too is not free: an engine has seen it
    }
    if (retry_is_allowed(x, failure)) {
        return retry_elsewhere(x);
    }
    attempt_end(x, false);
    return respond_problem(x, failures[failure].problem, (struct slice){0});
}
