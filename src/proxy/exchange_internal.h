// SPDX-License-Identifier: Apache-2.0
//
// exchange_internal.h -- the life of a request, in order, and what an exchange knows meanwhile.
//
//     read_head -> read_body -> route -> connect -> send_request -> await_head -> relay -> finish
//                      |          ^
//                      + tokenize +      a long prompt
//          |           |          ^         |             |             |                    ^
//          |           |          +-- back_off <----------+-------------+  another backend   |
//          +-----------+----------------------+-----------+-------------+----> answer -------+
//                                                      what we say ourselves
#pragma once

#include "http/chunked.h"
#include "http/head.h"
#include "http/problem.h"
#include "proxy/client.h"
#include "proxy/exchange.h"
#include "proxy/worker_internal.h"
#include "route/route.h"

struct account;
struct trail;
struct upstream;

struct step {
    const char *name; // in traces
    const struct step *(*run)(struct exchange *x);
};

#define STEPS(X)                                                                                   \
    X(read_head)                                                                                   \
    X(read_body)                                                                                   \
    X(tokenize)                                                                                    \
    X(route)                                                                                       \
    X(connect)                                                                                     \
    X(send_request)                                                                                \
    X(await_head)                                                                                  \
    X(relay)                                                                                       \
    X(back_off)                                                                                    \
    X(answer)                                                                                      \
    X(finish)

#define X(name)                                                                                    \
    const struct step *name##_run(struct exchange *x);                                             \
    extern const struct step step_##name;
STEPS(X)
#undef X

// What the client's deadline stands for.
enum phase {
    PHASE_HEADER,
    PHASE_BODY,
    PHASE_CONNECT,
    PHASE_FIRST_BYTE,
    PHASE_CHUNK,  // the backend is silent
    PHASE_CLIENT, // the client does not read
    PHASE_BACK_OFF,
    PHASE_REQUEST, // the whole request took too long
};

enum { request_id_size = 32 };

struct exchange {
    const struct step *step;
    struct worker *worker;
    struct client *client;
    struct account *account; // NULL: nobody counts
    enum phase phase;
    enum phase awaited; // what no byte of the answer has moved for since; PHASE_HEADER: nothing
    uint64_t request_deadline_ms; // UINT64_MAX: none

    // The request, until its answer begins.
    struct http_head *head;
    uint32_t in_used; // bytes of client->in that are this request's
    struct body_block block;
    uint8_t *body; // in client->in behind the head, or in the block
    size_t body_size;
    uint32_t trailer_size; // lines behind the body
    const char
        *insertion; // what goes into the body where the client's bytes do not say it, or NULL
    size_t insertion_at;
    size_t insertion_over; // bytes of the body that it takes the place of
    struct chunked request_chunks;
    char request_id[request_id_size];
    struct slice request_id_text; // the client's, in its head, or ours; empty: too long to repeat
    uint64_t arrived_us;          // when all of it was here
    bool is_complete;             // all of the request is here
    bool awaits_lane;             // it is known to need it (tokenize)
    bool is_rewritten;            // the body is not the client's any more (forward_ids)
    bool is_counted;              // in proxy->in_flight
    bool is_head_request;
    bool is_http10;
    bool keep_alive;

    // The present attempt.
    struct backend *backend;        // counted in; NULL between attempts
    struct route_decision decision; // why it was chosen
    struct trail *trail;            // NULL: nothing is learned from this attempt
    bool on_trial;
    bool use_fresh; // a kept connection was stale: open another one to the same backend
    struct upstream *upstream;
    struct buffer sending; // the head for the backend
    size_t sent;           // of head, body and framing together
    bool request_is_sent;
    bool send_failed; // the connection takes no more; it may still have something to say
    uint32_t attempts;
    struct route_tried tried;

    // The answer.
    struct buffer receiving;       // a head that has not come to its end
    struct http_head *answer_head; // its parser
    struct buffer out_head;        // bytes for the client: first these,
    struct buffer out;             // then these,
    struct slice document;         // or what is left of an answer of our own, in the block
    enum http_framing framing;
    uint64_t answer_left; // HTTP_LENGTH
    struct chunked answer_chunks;
    size_t unsent;          // bytes that wait in the kernel for the client, when last asked
    uint32_t interim_count; // heads of 1xx
    bool got_bytes;         // anything came over the present connection
    bool has_begun;         // a byte of the answer may have reached the client
    bool is_event_stream;
    bool is_watched;      // the trail sees the body; its framing is made anew
    bool answer_is_fault; // 500, 502, 504
    bool upstream_is_reusable;
    bool answer_is_done; // all that will be sent is in the out buffers
    bool is_truncated;
    bool is_lingering; // the request was not read to its end
};

void exchange_set_phase(struct exchange *x, enum phase phase, uint32_t limit_ms);

// The same for one side of an answer, whose time runs from the last byte that moved: a wake-up that
// moves none does not begin it anew.
void exchange_await(struct exchange *x, enum phase phase, uint32_t limit_ms);

// Waits for the client to read: within timeouts.unread something must have gone.
void exchange_await_client(struct exchange *x);

// Lets go of what only the request needed.
void exchange_drop_request(struct exchange *x);

// Lets go of an answer's head that has not come to its end.
void exchange_drop_answer(struct exchange *x);

// Our own answer instead of a backend's.
const struct step *exchange_refuse(struct exchange *x, enum http_problem problem,
                                   struct slice detail);

// What routing gets to read.
struct route_input attempt_input(const struct exchange *x);

// Whether the prompt is so long that it is encoded in portions, before it is routed.
bool tokenize_is_needed(const struct exchange *x);

// What came of it; NULL when it was not needed.
const struct token_result *tokenize_result(const struct exchange *x);

// Lets others have their turn; idempotent.
void tokenize_release(struct exchange *x);

// Puts our ids into the body, where the operator wants it and the engine takes them.
bool forward_ids(struct exchange *x, const struct route_request *request);

// Ends the attempt, if there is one.  The connection is kept if `keep`, and closed otherwise.
void attempt_end(struct exchange *x, bool keep);

// How an attempt can fail before the answer begins.
enum failure {
    FAILURE_CONNECT,
    FAILURE_CONNECT_TIMEOUT,
    FAILURE_RESET, // after the request was sent, perhaps in part
    FAILURE_BUSY,  // 429 or 503
    FAILURE_GARBAGE,
    FAILURE_FIRST_BYTE,
};

// What the attempt showed of its backend.
void attempt_judge(struct exchange *x, enum backend_outcome outcome);

// The connection broke before the head of an answer was whole.
const struct step *attempt_reset(struct exchange *x);

// Judges, ends the attempt, and tries another backend or gives up.
const struct step *attempt_failed(struct exchange *x, enum failure failure);

// Whether a failure of that kind may be followed by another attempt; yes spends of the budget.
bool attempt_may_retry(struct exchange *x, enum failure failure);

// Ends the attempt and begins another one, which attempt_may_retry has allowed.
const struct step *attempt_again(struct exchange *x);

// Writes what waits for the client.  OK: nothing waits any more.  AGAIN: the client does not read.
enum status exchange_flush(struct exchange *x);

// The backend died in the middle of its answer.
const struct step *relay_broken(struct exchange *x, enum http_problem problem);
