// SPDX-License-Identifier: Apache-2.0
//
// The step that encodes a long prompt, one portion each turn, so that other requests do not wait
// for it.
//
// A worker has one lane, with memory for the longest prompt.  An exchange that finds it taken looks
// again next turn; short prompts never come here.

#include "base/base.h"
#include "dialect/token_reader.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "sys/clock.h"

// About half a millisecond of work.
enum { portion_size = 65536 };

bool tokenize_is_needed(const struct exchange *x)
{
    return x->worker->lane.reader != NULL && x->request->body_size > token_portion_max;
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

static enum status tokenize_begin(struct exchange *x, struct lane *lane)
{
    const struct worker *worker = x->worker;
    struct route_input input = choose_input(x);
    struct route_request request;

    route_read_model(worker->route, &input, &request);
    struct dialect *dialect = route_wants_ids(worker->route, worker->view, &request)
                                  ? dialect_set_find(token_thread_set(worker->token_thread),
                                                     fleet_view_served(worker->view, request.model))
                                  : NULL;
    if (dialect == NULL) {
        return STATUS_MALFORMED;
    }
    if (lane->owner != NULL) {
        x->request->awaits_lane = true;
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

static enum status tokenize_portion(struct exchange *x, struct lane *lane)
{
    ASSERT(lane->reader != NULL);
    if (lane->owner == x) {
        return token_reader_continue(lane->reader, portion_size, &lane->result);
    }
    return lane->owner == NULL || !x->request->awaits_lane ? tokenize_begin(x, lane) : STATUS_AGAIN;
}

// A request whose ids cannot be computed is routed by its text.
const struct step *tokenize_run(struct exchange *x)
{
    uint64_t begin_ns = clock_monotonic_ns();
    enum status status = tokenize_portion(x, &x->worker->lane);

    account_add(x, RECEIPT_STAGE_TOKENIZE, clock_monotonic_ns() - begin_ns);
    if (status == STATUS_AGAIN) {
        exchange_wait(x, WAIT_TURN, 0);
        client_again(x->client);
        return NULL;
    }
    return &step_choose;
}

void tokenize_client_gone(struct exchange *x)
{
    tokenize_release(x);
}
