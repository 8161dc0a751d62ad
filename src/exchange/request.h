// SPDX-License-Identifier: Apache-2.0
//
// request.h -- a request, from its first byte until its response begins.
//
// The slot is given back then: no other backend will get the request, and a stream holds none of
// it.  The body stays as the client sent it.  It is read once, when it is complete; each attempt
// edits it.
#pragma once

#include "api/body_edit.h"
#include "api/prompt.h"
#include "http/chunked.h"
#include "http/head.h"
#include "route/route.h"
#include "worker/body_store.h"

enum { request_id_size = 32 };

struct request {
    uint32_t in_used; // bytes of client->in that are this request's
    char id[request_id_size];
    struct slice id_text; // the client's, in its head, or ours; empty: too long to repeat

    struct body_block block;
    uint8_t *body; // in client->in behind the head, or in the block
    size_t body_size;
    uint32_t trailer_size; // lines behind the body
    struct chunked chunks;
    uint64_t arrived_us; // when all of it was here
    struct reading reading;
    bool awaits_lane; // it needs the lane for long prompts and found it taken

    // Of the present attempt.
    struct body_edits edits;
    struct body_block ids; // the text of our token ids, if the body gets them

    // When it was routed first.
    uint64_t prompt_key;   // of the last block; 0: the prompt has no keys
    uint32_t poison_epoch; // see worker/poison_table.h

    struct route_tried tried;
    uint32_t attempts;      // that reached an engine
    uint32_t attempt_limit; // since an engine may have died of it; 0: retry.attempts alone
    uint64_t dead_server;   // of that engine

    struct http_head
        head; // last: what lies before it is cleared with the slot, the head when started
};

static inline struct slice request_body(const struct request *request)
{
    return slice_of(request->body, request->body_size);
}
