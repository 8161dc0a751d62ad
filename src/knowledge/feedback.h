// SPDX-License-Identifier: Apache-2.0
//
// feedback.h -- what the router learns from one attempt at a backend: the backend's load, the
// blocks in its cache, and its speed.
//
//     feedback_begin      the request is sent: load counts it, the index predicts its prompt
//     feedback_confirm    output arrives: the index confirms the prompt, unless KV events do that
//     feedback_complete   the response is complete: the index confirms it too, and its usage shows
//                         how much of the prompt was cached
//     feedback_end        always called: load no longer counts the request, and an unconfirmed
//                         prediction is withdrawn
//
// The caller keeps the keys of prompt and response and passes them to each call.  Between begin and
// end it reports output tokens to the load (load_output and its kin).
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
    uint64_t prediction; // its number; 0: none
    uint32_t sender;
    uint32_t prompt_keys;
    uint32_t block_tokens;
    bool is_named;
    bool is_predicted; // the index has the prompt as predicted
    bool has_begun;    // some output was seen
    bool is_settled;   // the prediction is confirmed, or left to KV events
};

// Keeps input->decision until feedback_end.
void feedback_begin(struct feedback *feedback, const struct feedback_input *input, uint64_t now_us);

// Idempotent.
void feedback_confirm(struct feedback *feedback, const uint64_t *keys, uint64_t now_us);

// The usage that the engine reports at the end of a response.
struct feedback_usage {
    bool has_cached_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens; // 0: not reported, count those that were seen
};

// `key_count` keys: those of the prompt, then those of the response.
void feedback_complete(struct feedback *feedback, const struct feedback_usage *usage,
                       const uint64_t *keys, uint32_t key_count, uint64_t now_us);

// Idempotent.
void feedback_end(struct feedback *feedback, const uint64_t *keys);
