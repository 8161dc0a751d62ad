// SPDX-License-Identifier: Apache-2.0
//
// exchange_internal.h -- the steps of a request, and the state that they share.
//
//     read_head -> read_body -> choose -> attempt -> relay -> finish
//         |           |    |     ^  |        |                  ^
//         |           | tokenize +  |        |                  |
//         |           |          ^  |        |                  |
//         |           |          +- | back_off  another backend |
//         +-----------+-------------+--------+----> respond ----+
//                                      a response of our own
//
// steps.def is the table of the steps.
#pragma once

#include "exchange/client.h"
#include "exchange/exchange.h"
#include "exchange/hop.h"
#include "exchange/request.h"
#include "http/problem.h"
#include "route/route.h"
#include "worker/buffer.h"
#include "worker/worker.h"

struct account;

// The event that an exchange is parked for; its deadline belongs to it.  Bits, so that a step can
// list several.
enum wait_for {
    WAIT_NOTHING = 0, // bytes of the response moved since, or the step never parks
    WAIT_CLIENT = 1,  // to send the request, or to read the response
    WAIT_BACKEND = 2, // to accept the connection, or to send the response
    WAIT_TURN = 4,    // for the worker's lane, or for others to have their turn
    WAIT_TIME = 8,    // for a pause to pass
};

// Possessions of an exchange; steps.def says what each step needs and excludes.
enum exchange_has {
    HAS_REQUEST = 1,  // head and body, which may be sent again
    HAS_ALL = 2,      // the client has sent all of the request
    HAS_BACKEND = 4,  // it is counted in at a backend
    HAS_UPSTREAM = 8, // a connection to that backend
    HAS_LANE = 16,    // the worker's lane for long prompts
    HAS_BEGUN = 32,   // the response: the request is not retried from here on
};

// A verb handles one event and returns the step to run next; NULL: the exchange is parked or over.
struct step {
    const char *name;                                 // in traces
    const struct step *(*run)(struct exchange *x);    // what it waits for may have come
    const struct step *(*expire)(struct exchange *x); // what it waits for did not come in time
    const struct step *(*backend_gone)(struct exchange *x); // the connection to the backend broke
    void (*client_gone)(
        struct exchange *x); // gives back what only this step holds; release follows
    uint32_t waits;          // enum wait_for
    uint32_t needs;          // enum exchange_has
    uint32_t excludes;
};

#define STEP(name, on_expire, on_backend_gone, on_client_gone, ...)                                \
    const struct step *name##_run(struct exchange *x);                                             \
    const struct step *on_expire(struct exchange *x);                                              \
    const struct step *on_backend_gone(struct exchange *x);                                        \
    void on_client_gone(struct exchange *x);                                                       \
    extern const struct step step_##name;
#include "exchange/steps.def"
#undef STEP

// The bytes for the client, and how they end.
struct response {
    struct buffer head;    // sent first,
    struct buffer out;     // then this,
    struct slice document; // or the rest of a response of our own, in the request's block
    size_t unsent;         // bytes that wait in the kernel for the client, when last asked
    bool has_begun;        // a byte of it may have reached the client
    bool is_event_stream;
    bool is_watched;   // the observer sees the body; its framing is made anew
    bool is_done;      // all that will be sent is in the buffers
    bool is_truncated; // it cannot be finished
    bool is_lingering; // the request was not read to its end
};

// A refusal that waits while another backend is asked about it.
struct kept_refusal {
    struct buffer head; // as the client gets it
    struct buffer body;
    uint16_t status; // 0: none is kept
};

struct exchange {
    const struct step *step;
    struct worker *worker;
    struct client *client;
    struct account *account;      // the only writer of its receipt
    enum wait_for wait;           // while parked
    uint64_t request_deadline_ms; // of the whole request; UINT64_MAX: none

    struct request *request; // NULL once the response has begun
    bool is_complete;        // the client has sent all of it
    bool is_counted;         // in proxy->in_flight
    bool is_head_request;
    bool is_http10;
    bool keep_alive;

    uint64_t prompt_hash; // of a response that may show a prompt to be harmless; else 0
    uint64_t refuser;     // the id of the backend whose refusal another one is asked about; or 0
    struct kept_refusal kept;

    struct hop hop; // its response goes to the client
    struct response response;
};

