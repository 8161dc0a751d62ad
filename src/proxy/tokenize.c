// SPDX-License-Identifier: Apache-2.0
//
// The step that encodes a long prompt, a portion each turn, so that others do not wait for it.
//
// A worker has one lane for them, with memory for the longest prompt.  Whoever needs it and finds it taken
// gives way and looks again next turn; short prompts never come here.

#include "base/base.h"
#include "dialect/token_reader.h"
#include "proxy/account.h"
#include "proxy/exchange_internal.h"
#include "sys/clock.h"

// About half a millisecond of work.
enum { portion_size = 65536 };

bool tokenize_is_needed(const struct exchange *x)
{
    return x->worker->lane.reader != NULL && x->body_size > token_portion_max;
}

void tokenize_release(struct exchange *x)
{
    struct lane *lane = &x->worker->lane;
    if (lane->owner == x) {
        lane->owner = NULL;
    }
}

const struct token_result *tokenize_result(const struct exchange *x)
{
    const struct lane *lane = &x->worker->lane;
    return lane->owner == x ? &lane->result : NULL;
}

static enum status begin(struct exchange *x, struct lane *lane)
{
    const struct worker *worker = x->worker;
    struct route_input input = attempt_input(x);
    struct route_request request;

    route_read_model(worker->route, &input, &request);
    struct dialect *dialect =
        route_wants_ids(worker->route, worker->view, &request)
            ? dialect_set_find(token_thread_set(worker->token_thread), request.model)
            : NULL;
    if (dialect == NULL) {
        return STATUS_MALFORMED;
    }
    if (lane->owner != NULL) {
        x->awaits_lane = true;
        return STATUS_AGAIN;
    }
    lane->owner = x;
    lane->result = (struct token_result){0};
    return token_reader_begin(lane->reader,
                              &(struct token_request){.dialect = dialect,
                                                      .api = input.api,
                                                      .body = input.body,
                                                      .salt = request.prompt->salt,
                                                      .wall_s = input.wall_s},
                              portion_size, &lane->result);
}

static enum status go_on(struct exchange *x, struct lane *lane)
{
    if (lane->owner == x) {
        return token_reader_continue(lane->reader, portion_size, &lane->result);
    }
    return lane->owner == NULL || !x->awaits_lane ? begin(x, lane) : STATUS_AGAIN;
}

// Without ids, whatever the reason, the request is routed by its text.
const struct step *tokenize_run(struct exchange *x)
{
    uint64_t begin_ns = x->account != NULL ? clock_monotonic_ns() : 0;
    enum status status = go_on(x, &x->worker->lane);

    if (x->account != NULL) {
        account_add(x->account, RECEIPT_STAGE_TOKENIZE, clock_monotonic_ns() - begin_ns);
    }
    if (status == STATUS_AGAIN) {
        worker_again(x->worker, x->client);
        return NULL;
    }
    return &step_route;
}
