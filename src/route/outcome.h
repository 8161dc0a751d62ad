// SPDX-License-Identifier: Apache-2.0
//
// outcome.h -- what follows from a choice, until the answer has ended: what is counted, what is believed,
// and what is learned.
//
//     outcome_begin      the request is on its way: load counts it, the index predicts its prompt
//     outcome_confirm    the first output was seen: the prompt is in the backend's cache, unless the
//                        backend tells that by itself
//     outcome_complete   the answer came to its end: the cache holds it too, and usage tells the truth
//     outcome_end        in any case: what was counted is taken back, and what never began is withdrawn
//
// The keys of prompt and answer are the caller's and handed in each time.  In between the caller tells the
// load (load_output and its kin) of the tokens that come.
//
// Threads: belongs to the thread of its sender.  Memory: the caller's; nothing is allocated.
#pragma once

#include "fleet/load.h"
#include "route/route.h"

struct knowledge;

struct outcome {
    struct knowledge *knowledge;
    struct backend *backend;
    struct load_request load;
    struct route_decision decision;
    uint64_t session_key;
    uint32_t sender;
    uint32_t prompt_keys;
    uint32_t block_tokens;
    bool is_named;     // the prompt has keys: there is something to learn
    bool is_predicted; // the index was told that the prompt will be there
    bool has_begun;    // some output was seen
    bool is_settled;   // what was predicted is there, or is told of
};

// `keys` are those of the request, wherever the caller keeps them.
void outcome_begin(struct outcome *outcome, struct knowledge *knowledge, uint32_t sender,
                   const struct route_request *request, const struct route_choice *choice,
                   uint64_t now_us);
// Idempotent.
void outcome_confirm(struct outcome *outcome, const uint64_t *keys, uint64_t now_us);

// What the engine said at the end.
struct outcome_usage {
    bool has_cached_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens; // 0: as many as were seen
};

// `key_count` keys: the prompt's, and those of the answer.
void outcome_complete(struct outcome *outcome, const struct outcome_usage *usage,
                      const uint64_t *keys, uint32_t key_count, uint64_t now_us);

// Idempotent.
void outcome_end(struct outcome *outcome, const uint64_t *keys);
