// SPDX-License-Identifier: Apache-2.0
//
// decision.h -- why a request went to its backend: the state of that backend, and the prediction.
//
// Route writes it once for each attempt, in place: into the receipt of the request, where it stays.
// Feedback, the decision header, the request log, metrics and /explain read it there.
#pragma once

#include "policy/policy.h"

#include <math.h>

// The best of the candidates that were not chosen.
enum { decision_rival_max = 4 };

// A backend as it looked at that moment.
struct decision_party {
    uint64_t backend; // its id; 0: none was chosen
    uint32_t slot;    // in the fleet
    uint32_t running_requests;
    uint64_t queued_tokens; // uncached prompt tokens of requests that wait for their first token

    // Of the prompt.
    uint32_t matched_blocks;   // believed to be in its cache
    uint32_t matched_tokens;   // in these blocks
    uint32_t confirmed_tokens; // of the matched ones, confirmed by the engine
    uint32_t reported_tokens;  // that its KV events report
    uint32_t host_tokens;      // of the reported ones, in host memory and not on the GPU
    uint32_t disk_tokens;      // and on disk only
    uint32_t expected_tokens;  // that its response will report as cached
    uint32_t age;              // of the matched blocks (prefix_index.h)
    bool by_events;            // the holding comes from KV events, which are live

    // Predictions; 0 if the policy does not read prompts.
    float wait_ms;    // until the prefill of this prompt starts
    float prefill_ms; // of this prompt
    // The speeds in these predictions; 0 as well.
    float token_ms; // prefill of one token
    float step_ms;  // between two output tokens
    float cost;     // in the policy's own unit; NAN: the policy ranks nothing
};

struct decision {
    const struct policy *policy; // NULL: no decision was made
    uint32_t pool;
    uint32_t candidate_count;
    uint32_t prompt_tokens; // counted, or estimated, before the request was sent
    uint32_t prompt_blocks;
    uint32_t session_slot; // that served its session last; UINT32_MAX: unknown
    struct decision_party chosen;
};

// Time to the first token; NAN: the policy does not predict.
static inline double decision_predicted_ms(const struct decision *decision,
                                           const struct decision_party *party)
{
    bool predicts = decision->policy != NULL && decision->policy->reads_prompt;
    return predicts ? (double)(party->wait_ms + party->prefill_ms) : (double)NAN;
}
