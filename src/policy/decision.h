// SPDX-License-Identifier: Apache-2.0
//
// decision.h -- why a request went where it went: what was known of the chosen backend, and what was
// predicted.
//
// Route writes it once for each attempt, in place: into the receipt of the request, where it stays.
// Learning, the decision header, the request log, metrics and /explain read it there.
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
    uint32_t matched_blocks;   // that it is believed to hold
    uint32_t matched_tokens;   // in these blocks
    uint32_t confirmed_tokens; // of the matched ones, those that the engine has shown to have
    uint32_t reported_tokens;  // that its KV events report
    uint32_t host_tokens;      // of the reported ones, in host memory and not on the GPU
    uint32_t disk_tokens;      // and on disk only
    uint32_t expected_tokens;  // that its response will report as cached
    uint32_t age;              // of the matched blocks (prefix_index.h)
    bool by_events;            // the holding comes from KV events, which are live

    // Predictions; 0 if the policy does not read prompts.
    float wait_ms;    // before its own prompt is begun
    float prefill_ms; // for its own prompt
    float cost;       // by the policy's own measure; NAN: it has none
};

struct decision {
    const struct policy *policy; // NULL: nothing was decided
    uint32_t pool;
    uint32_t candidate_count;
    uint32_t prompt_tokens; // as counted or estimated before the request was sent
    uint32_t prompt_blocks;
    uint32_t session_slot; // where its session was before; UINT32_MAX: nowhere
    struct decision_party chosen;
};

// Until the first token; NAN: the policy does not predict.
static inline double decision_predicted_ms(const struct decision *decision,
                                           const struct decision_party *party)
{
    bool predicts = decision->policy != NULL && decision->policy->reads_prompt;
    return predicts ? (double)(party->wait_ms + party->prefill_ms) : (double)NAN;
}
