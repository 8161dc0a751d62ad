// SPDX-License-Identifier: Apache-2.0
//
// account.h -- the receipt of an exchange while it runs (metrics/receipt.h), and its only writer.
//
//     account_open      the first bytes are here
//     account_request   the head is
//     account_wait      the request waits for its turn, or for another attempt
//     account_model     the body was read
//     account_route     a backend was chosen; the decision lies in the receipt
//     account_sent, account_head, account_wrote    the request and the response move
//     account_learn     an attempt ends: the tokens that its response reports
//     account_announce  a receipt of the running request goes to the ring
//     account_close     the request is over: counted in the worker's meters, its receipt sent
//
// Every exchange has one.  If nothing is counted (metrics.enabled), it is neither counted nor sent.
//
// Threads: belongs to its worker.
#pragma once

#include "metrics/receipt.h"
#include "worker/worker.h"

struct exchange;
struct route_choice;
struct route_request;
struct text;

struct account {
    struct receipt receipt;
    uint64_t began_us;         // by the loop's clock
    uint64_t waiting_us;       // since when it waits; 0: it does not
    uint32_t waiting_token_ns; // of the stage `tokenize` at that time
    bool is_served;            // some backend serves its model
    bool is_closed;
    struct decision_party rivals[decision_rival_max];
    uint64_t sampled[receipt_sampled_max];
    uint64_t depths[receipt_depth_max];
    char id[receipt_text_max];
    char model[receipt_text_max];
    char url[receipt_text_max];
    char path[receipt_text_max];
};

// There is one for each connection.
struct account *account_open(struct worker *worker);

void account_request(struct exchange *x);
// The size of its body, before the request is dropped.
void account_body(struct exchange *x);
void account_wait(struct exchange *x);
// Whether stages are timed and rivals are kept; only for some requests of each second.
bool account_is_detailed(const struct exchange *x);

void account_model(struct exchange *x, struct slice model);

// The decision in the receipt: route writes it, and all others read it.
struct decision *account_decision(const struct exchange *x);
void account_route(struct exchange *x, const struct route_request *request,
                   const struct route_choice *choice);
void account_learn(struct exchange *x);

// The traceparent that the backend gets, and whether the trace begins here; empty: the client's
// own.
struct slice account_traceparent(const struct exchange *x, struct text *space, bool *begins_trace);

// All of the request went to the connection of its backend.
void account_sent(struct exchange *x);
// The head of the backend's response came.
void account_head(struct exchange *x, uint16_t status);
// Bytes of the response went to the client.
void account_wrote(struct exchange *x, size_t size);
// The router's own response, or the error that ends a response; `code` is a constant.
void account_status(struct exchange *x, uint16_t status);
void account_problem(struct exchange *x, const char *code);

// Time spent in one of the stages.
void account_add(struct exchange *x, enum receipt_stage stage, uint64_t ns);

// Sends the receipt so far to the ring, where a later one replaces it: at once unless too many do,
// else when the request has run for a while.  True: it was sent.
bool account_announce(struct exchange *x);

// Idempotent.  `is_finished`: the whole response is on its way to the client.
void account_close(struct exchange *x, bool is_finished);
