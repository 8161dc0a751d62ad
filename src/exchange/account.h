// SPDX-License-Identifier: Apache-2.0
//
// account.h -- what is noted of an exchange while it runs, for its receipt (metrics/receipt.h).
//
//     account_open      its first bytes are here
//     account_request   its head is
//     account_wait      it waits for its turn, or for another attempt
//     account_model     its body was read
//     account_route     a backend was chosen: what was known of it and of its rivals
//     account_learn     an attempt ends: what its answer has told
//     account_announce  it is on its way: whoever looks for it should find it before it ends
//     account_close     it is over: counted in the worker's meters, and put in its ring
//
// An exchange has none when nothing is counted (metrics.enabled), or when none is free; every call takes that.
//
// Threads: belongs to its worker.
#pragma once

#include "metrics/receipt.h"
#include "worker/worker.h"

struct route_choice;
struct route_request;
struct text;
struct trail;

struct account {
    struct receipt receipt;
    uint64_t began_us;         // by the loop's clock, as all that is no receipt's
    uint64_t waiting_us;       // since when; 0: it does not wait
    uint32_t waiting_token_ns; // of the stage `tokenize` at that time
    uint32_t slot;             // of the last backend
    bool is_served;            // its model is one that somebody serves
    struct receipt_rival rivals[receipt_rival_max];
    uint64_t sampled[receipt_sampled_max];
    uint64_t depths[receipt_depth_max];
    char id[receipt_text_max];
    char model[receipt_text_max];
    char url[receipt_text_max];
    char path[receipt_text_max];
};

struct account *account_open(struct worker *worker);

void account_request(struct exchange *x);
// The size of its body, before the request is dropped.
void account_body(struct exchange *x);
void account_wait(struct exchange *x);
// Whether more is noted of this request than what is counted: of thousands a second nobody looks at each.
bool account_is_detailed(const struct exchange *x);

void account_model(struct exchange *x, struct slice model);
void account_route(struct exchange *x, const struct route_request *request,
                   const struct route_choice *choice);
void account_learn(struct exchange *x);

// The traceparent that the backend gets; empty: as the client said.
struct slice account_traceparent(const struct account *account, struct text *space);

// Time spent on one of the stages.
void account_add(struct account *account, enum receipt_stage stage, uint64_t ns);

// Its receipt so far goes to the ring, where a later one takes its place: at once as long as not too many do,
// else when it has run for a while.  True: it went.
bool account_announce(struct exchange *x);

// Idempotent.  `is_finished`: all that there is to say is on its way to the client.
void account_close(struct exchange *x, bool is_finished);

// Microseconds since the request began; at least 1, since 0 is never.
static inline uint64_t account_moment(const struct account *account, uint64_t now_us)
{
    return now_us > account->began_us ? now_us - account->began_us : 1;
}
