// SPDX-License-Identifier: Apache-2.0
//
// prompt.h -- what a request's body says: whom it is for, and the prompt as the engine will see it.
//
// One pass over the JSON text notes where the pieces of the prompt lie; nothing is copied.  Then
// the pieces are hashed in the order in which chat templates place them, whatever their order in
// the body: tools, system, then the turns with their roles.  Images count by a hash of their bytes
// or address.
//
//     body   {"messages":[{"role":"user","content":"Hi"}],"tools":[...],"model":"m"}
//     chain  seed(model, adapter, salt) | tools | user | Hi | ...
//
// A body that is not understood has no pieces and is routed by load alone; the engine reports what
// is wrong with it.
//
// Threads: a reader belongs to one thread.  Memory: taken by prompt_reader_create; reading
// allocates nothing.  Slices of struct prompt lie in the body or in the reader, until its next use.
#pragma once

#include "base/slice.h"
#include "prefix/prefix_chain.h"

#include <stdbool.h>
#include <stdint.h>

enum prompt_api {
    PROMPT_OTHER, // any other path: only `model` and `user` are looked for
    PROMPT_CHAT,
    PROMPT_COMPLETION,
    PROMPT_RESPONSES,
    PROMPT_EMBEDDING,
    PROMPT_MESSAGES, // Anthropic's
    PROMPT_GENERATE, // SGLang's own
};

enum prompt_form {
    PROMPT_NOTHING, // not understood, or nothing to reuse (embeddings)
    PROMPT_TEXT,
    PROMPT_TOKENS, // the client sent ids
};

struct prompt {
    enum prompt_api api;
    enum prompt_form form;
    struct slice model;   // empty when the body names none
    struct slice adapter; // where it is named apart from the model
    struct slice salt;
    struct slice session;  // session_id, session_params.session_id, prompt_cache_key, user
    uint64_t text_size;    // PROMPT_TEXT: bytes of the prompt as hashed
    uint64_t token_count;  // PROMPT_TOKENS
    uint64_t output_max;   // max_tokens and its other names; 0 when not given
    uint32_t sequences;    // n or best_of, at least 1; for a list of prompts, its length times that
    uint32_t turns;        // messages of the assistant
    uint64_t history_size; // bytes (or 0) of the prompt before the last message of the assistant
    bool has_tools;        // a list of them that is not empty
    bool stream;
    bool wants_usage; // stream_options.include_usage is true

    // The place for `usage_text` in the body, so that a stream ends with its usage; usage_text is
    // NULL when nothing needs to be asked or the client said no.
    size_t usage_at;
    size_t usage_over; // bytes of the body that it takes the place of
    const char *usage_text;

    // The place for further members in the body's object, which is not empty, and the text of a
    // prompt that is one string, with its quotes; all 0 where there is none.
    size_t inside_at;
    size_t literal_at;
    size_t literal_size;
};

struct prompt_reader;

// The result of one pass over a body.  It can be hashed as often as needed, until the body goes or
// the reader reads another one.
struct reading {
    struct prompt prompt;
    struct prompt_reader *reader; // NULL: the body is empty
};

// For callers that keep readers in memory of their own.
size_t prompt_reader_size(void);

// NULL when memory is short.
struct prompt_reader *prompt_reader_create(void);
void prompt_reader_destroy(struct prompt_reader **reader);

// By the path of the request, query included or not.
enum prompt_api prompt_api_of(struct slice path);

// Any body.  Members that are not understood leave their field empty.
void prompt_read(struct prompt_reader *reader, enum prompt_api api, struct slice body,
                 struct prompt *out);

// Hashes the pieces that the last prompt_read noted into the chain, which has been begun with the
// right seed and block size (see prompt->form).  `body` and `prompt` are those of that call.
void prompt_hash(struct prompt_reader *reader, const struct prompt *prompt,
                 struct prefix_chain *chain);

// Adds what the engine's template puts between prompt and response, in the form that prompt_hash
// gives to a turn of the assistant.  Then text of the response can follow, and the next request,
// which repeats it as a message, has the same keys.
void prompt_begin_answer(struct prefix_chain *chain);

// The same for one tool call of the response, before its arguments.
void prompt_begin_tool_call(struct prefix_chain *chain, struct slice raw_name);

// A JSON string's text, unescaped, into the chain.
void prompt_add_string(struct prefix_chain *chain, struct slice raw);
