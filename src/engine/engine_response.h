// SPDX-License-Identifier: Apache-2.0
//
// engine_response.h -- writes the responses of a simulated engine, in OpenAI's format with vLLM's
// details.
//
// A token is four bytes of text that are derived from the prompt.  The same prompt gets the same
// response, and the next turn of a conversation repeats cached blocks.
//
// Pure.
#pragma once

#include "api/prompt.h"
#include "base/slice.h"

struct text;

struct engine_response {
    enum prompt_api api; // chat or completion
    const char *model;   // as the request named it
    uint64_t number;     // of the request
    uint64_t created_s;
    uint64_t text_id; // see content_text
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t output_tokens; // made so far; all of them in documents and usage
    bool is_limited;        // it ended because it was as long as it may be
};

// The data of one server-sent event, the blank line behind it included: token number `token`,
// before which the first one says the role; the last one says why it was the last.
void engine_response_event(const struct engine_response *response, uint32_t token, bool is_last,
                           struct text *out);
// How many tokens there were; its own event, before the one that says that all is done.
void engine_response_usage_event(const struct engine_response *response, struct text *out);
void engine_response_done_event(struct text *out);

// The whole response.  Needs engine_response_document_room(output_tokens) bytes.
void engine_response_document(const struct engine_response *response, struct text *out);
uint64_t engine_response_document_room(uint64_t output_tokens);

void engine_response_error(uint32_t status, const char *message, struct text *out);

// `parent` is NULL, or the model that it is an adapter of.
struct engine_model {
    const char *name;
    const char *parent;
};
void engine_response_models(const struct engine_model *models, uint32_t model_count,
                            uint64_t context_max, uint64_t created_s, struct text *out);
