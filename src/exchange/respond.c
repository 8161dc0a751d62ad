// SPDX-License-Identifier: Apache-2.0
//
// The step that sends a response of our own: a problem, or the list of models.

#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "fleet/fleet.h"

// Seconds, in the Retry-After of a 503.
enum { retry_after_s = 1 };

// Of the name of an unknown model; the rest of a longer one is left out.
enum { named_model_size_max = 192 };

static const struct step *respond_begin(struct exchange *x)
{
    x->response.has_begun = true;
    x->response.is_done = true;
    x->wait = WAIT_NOTHING;
    return &step_respond;
}

const struct step *respond_problem(struct exchange *x, enum http_problem problem,
                                   struct slice detail)
{
    struct worker *worker = x->worker;
    uint16_t status = http_problem_status(problem);

    ASSERT(!x->response.has_begun && x->hop.backend == NULL);
    if (x->kept.status != 0) {
        return refusal_pass(x); // an engine's response is worth more to the client than ours
    }
    tokenize_release(x); // held if the request expired while its prompt was encoded
    if (x->response.head.bytes == NULL && !buffer_take(worker, &x->response.head)) {
        exchange_abort(x);
        return NULL;
    }
    // The body of a refused request may be here all the same.  Then the connection can be kept.
    x->is_complete = x->is_complete || client_skip_body(x->client, x->request);
    x->keep_alive &= x->is_complete;
    x->response.is_lingering = !x->is_complete;
    struct text out = text_over(x->response.head.bytes + x->response.head.end,
                                worker->buffer_size - x->response.head.end);
    http_problem_response(
        &(struct http_problem_response){
            .problem = problem,
            .detail = detail,
            .request_id = x->request->id_text,
            .retry_after_s = status == 503 ? retry_after_s : 0,
            .close = !x->keep_alive,
            .without_body = x->is_head_request,
        },
        &out);
    ASSERT(!out.overflow);
    x->response.head.end += (uint32_t)out.size;
    worker_count(&worker->shared.problems[problem]);
    account_problem(x, http_problem_code(problem));
    account_status(x, status);
    return respond_begin(x);
}

const struct step *respond_no_such_model(struct exchange *x, struct slice model)
{
    char space[named_model_size_max + sizeof("; ") + fleet_hint_size_max];
    struct text detail = text_over(space, sizeof(space));

    text_add(&detail, utf8_cut(model, named_model_size_max));
    text_add_str(&detail, "; ");
    text_add_str(&detail, x->worker->view->models_hint);
    ASSERT(!detail.overflow);
    return respond_problem(x, HTTP_PROBLEM_NO_SUCH_MODEL, text_slice(&detail));
}

// The document is copied: the view that it belongs to may go while the client reads.
const struct step *respond_document(struct exchange *x, struct slice document)
{
    struct worker *worker = x->worker;

    if (document.size > worker->bodies.sizes[body_class_count - 1] ||
        !body_store_take(&worker->bodies, document.size, &x->request->block) ||
        !buffer_take(worker, &x->response.head)) {
        return respond_problem(x, HTTP_PROBLEM_OVERLOADED,
                               slice_str("no memory for the list of models"));
    }
    struct text out = text_over(x->response.head.bytes, worker->buffer_size);
    text_add_str(&out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ");
    text_add_u64(&out, document.size);
    text_add_str(&out, "\r\nx-request-id: ");
    text_add(&out, x->request->id_text);
    text_add_str(&out, x->keep_alive ? "\r\n\r\n" : "\r\nconnection: close\r\n\r\n");
    ASSERT(!out.overflow);
    x->response.head.end = (uint32_t)out.size;
    account_status(x, 200);
    if (!x->is_head_request) {
        memcpy(x->request->block.bytes, document.bytes, document.size);
        x->response.document = slice_of(x->request->block.bytes, document.size);
    }
    return respond_begin(x);
}

const struct step *respond_run(struct exchange *x)
{
    account_close(x, true); // before the last byte: a client that has read it finds itself counted
    switch (exchange_flush(x)) {
    case STATUS_OK:
        return &step_finish;
    case STATUS_AGAIN:
        exchange_stall_client(x);
        return NULL;
    default:
        exchange_abort(x);
        return NULL;
    }
}

const struct step *respond_expire(struct exchange *x)
{
    exchange_expire_client(x);
    return NULL;
}
