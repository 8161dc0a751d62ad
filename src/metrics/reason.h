// SPDX-License-Identifier: Apache-2.0
//
// reason.h -- why a request went to its backend, in one English sentence.
//
//     warm chose http://a, which holds 960 of 978 prompt tokens and has nothing queued: first token
//     in about 4 ms; the next best, http://b, holds none of them and would take about 30 ms.
//
// It says only what was known when the decision was made.  A rival that holds more of the prompt is
// named before the next best one: the reader wants to know why its cache was not used.
#pragma once

#include "base/slice.h"
#include "base/text.h"
#include "policy/decision.h"

#include <stdint.h>

struct reason_party {
    const struct decision_party *party; // NULL: there is none
    struct slice url;                   // empty: it has left the fleet
};

struct reason {
    const struct decision *decision;
    uint32_t prompt_tokens; // 0: no prompt was found
    uint32_t attempts;      // this one included
    bool is_local;          // the router responded itself, with data of its own
    const char *problem;    // the code of its own error response, or NULL
    struct slice url;       // of the chosen backend

    // By reason_add_rival.
    struct reason_party next;    // the best rival
    struct reason_party fullest; // the rival that holds most of the prompt
};

// Keeps the party.  Among equal rivals the first one counts.
void reason_add_rival(struct reason *reason, const struct decision_party *party, struct slice url);

void reason_write(const struct reason *reason, struct text *out);
