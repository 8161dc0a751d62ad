// SPDX-License-Identifier: Apache-2.0
//
// hop.h -- one try of a request at one backend: a small HTTP client without an opinion.
//
//     idle -> connecting -> sending -> awaiting -> reading
//
// hop_run does what it can without blocking and says what happened; the step that owns the hop
// decides what follows.  A hop never chooses a backend, never tries again and never writes to the
// client.
//
// A backend may send its response before it has read the whole request (413, 401), also on a
// connection that it closes at once.  So a hop that cannot send still reads.
//
// Threads: belongs to its worker.
#pragma once

#include "http/body.h"
#include "worker/buffer.h"
#include "worker/worker.h"

struct backend;
struct request;
struct observer;
struct upstream;

enum hop_stage { HOP_IDLE, HOP_CONNECTING, HOP_SENDING, HOP_AWAITING, HOP_READING };

enum hop_news {
    HOP_WAITS,     // for its connection
    HOP_OPENED,    // a new connection is under way
    HOP_CONNECTED, // the owner writes the head into hop->sending
    HOP_SENT,      // all of the request is in the kernel
    HOP_HEAD,      // hop->head is complete, interim or final, until another hop of the worker runs
    HOP_GIVES_WAY, // it has had its share of this turn
    HOP_FAILED,    // hop->failure says how
    HOP_STARVED,   // we have no memory; the backend is not to blame
};

// How a hop can fail before the response begins.
enum hop_failure {
    HOP_UNREACHABLE,
    HOP_CONNECT_TIMEOUT,
    HOP_RESET,      // after the request was sent, perhaps in part
    HOP_BAD_STATUS, // a response whose status retry.on lists
    HOP_REFUSED,    // a response without output, where others may produce some
    HOP_INVALID,
    HOP_FIRST_BYTE_TIMEOUT,
};

struct hop {
    struct worker *worker;
    void (*wake)(void *owner); // the connection has news
    void *owner;
    const struct request *request; // NULL once the response has begun
    struct backend *backend;       // counted in there; NULL: idle
    struct upstream *upstream;
    struct observer *observer; // NULL: nothing is learned from the response
    struct buffer sending;     // the head for the backend
    size_t sent;               // of head, body and framing together
    struct buffer receiving;
    struct http_head *head;   // after HOP_HEAD; its bytes begin `receiving`
    struct http_head *parser; // of a head that came in pieces; NULL: the worker's own serves
    enum hop_stage stage;
    enum hop_failure failure; // after HOP_FAILED
    uint32_t previewed;       // bytes of `receiving` that show no output yet; 0: none is awaited
    const char *missing;      // after HOP_STARVED, for the error message
    uint32_t interim_count;   // heads of 1xx
    bool on_trial;
    uint64_t kind; // of the request (refusals.h); 0: none
    bool on_kind_trial;
    bool is_streamed; // as the client asked
    bool has_begun;   // a stream whose first output has come
    uint64_t begun_ms;
    bool has_progress;     // a request that should get output, on a path that we know
    bool is_counted;       // in progress of the backend: its client reads
    bool is_fresh;         // a kept connection was stale: this is another one to the same backend
    bool was_sent;         // whole, over the kept connection that was stale
    bool is_refused;       // no process listens at the address
    bool got_bytes;        // over the present connection
    bool send_failed;      // the connection takes no more; a response may still be there to read
    bool is_reusable;      // the connection, when the response has ended
    bool is_fault;         // the status of the response says that the engine failed
    bool is_success;       // 2xx
    bool is_clients_fault; // by the status of a refusal
    bool preview_is_over;  // the response passes on, with output or without
    bool shows_nothing;    // the response is complete and has no output
    bool has_verdict;      // whether it has output is known (verdict.c)
    struct http_body body; // of the response
};

// Goes on, until the head of the response is complete.
enum hop_news hop_run(struct hop *hop);

// Drops an interim head.
void hop_skip_head(struct hop *hop);

// The final head stays where it is, and HOP_HEAD comes again with more bytes of the body.
void hop_await_more(struct hop *hop);

// The response begins.  Returns the buffer, whose bytes behind the head are the first of the body;
// the head is gone, and the hop holds no request any more.
struct buffer hop_take_response(struct hop *hop);

// A fresh connection to the same backend, in place of a kept one that was closed while idle.
void hop_reopen(struct hop *hop);

// The backend is expected to make progress on it (fleet/progress.h), or is not, since we do not
// read; both idempotent.
void hop_go_on(struct hop *hop, uint64_t now_ms);
void hop_pause(struct hop *hop);

// Output of a stream has come: progress, if the backend is expected to make some.
void hop_note_output(struct hop *hop, uint64_t now_ms);

// Closes or keeps the connection, ends the observer, counts the request out; idempotent.
void hop_end(struct hop *hop, bool keep);
