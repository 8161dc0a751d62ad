// SPDX-License-Identifier: Apache-2.0
//
// receipt.h -- all that is kept of a request when it is over: what was known, what was decided, what came of
// it.  Everything that is told of single requests is made from receipts: the log, traces, the list of
// decisions, the estimate of what another policy would have done.
//
//     worker:  exchange ends -> receipt -> meters (counted at once, never lost)
//                                  |
//                                  +----> ring of the worker -> scribe -> log, traces, chronicle
//
// There is no text of a prompt in it, and nothing that text can be found by: keys are hashes with a secret
// seed (prefix/prefix_chain.h).
#pragma once

#include "base/slice.h"
#include "policy/decision.h"

#include <stdbool.h>
#include <stdint.h>

enum receipt_outcome {
#define OUTCOME(id, name, help) RECEIPT_##id,
#include "metrics/outcomes.def"
#undef OUTCOME
    RECEIPT_OUTCOME_COUNT
};

enum receipt_stage {
#define STAGE(id, name, help) RECEIPT_STAGE_##id,
#include "metrics/stages.def"
#undef STAGE
    RECEIPT_STAGE_COUNT
};

const char *receipt_outcome_name(enum receipt_outcome outcome);
const char *receipt_stage_name(enum receipt_stage stage);

enum {
    // Every key of a prompt with (key & (receipt_sample - 1)) == 0, as far as there is room.
    receipt_sample = 16,
    receipt_sampled_max = 64,
    // The keys of the first 1, 2, 4 … 8192 blocks.
    receipt_depth_max = 14,
    // Texts that are longer are cut.
    receipt_text_max = 128,
};

struct receipt {
    // Which one.
    uint64_t id_hash;  // of the request id, all of it
    uint64_t number;   // of the worker's requests; with `worker` it is unique
    uint64_t wall_us;  // since 1970, when its first byte was here
    uint64_t trace[2]; // W3C: the trace's id; 0, 0: it is not traced
    uint64_t span;     // ours
    uint64_t parent;   // the caller's; 0: none
    bool is_sampled;   // to be exported
    uint32_t worker;

    // What became of it.
    enum receipt_outcome outcome;
    uint16_t status;     // as the client saw it; 0: none
    const char *problem; // the code of the router's own answer (a constant), or NULL
    uint32_t attempts;
    uint64_t request_bytes; // of the body
    uint64_t answer_bytes;  // that went to the client, heads included
    bool is_streamed;
    bool is_announced; // there was a receipt of it while it ran

    // When, in microseconds since the first byte; 0: it did not come to that.
    uint64_t complete_us;                   // all of the request was here
    uint64_t sent_us;                       // the last attempt was given to its connection
    uint64_t head_us;                       // the head of the answer had come
    uint64_t first_us;                      // the first token had; streams only
    uint64_t last_us;                       // the last token
    uint64_t end_us;                        // all was over
    uint32_t stage_ns[RECEIPT_STAGE_COUNT]; // all attempts together

    // Tokens.
    uint32_t prompt_tokens; // as counted or estimated here; as the engine says once it has
    uint32_t cached_tokens; // that were, by the engine
    uint32_t output_tokens;
    uint32_t block_tokens;  // of one key
    bool has_cached_tokens; // the engine has reported cached_tokens
    uint64_t saved_us;      // that reading the cached tokens would have taken there
    float token_ms;         // that one more uncached token takes there, as learned

    // Of the last attempt; chosen.backend 0: it came to none.
    struct decision decision;

    // What lies behind it, in this order; `receipt_size` counts all.
    uint32_t
        rival_count; // the best of the others, best first; none of them where decisions are many
    uint32_t sampled_count; // keys
    uint32_t depth_count;   // keys
    uint16_t id_size;       // texts, each without an end mark
    uint16_t model_size;
    uint16_t url_size; // of the backend
    uint16_t path_size;
};

// The parts behind a receipt, wherever it lies.
struct receipt_parts {
    const struct decision_party *rivals;
    const uint64_t *sampled;
    const uint64_t *depths;
    struct slice id;
    struct slice model;
    struct slice url;
    struct slice path;
};

// Bytes of the receipt with all that is behind it, in whole words; at most receipt_size_max.
size_t receipt_size(const struct receipt *receipt);
void receipt_parts(const struct receipt *receipt, struct receipt_parts *out);

// Writes the receipt with its parts to `to`, which has receipt_size(receipt) bytes and is aligned as a word.
// The counts and sizes in `receipt` are those of the parts.
void receipt_write(const struct receipt *receipt, const struct receipt_parts *parts, void *to);

enum {
    receipt_size_max = sizeof(struct receipt) + decision_rival_max * sizeof(struct decision_party) +
                       (receipt_sampled_max + receipt_depth_max) * sizeof(uint64_t) +
                       (size_t)4 * receipt_text_max,
};

// Whether somebody should know: it was not answered, and the request was not at fault.
static inline bool receipt_has_failed(const struct receipt *receipt)
{
    return receipt->outcome == RECEIPT_BUSY || receipt->outcome == RECEIPT_FAILED ||
           receipt->outcome == RECEIPT_BROKEN || receipt->outcome == RECEIPT_REFUSED;
}

// NULL: nothing was decided.
static inline const char *receipt_policy_name(const struct receipt *receipt)
{
    return receipt->decision.policy != NULL ? receipt->decision.policy->name : NULL;
}

// Whether it was measured what the router itself took.
static inline bool receipt_is_timed(const struct receipt *receipt)
{
    return receipt->stage_ns[RECEIPT_STAGE_PARSE] > 0;
}

// Milliseconds until the first token, and between the tokens after it; negative: not known.
double receipt_ttft_ms(const struct receipt *receipt);
double receipt_tpot_ms(const struct receipt *receipt);
