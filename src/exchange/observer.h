// SPDX-License-Identifier: Apache-2.0
//
// observer.h -- watches one attempt at a backend, and learns from its response.
//
//     sent           the index expects the prompt's blocks at the backend; its load grows
//     first output   the blocks are there; the time it took shows the speed of prefill
//     each output    extends the chain of keys, since the next turn repeats this response
//     end            usage reports the cached tokens and the prompt's length, from which we learn;
//                    the recorder gets an entry, if there is one
//
// If the pool's policy does not read prompts and nothing is recorded, an observer has no keys and
// watches for the meters only.  If all observers are in use, the request is not watched.
//
// A response is watched while it passes.  Of an event stream only whole events go on, since one
// that we asked for may have to be left out; the part of an event waits here, in a buffer, for its
// rest.  A document is copied and read at its end.
//
// Threads: belongs to its worker.
#pragma once

#include "api/output.h"
#include "api/response_body.h"
#include "base/pool.h"
#include "base/slice.h"
#include "base/timer_wheel.h"
#include "knowledge/feedback.h"
#include "prefix/prefix_chain.h"
#include "route/route.h"
#include "worker/body_store.h"
#include "worker/buffer.h"
#include "worker/worker.h"

struct exchange;
struct http_head;

enum observer_watch {
    OBSERVER_BLIND,  // the body is not read
    OBSERVER_EVENTS, // a stream of events
    OBSERVER_DOCUMENT,
};

struct observer {
    struct worker *worker;
    struct feedback feedback;
    struct timer prefill_end; // predicted, of a response that comes in one piece
    struct buffer tail;       // the first part of an event
    struct body_block document;
    size_t document_size;
    struct response_usage usage;
    uint64_t text_size; // of the prompt; 0: it came as ids
    uint64_t arrived_us;
    uint64_t first_us; // first token of a stream, and the last so far; 0: none
    uint64_t last_us;
    struct dialect
        *dialect; // that computed the prompt's ids; NULL: only the engine counts its tokens
    uint32_t shape;
    uint32_t turn; // messages of the assistant in the prompt
    uint32_t class_index;
    enum prompt_api api;
    enum prompt_form form;
    enum observer_watch watch;
    bool is_named;    // the prompt has keys, and the index learns from them
    bool is_extended; // ids of the response continue those of the prompt
    bool is_streamed; // as the client asked
    bool hides_usage; // we asked for it
    bool is_success;  // 2xx
    bool is_opaque;   // its content is not understood: bytes count as output
    struct output output;
    bool is_too_large; // a document that is not kept
    // Only if it is named; not cleared.
    struct prefix_chain chain;
    uint64_t keys[];
};

// Bytes of an observer with room for the keys of that class.
size_t observer_slot_size(uint32_t class_index);

// For the attempt that routing has just chosen.  NULL: all observers are in use.  `arrived_us`:
// when the whole request had come, on a retry too.
struct observer *observer_begin(struct worker *worker, const struct route_request *request,
                                struct backend *backend, const struct decision *decision,
                                uint64_t arrived_us);

// Frees it, and clears the caller's pointer, which may be NULL.
void observer_end(struct observer **observer);

// How the body of a 2xx response is read.  *is_opaque: its content is not understood.
enum observer_watch observer_watch_for(enum prompt_api api, const struct http_head *head,
                                       bool may_hold_back, bool *is_opaque);

// The head of the response has come.  The body is then shown to observer_see, unless `watch` is
// OBSERVER_BLIND.
void observer_head(struct observer *observer, const struct http_head *head, bool may_hold_back);

// A portion of the body, without its framing; `is_end` with the last one.  It begins with the bytes
// that were held back before (observer_take_tail).  Returns how many bytes, moved to the front, go
// on now.
size_t observer_see(struct observer *observer, uint8_t *bytes, size_t size, bool is_end);

// The bytes that are held back, at most observer_tail_max; observer_take_tail moves them to
// `bytes`.
enum { observer_tail_max = 8192 };
size_t observer_tail_size(const struct observer *observer);
void observer_take_tail(struct observer *observer, uint8_t *bytes);

// Whether the complete response holds output: text, a token, usage, or a choice that ends at once.
bool observer_is_answered(const struct observer *observer);

// The response has come to its end.
void observer_complete(struct observer *observer);
