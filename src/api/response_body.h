// SPDX-License-Identifier: Apache-2.0
//
// response_body.h -- reads an engine's response: its text, which the engine now has in its cache,
// its usage, and errors.
//
// A stream is read event by event, any other response as a whole.  Both are JSON of a peer:
// anything that is not understood is ignored, and the response passes unchanged.
#pragma once

#include "api/prompt.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct response_usage {
    bool has_prompt_tokens;
    bool has_cached_tokens; // a number was given: null and absent are not zero
    uint64_t prompt_tokens; // cached ones included
    uint64_t cached_tokens;
    uint64_t completion_tokens;
};

struct response_event {
    bool has_output;    // text, a tool call or a token
    bool has_list;      // responses and messages: where output goes, though it may be empty
    bool is_usage_only; // usage without a choice: the chunk that include_usage asks for
    bool is_error;      // the engine broke off in the middle
    bool is_last;       // [DONE], or the API's own last event
    // Chat and completions only: a role alone is output but not a token; reasoning is a token but
    // not text.
    bool has_token;
    struct slice text; // of the first choice, as it stands in the JSON
    struct response_usage usage;
};

// `data` is the data of one server-sent event.  `chain` is NULL, or the chain that the response's
// text extends: it has passed prompt_begin_answer where the API has turns, which completions and
// generate have not.  Only the first choice's text counts, and none of a stream of generate, whose
// events repeat the text.
void response_read_event(enum prompt_api api, struct slice data, struct prefix_chain *chain,
                         struct response_event *out);

// A whole JSON response.
void response_read_body(enum prompt_api api, struct slice body, struct prefix_chain *chain,
                        struct response_event *out);
