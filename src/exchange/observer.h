// SPDX-License-Identifier: Apache-2.0
//
// observer.h -- what is kept of a request while a backend works on it, to learn from the answer.
//
//     sent           the backend is believed to get the prompt's blocks; its load grows
//     first output   the blocks are there; the time it took shows how fast the backend reads
//     each output    extends the chain of keys: the next turn will begin with this answer
//     end            usage says what was cached and how long the prompt was; all of it is learned, and
//                    goes to the recorder if there is one
//
// A observer belongs to one attempt.  In pools whose policy looks at no prompt, unless all requests are recorded, it
// has no keys and only watches, for the meters.  When none is free the request goes its way without one, and nothing is learned from it.
//
// Answers are watched as they pass.  Of an event stream only whole events go on, since one that we
// asked for may have to be left out; what is not whole waits here, in a buffer, for its rest.
// A document is copied aside and read at its end.
//
// Threads: belongs to its worker.
#pragma once

#include "api/answer.h"
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
    OBSERVER_BLIND,  // nothing to be learned from
    OBSERVER_EVENTS, // a stream of events
    OBSERVER_DOCUMENT,
};

struct observer {
    struct worker *worker;
    struct feedback feedback;
    struct timer
        prefill_end;    // of an answer that comes in one piece: when its prompt is done, about
    struct buffer tail; // the beginning of an event
    struct body_block document;
    size_t document_size;
    struct answer_usage usage;
    uint64_t text_size; // of the prompt; 0: it came as ids
    uint64_t arrived_us;
    uint64_t first_us; // when the first token of a stream came, and the last so far; 0: none
    uint64_t last_us;
    struct dialect *dialect; // whose ids the prompt has; NULL: the engine's number of them is news
    uint32_t shape;
    uint32_t turn; // answers that were in the prompt
    uint32_t class_index;
    enum prompt_api api;
    enum prompt_form form;
    enum observer_watch watch;
    bool is_named;     // the prompt has keys, and what they tell is learned
    bool is_extended;  // ids of the answer go behind those of the prompt
    bool is_streamed;  // as the client asked
    bool hides_usage;  // we asked for it
    bool is_answered;  // 2xx
    bool is_too_large; // a document that we do not keep
    // Only if it is named, all that follows; it is not cleared.
    struct prefix_chain chain;
    uint64_t keys[];
};

// Bytes of a observer with room for the keys of that class.
size_t observer_slot_size(uint32_t class_index);

// Begins it for the attempt that routing has just chosen; NULL when none is free.  `arrived_us` is when
// the whole request was there, whichever attempt this is.
struct observer *observer_begin(struct worker *worker, const struct route_request *request,
                                struct backend *backend, const struct decision *decision,
                                uint64_t arrived_us);

// Ends it, learned or not; clears the caller's pointer, which may be NULL.
void observer_end(struct observer **observer);

// The head of the answer has come.  What follows is shown to observer_see, unless the watch is blind.
void observer_head(struct observer *observer, const struct http_head *head, bool may_hold_back);

// A portion of the answer, without its framing; `is_end` with the last one.  Returns how many bytes
// of it, moved to the front, go on now.  What was held back before (observer_take_tail) is its beginning.
size_t observer_see(struct observer *observer, uint8_t *bytes, size_t size, bool is_end);

// What is held back: at most observer_tail_max bytes, and their moving to `bytes`.
enum { observer_tail_max = 8192 };
size_t observer_tail_size(const struct observer *observer);
void observer_take_tail(struct observer *observer, uint8_t *bytes);

// The answer came to its end.
void observer_complete(struct observer *observer);
