// SPDX-License-Identifier: Apache-2.0
//
// feedback.h -- what one attempt at a backend teaches: the load that it adds, the blocks that the
// backend is believed to hold, and what its response tells of them.
//
//     feedback_begin      the request is sent: load counts it, the index predicts its prompt
//     feedback_confirm    the first output came: the prompt is in the backend's cache, unless the
//                         backend's KV events report that
//     feedback_complete   the response is complete: the cache holds it too, and its usage says how
//                         much of the prompt was cached
//     feedback_end        in any case: load no longer counts it, and a prediction that did not come
//                         true is withdrawn
//
// The caller keeps the keys of prompt and response and hands them in each time.  Between begin and
// end it tells the load (load_output and its kin) of tokens as they come.
//
// Threads: belongs to the thread of its sender.  Memory: the caller's; nothing is allocated.
#pragma once

#include "fleet/load.h"
#include "policy/decision.h"

struct backend;
struct knowledge;

// The request and where it goes.
struct feedback_input {
    struct knowledge *knowledge;
    uint32_t sender;
    struct backend *backend;
    const struct decision *decision; // of which `backend` is the chosen one
    uint64_t session_key;            // 0: no session
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t block_tokens;
    bool is_named; // the prompt was read for keys, of which it may have none
};

struct feedback {
    struct knowledge *knowledge;
    struct backend *backend;
    const struct decision *decision;
    struct load_request load;
    uint64_t session_key;
    uint32_t sender;
    uint32_t prompt_keys;
    uint32_t block_tokens;
    bool is_named;
    bool is_predicted; // the index was told that the prompt will be there
    bool has_begun;    // some output was seen
    bool is_settled;   // the predicted blocks are there, or events report them
};

// Keeps input->decision until feedback_end.
void feedback_begin(struct feedback *feedback, const struct feedback_input *input, uint64_t now_us);

// Idempotent.
void feedback_confirm(struct feedback *feedback, const uint64_t *keys, uint64_t now_us);

// As the engine reports it at the end.
struct feedback_usage {
    bool has_cached_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens; // 0: as many as were seen
};

// `key_count` keys: those of the prompt, then those of the response.
void feedback_complete(struct feedback *feedback, const struct feedback_usage *usage,
                       const uint64_t *keys, uint32_t key_count, uint64_t now_us);

// Idempotent.
void feedback_end(struct feedback *feedback, const uint64_t *keys);
