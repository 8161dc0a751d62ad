// SPDX-License-Identifier: Apache-2.0
//
// certify_suite.h -- the requests that a model is certified with: our ids for each are compared
// with the engine's own.
//
// Every feature of a chat is in one case alone, or with as few others as possible, and in other
// cases together with the features that accompany it in practice.  The texts are hard for
// tokenizers: scripts, combining marks, runs of white space, digits, code, emoji, special tokens.
//
// A case has the members of a request without the braces, so that the sender can add the model and
// other members that an endpoint requires:
//
//     {"model":"m",<members of the case>}
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct certify_case {
    const char *name;    // unique, for reports
    const char *members; // the members: "messages":[...], "tools":[...], ...; or "prompt":"..."
    bool is_completion;  // has a prompt, no messages: special tokens are added
    bool is_chat_only;   // has a member that vLLM's /tokenize does not know, and ignores
};

uint32_t certify_case_count(void);
const struct certify_case *certify_case(uint32_t index);
