// SPDX-License-Identifier: Apache-2.0
//
// reason.h -- why a request went where it went, in one English sentence.
//
//     warm chose http://a, which holds 960 of 978 prompt tokens and has nothing queued: first token in about
//     4 ms; the next best, http://b, holds none of them and would take about 30 ms.
//
// It says only what was known when the decision was made.  A rival that holds more of the prompt is named
// before the next best one: who sees a cache passed over wants to know why.
#pragma once

#include "base/slice.h"
#include "base/text.h"

#include <stdint.h>

// A candidate as it looked then.
struct reason_party {
    struct slice url;         // empty: it is gone, and nobody knows its name any more
    uint32_t expected_tokens; // of the prompt, that it would have cached
    uint32_t running_requests;
    uint64_t queued_tokens;
    double predicted_ms; // until the first token; NAN: not known
    double cost;         // by the policy's own measure; NAN: it has none
};

struct reason {
    const char *policy;     // NULL: nothing was decided
    bool reads_prompt;      // the policy does
    bool by_events;         // KV events report what the chosen one holds; otherwise it is believed
    bool is_local;          // the router had the answer itself
    const char *problem;    // what the router said in its own name, or NULL
    uint32_t prompt_tokens; // 0: no prompt was found
    uint32_t candidate_count; // the chosen one included
    uint32_t attempts;        // that one included
    struct reason_party chosen;

    // By reason_add_rival.
    uint32_t rival_count;
    struct reason_party next;    // the best of them
    struct reason_party fullest; // that holds the most
};

// One of those that were not chosen; among equals the first counts.
void reason_add_rival(struct reason *reason, const struct reason_party *rival);

void reason_write(const struct reason *reason, struct text *out);
