// SPDX-License-Identifier: Apache-2.0
//
// A refusal that waits while another backend is asked about it (fleet/refusals.h).
//
// It is kept as the client will get it, head and body, in two buffers, so that it can pass on at
// any time: when the other backend fails or hangs, or the time of the request is over.  So a second
// opinion never makes a response worse, and the backend that refused is not asked again.

#include "base/base.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"

bool refusal_keep(struct exchange *x, const struct http_head *head)
{
    size_t used = 0;
    size_t kept = 0;

    ASSERT(x->kept.head.bytes == NULL && x->response.head.bytes == NULL);
    if (!buffer_take(x->worker, &x->response.head)) {
        return false;
    }
    http_body_start(&x->hop.body, head, x->is_http10 ? CHUNKED_KEEP_DATA : CHUNKED_KEEP_FRAMED);
    response_write_head(x, head);
    x->kept.status = head->status;
    x->kept.head = x->response.head;
    x->response.head = (struct buffer){0};
    x->kept.body = hop_take_response(&x->hop);
    struct buffer *body = &x->kept.body;
    enum status status = http_body_scan(&x->hop.body, body->bytes + body->begin,
                                        body->end - body->begin, &used, &kept);
    ASSERT(status == STATUS_OK); // the preview has seen its end
    body->end = body->begin + (uint32_t)kept;
    return true;
}

void refusal_drop(struct exchange *x)
{
    buffer_put(x->worker, &x->kept.head);
    buffer_put(x->worker, &x->kept.body);
    x->kept.status = 0;
}

const struct step *refusal_pass(struct exchange *x)
{
    ASSERT(x->kept.status != 0 && !x->response.has_begun);
    attempt_end(x, false);
    tokenize_release(x); // held if the request expired while its prompt was encoded again
    ASSERT(x->response.head.bytes == NULL); // interim heads do not pass while one is kept
    account_head(x, x->kept.status);
    x->response.head = x->kept.head;
    x->response.out = x->kept.body;
    x->kept = (struct kept_refusal){0};
    x->response.has_begun = true;
    x->response.is_done = true;
    x->wait = WAIT_NOTHING;
    return &step_respond;
}
