// SPDX-License-Identifier: Apache-2.0
//
// receipt.h -- the record of one request: what was known, what was decided, how it ended.  The
// request log, traces, the list of decisions and the estimate of another policy are all made from
// receipts.
//
//     worker:  exchange ends -> receipt -> meters (counted at once, never lost)
//                                  |
//                                  +----> ring of the worker -> scribe -> log, traces, chronicle
//
// It contains no text of a prompt, and nothing that identifies text: keys are hashes with a secret
// seed (prefix/prefix_chain.h).
#pragma once

#include "base/slice.h"
#include "policy/decision.h"

#include <stdbool.h>
#include <stdint.h>

enum receipt_outcome {
#define OUTCOME(id, name, is_failure, help) RECEIPT_##id,
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
    // Keys of the prompt with (key & (receipt_sample - 1)) == 0, up to receipt_sampled_max.
    receipt_sample = 16,
    receipt_sampled_max = 64,
    // The keys of the first 1, 2, 4 … 8192 blocks.
    receipt_depth_max = 14,
    // Longer texts are cut.
    receipt_text_max = 128,
};

struct receipt {
    // Identity.
    uint64_t id_hash;  // of the whole request id
    uint64_t number;   // of the worker's requests; with `worker` it is unique
    uint64_t wall_us;  // when the first byte arrived, since 1970
    uint64_t trace[2]; // W3C: the trace's id; 0, 0: not traced
    uint64_t span;     // ours
    uint64_t parent;   // the caller's; 0: none
    bool is_sampled;   // to be exported
    uint32_t worker;

    // The end.
    enum receipt_outcome outcome;
    uint16_t status;     // as the client saw it; 0: none
    const char *problem; // the code of the router's own error response (a constant), or NULL
    uint32_t attempts;
    uint64_t request_bytes;  // of the body
    uint64_t response_bytes; // sent to the client, heads included
    bool is_streamed;
    bool is_announced; // an earlier receipt was sent while it ran

    // Times, in microseconds since the first byte; 0: it did not happen.
    uint64_t complete_us;                   // the request was complete
    uint64_t sent_us;                       // the last attempt was given to its connection
    uint64_t head_us;                       // the response head had arrived
    uint64_t first_us;                      // the first token had; streams only
    uint64_t last_us;                       // the last token had
    uint64_t end_us;                        // the request ended
    uint32_t stage_ns[RECEIPT_STAGE_COUNT]; // all attempts together

    // Tokens.
    uint32_t prompt_tokens; // as the engine reports; until then as counted or estimated here
    uint32_t cached_tokens; // as the engine reports
    uint32_t output_tokens;
    uint32_t block_tokens;  // of one key
    bool has_cached_tokens; // the engine has reported cached_tokens
    uint64_t saved_us;      // time that computing the cached tokens would have taken there
    float token_ms;         // time for one more uncached token there, as learned

    // Of the last attempt; chosen.backend 0: no backend was chosen.
    struct decision decision;

    // The parts behind the struct, in this order; receipt_size includes them.
    uint32_t rival_count;   // best first; 0 when there are too many decisions per second
    uint32_t sampled_count; // keys
    uint32_t depth_count;   // keys
    uint16_t id_size;       // texts, without a NUL
    uint16_t model_size;
    uint16_t url_size; // of the backend
    uint16_t path_size;
};

// The parts behind a receipt.
struct receipt_parts {
    const struct decision_party *rivals;
    const uint64_t *sampled;
    const uint64_t *depths;
    struct slice id;
    struct slice model;
    struct slice url;
    struct slice path;
};

// Bytes of the receipt and its parts, in whole words; at most receipt_size_max.
size_t receipt_size(const struct receipt *receipt);
void receipt_parts(const struct receipt *receipt, struct receipt_parts *out);

// Writes the receipt with its parts to `to`, which has receipt_size(receipt) bytes and is aligned
// as a word.  The counts and sizes in `receipt` are those of the parts.
void receipt_write(const struct receipt *receipt, const struct receipt_parts *parts, void *to);

enum {
    receipt_size_max = sizeof(struct receipt) + decision_rival_max * sizeof(struct decision_party) +
                       (receipt_sampled_max + receipt_depth_max) * sizeof(uint64_t) +
                       (size_t)4 * receipt_text_max,
};

// Whether the outcome is the fault of the router or of a backend.
bool receipt_has_failed(const struct receipt *receipt);

// NULL: nothing was decided.
static inline const char *receipt_policy_name(const struct receipt *receipt)
{
    return receipt->decision.policy != NULL ? receipt->decision.policy->name : NULL;
}

// Whether the stages were measured.
static inline bool receipt_is_timed(const struct receipt *receipt)
{
    return receipt->stage_ns[RECEIPT_STAGE_PARSE] > 0;
}

// Milliseconds; NAN: unknown.
double receipt_ttft_ms(const struct receipt *receipt);      // until the first token
double receipt_tpot_ms(const struct receipt *receipt);      // between the tokens after it
double receipt_total_ms(const struct receipt *receipt);     // until the end
double receipt_predicted_ms(const struct receipt *receipt); // until the first token, by the policy
