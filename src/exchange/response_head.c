// SPDX-License-Identifier: Apache-2.0
//
// The heads that a client gets of a backend's response: interim ones, then the final one.

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "http/forward.h"

#include <stdio.h>

enum { decision_size_max = 512 };

static void response_write_decision(const struct exchange *x, struct text *out)
{
    const struct decision *decision = account_decision(x);
    const struct decision_party *why = &decision->chosen;
    char numbers[64];

    text_add_str(out, "policy=");
    text_add_str(out, decision->policy->name);
    text_add_str(out, "; candidates=");
    text_add_u64(out, decision->candidate_count);
    text_add_str(out, "; running_requests=");
    text_add_u64(out, why->running_requests);
    if (!decision->policy->reads_prompt) {
        return;
    }
    text_add_str(out, "; matched_blocks=");
    text_add_u64(out, why->matched_blocks);
    text_add_str(out, "; prompt_blocks=");
    text_add_u64(out, decision->prompt_blocks);
    text_add_str(out, "; matched_tokens=");
    text_add_u64(out, why->matched_tokens);
    text_add_str(out, "; prompt_tokens=");
    text_add_u64(out, decision->prompt_tokens);
    text_add_str(out, "; expected_tokens=");
    text_add_u64(out, why->expected_tokens);
    text_add_str(out, why->by_events ? "; by_events=yes" : "; by_events=no");
    text_add_str(out, "; queued_tokens=");
    text_add_u64(out, why->queued_tokens);
    snprintf(numbers, sizeof(numbers), "; predicted_ms=%.1f; cost=%.3g",
             (double)(why->wait_ms + why->prefill_ms), (double)why->cost);
    text_add_str(out, numbers);
}

static bool response_wants_decision(const struct exchange *x)
{
    return x->worker->config->decision_header ||
           (x->request != NULL &&
            http_head_find_text(&x->request->head, "x-warmpath-decision") != NULL);
}

void response_write_head(struct exchange *x, const struct http_head *head)
{
    const struct config *config = x->worker->config;
    struct text out = text_over(x->response.head.bytes + x->response.head.end,
                                x->worker->buffer_size - x->response.head.end);
    bool chunked = x->hop.body.framing == HTTP_CHUNKED && !x->is_http10;
    uint8_t space[decision_size_max];
    struct text decision = text_over(space, sizeof(space));

    ASSERT(x->response.head.bytes != NULL && x->hop.backend != NULL);
    if (response_wants_decision(x)) {
        response_write_decision(x, &decision);
    }
    x->keep_alive &= !x->worker->draining && x->hop.body.framing != HTTP_UNTIL_CLOSE &&
                     !(x->hop.body.framing == HTTP_CHUNKED && x->is_http10);
    http_forward_response(
        head,
        &(struct http_forward_response){
            .chunked = chunked,
            .close = !x->keep_alive,
            .say_keep_alive = x->is_http10 && x->keep_alive,
            .request_id = x->request->id_text,
            .backend = config->backend_header ? slice_str(x->hop.backend->url) : (struct slice){0},
            .decision = text_slice(&decision),
        },
        &out);
    ASSERT(!out.overflow);
    x->response.head.end += (uint32_t)out.size;
}

// 1xx: 100 is between us and the backend; the others go on to those who know them.
void response_pass_interim(struct exchange *x, const struct http_head *head)
{
    if (head->status == 100 || x->is_http10) {
        return;
    }
    if (x->response.head.bytes == NULL && !buffer_take(x->worker, &x->response.head)) {
        return;
    }
    struct text out = text_over(x->response.head.bytes + x->response.head.end,
                                x->worker->buffer_size - x->response.head.end);
    http_forward_response(head, &(struct http_forward_response){0}, &out);
    // An interim head that does not fit is dropped: the final one must have its room, which is that
    // of the largest head and half of the room for fields that we add.
    uint32_t most = (x->worker->buffer_size - x->worker->read_size) / 2;
    if (!out.overflow && x->response.head.end + out.size <= most) {
        x->response.head.end += (uint32_t)out.size;
    }
}
