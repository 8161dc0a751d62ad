// SPDX-License-Identifier: Apache-2.0
//
// answer.h -- what an engine's answer says: its text, which the engine now has in its cache, and what
// it counted.
//
// A streamed answer is read event by event, one that is not streamed as a whole.  Both are JSON and
// both are foreign: what is not understood says nothing, and never disturbs the answer itself.
#pragma once

#include "api/prompt.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct answer_usage {
    bool has_prompt_tokens;
    bool has_cached_tokens; // a number was given: null and absent are not zero
    uint64_t prompt_tokens; // cached ones included
    uint64_t cached_tokens;
    uint64_t completion_tokens;
};

struct answer_event {
    bool has_output;    // text, a tool call or a token of the answer
    bool is_usage_only; // usage and no choice: the chunk that include_usage asks for
    bool is_error;      // the engine broke off in the middle
    bool is_last;       // [DONE], or the API's own last event
    // Chat and completions only: the role alone is output, but no token; reasoning is one, but no text.
    bool has_token;
    struct slice text; // of the first choice, as it stands in the JSON
    struct answer_usage usage;
};

// `data` is the data of one server-sent event, `chain` NULL or what the answer's text extends: it has
// passed prompt_begin_answer where the API has turns, which completions and generate have not.  Only
// the first choice's text counts, and none of a stream of generate, which repeats itself.
void answer_read_event(enum prompt_api api, struct slice data, struct prefix_chain *chain,
                       struct answer_event *out);

// A whole JSON answer.
void answer_read_body(enum prompt_api api, struct slice body, struct prefix_chain *chain,
                      struct answer_event *out);