// The step is about to park: `wait` must end within limit_ms; 0: it may last.  The deadline of the
// whole request holds as well.
void exchange_wait(struct exchange *x, enum wait_for wait, uint32_t limit_ms);

// The same for one side of the response, whose time runs from the last byte that moved: a wake-up
// that moves none does not begin it anew.
void exchange_stall(struct exchange *x, enum wait_for wait, uint32_t limit_ms);

// Waits until the client reads: some of what waits for it must go within timeouts.unread.
void exchange_stall_client(struct exchange *x);

// That time is over.  A client that read something in the meantime gets as much again; otherwise
// the exchange is aborted.
void exchange_expire_client(struct exchange *x);

// Writes what waits for the client.  OK: nothing waits any more.  AGAIN: the client does not read.
enum status exchange_flush(struct exchange *x);

// Frees what only the request needed.
void exchange_drop_request(struct exchange *x);

// The step of a complete request and of a retry: choose, or tokenize for a long prompt.
const struct step *choose_first(const struct exchange *x);

// The input of routing.
struct route_input choose_input(const struct exchange *x);

// Whether the prompt is so long that it is encoded in portions, before it is routed.
bool tokenize_is_needed(const struct exchange *x);

// The ids of a long prompt; NULL when the exchange does not own the lane.
const struct token_result *tokenize_result(const struct exchange *x);

// Gives the lane to others; idempotent.
void tokenize_release(struct exchange *x);

// Edits our ids into the body, where the operator wants it and the engine takes them.
void forward_ids(struct exchange *x, const struct route_request *route_request);

// Ends the attempt, if there is one.  The connection is kept if `keep`, and closed otherwise.
void attempt_end(struct exchange *x, bool keep);

// Counts what the attempt showed of its backend's health.
void attempt_judge(struct exchange *x, enum backend_outcome outcome);

// Ends the attempt without blaming the backend: our own memory is short.
const struct step *attempt_starved(struct exchange *x, const char *what);

// Whether retry.on has the status.
bool retry_is_for_status(const struct exchange *x, uint16_t status);

// Whether a failure of that kind may be followed by another attempt; yes spends of the budget.
bool retry_is_allowed(struct exchange *x, enum hop_failure failure);

// A response begins.  Keeps the hash of the prompt, if engines have died of prompts lately.
void retry_keep_prompt(struct exchange *x);

// That response is complete: its prompt is harmless.
void retry_note_response(const struct exchange *x);

// Ends the attempt and begins another one, which retry_is_allowed has allowed.
const struct step *retry_elsewhere(struct exchange *x);

// Judges the backend, ends the attempt, and tries another backend or gives up.
const struct step *retry_after(struct exchange *x, enum hop_failure failure);

// The head is known, and its framing.  Whether the response of a suspect backend should not begin
// before it shows output or is complete (preview.h).
bool verdict_awaits_more(struct exchange *x, const struct http_head *head);

// The head is known.  Whether the response is kept and the request should go to another backend.
bool verdict_asks_another(struct exchange *x, const struct http_head *head);

// A portion of the body has been read, and shown to the observer.
void verdict_portion(struct exchange *x, size_t size);

// The first output has come.  Idempotent.
void verdict_output(struct exchange *x);

// The response of the backend is complete.
void verdict_end(struct exchange *x);

// Keeps the response, which is complete in the hop's buffer, while another backend is asked.
// False: memory is short.
bool refusal_keep(struct exchange *x, const struct http_head *head);
// Another response takes its place; idempotent.
void refusal_drop(struct exchange *x);
// The client gets it after all.  Ends the attempt at the other backend.
const struct step *refusal_pass(struct exchange *x);

// The head of the response is complete: passes it on, with the part of the body that came with it.
const struct step *relay_begin(struct exchange *x, struct http_head *head);

// The response cannot be finished.
const struct step *relay_broken(struct exchange *x, enum http_problem problem);

// A head of 1xx, for a client that knows them.
void response_pass_interim(struct exchange *x, const struct http_head *head);

// The head of the response as the client gets it, in x->response.head, which has a buffer.
void response_write_head(struct exchange *x, const struct http_head *head);

// Our own response instead of a backend's; but a refusal that is kept passes in its place.
const struct step *respond_problem(struct exchange *x, enum http_problem problem,
                                   struct slice detail);
// A 404 that names the models that exist.
const struct step *respond_no_such_model(struct exchange *x, struct slice model);
const struct step *respond_document(struct exchange *x, struct slice document);
