// SPDX-License-Identifier: Apache-2.0
//
// output.h -- whether a response has output, so far and when it is complete.
//
// An engine that fails may still send a role, an empty choice or an empty document before its
// error, or without one.  None of these is output by itself.
#pragma once

#include "api/response_body.h"

struct output {
    bool has_answer; // text, a token or usage has come, and no error in its place
    bool has_choice; // or a role, an empty text, an empty list of items
    bool has_error;
    bool has_usage;
};

// One event of a stream, or the whole document.
void output_note(struct output *output, enum prompt_api api, const struct response_event *event);

// Whether the complete response holds output: an answer, or without an error a choice that ends at
// once or usage.
bool output_is_given(const struct output *output);
