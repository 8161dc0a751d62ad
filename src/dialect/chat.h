// SPDX-License-Identifier: Apache-2.0
//
// chat.h -- from the body of a chat request to the variables of the chat template.
//
// Each engine changes a request in its own way before its template sees it: texts are joined,
// contents become lists, arguments of tool calls become objects, tools pass through a typed model.
// We repeat those changes, so that the same template gives the same text.
//
//     body  {"messages": [...], "tools": [...], "chat_template_kwargs": {...}}
//     out   {messages, tools, documents, add_generation_prompt, bos_token, ..., kwargs}
//
// Bodies of /v1/chat/completions, and of the engines' /tokenize with messages.
//
// A request is refused, and then routed without token ids, if it depends on more than the body
// (images, continue_final_message), if a part of it is not implemented, or if releases of the
// engine treat it differently.  Requests that the engine rejects may be accepted here: they have no
// ids.  Engines are followed as of vLLM 0.32 and SGLang 0.5.23.
//
// Threads: pure.  Memory: values lie in the arena of the room, or in the body, or in the rules.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "dialect/tokenizer_config.h"
#include "template/value/value.h"

// PLAIN and TRTLLM take messages and tools as they are, like apply_chat_template of transformers.
enum dialect_engine { DIALECT_VLLM, DIALECT_SGLANG, DIALECT_TRTLLM, DIALECT_PLAIN };

// The features that a request uses.  A model is certified for each; a request has token ids when
// all features that it uses are certified.
#define CHAT_SHAPE_MAP(X)                                                                          \
    X(PLAIN, "plain")                 /* every request */                                          \
    X(SYSTEM, "system")               /* a system message */                                       \
    X(DEVELOPER, "developer")         /* a developer message */                                    \
    X(TURNS, "turns")                 /* an assistant message */                                   \
    X(IRREGULAR, "irregular")         /* roles that do not alternate, or end with the assistant */ \
    X(EMPTY, "empty")                 /* a message with empty or no content that calls no tool */  \
    X(PARTS, "parts")                 /* content as a list of texts */                             \
    X(TOOLS, "tools")                 /* a list of tools */                                        \
    X(TOOL_EXTRAS, "tool_extras")     /* a tool with more than name, description, parameters */    \
    X(TOOL_CALLS, "tool_calls")       /* an assistant that calls a tool */                         \
    X(TOOL_RESULTS, "tool_results")   /* the result of a tool */                                   \
    X(REASONING, "reasoning")         /* thoughts of the assistant in the history */               \
    X(NAMES, "names")                 /* a message with a name */                                  \
    X(KWARGS, "kwargs")               /* chat_template_kwargs */                                   \
    X(EFFORT, "effort")               /* reasoning_effort, which vLLM's /tokenize does not know */ \
    X(DOCUMENTS, "documents")         /* documents, the same */                                    \
    X(NO_GENERATION, "no_generation") /* add_generation_prompt is false */                         \
    X(SPACE, "space")                 /* content that begins or ends with white space */           \
    X(SPECIAL, "special") /* content with "<" and ">" around a word: maybe a special token */      \
    X(COMPLETION, "completion") /* not a chat: the text of /v1/completions */

enum chat_shape_bit {
#define X(name, text) CHAT_SHAPE_BIT_##name,
    CHAT_SHAPE_MAP(X)
#undef X
        chat_shape_count
};
enum chat_shape {
#define X(name, text) CHAT_##name##_SHAPE = 1 << CHAT_SHAPE_BIT_##name,
    CHAT_SHAPE_MAP(X)
#undef X
};

const char *chat_shape_text(enum chat_shape_bit bit);

// A feature at fault is not known when a request with several differs: blame all but PLAIN, which
// every request uses.
static inline uint32_t chat_shape_blamed(uint32_t shape)
{
    uint32_t special = shape & ~(uint32_t)CHAT_PLAIN_SHAPE;
    return special != 0 ? special : shape;
}

// The rules of one model, made once.
struct chat_rules {
    enum dialect_engine engine;
    bool content_is_list; // contents are lists of parts (template_loops_over_content)
    bool knows_developer; // the template names the role
    const struct tokenizer_config_token *tokens;
    uint32_t token_count;
    struct slice kwargs; // --default-chat-template-kwargs: an object, or empty
    // Whether the template reads that variable: vLLM passes no others.  NULL: it may read any.
    bool (*reads)(const void *owner, struct slice variable);
    const void *owner;
};

struct chat {
    const struct value_dict *variables;
    bool has_tools;
    uint32_t shape; // of enum chat_shape
};

// MALFORMED: a chat request that we cannot follow; `room->error` says why.  TOO_LARGE: the arena is
// full.  `out` keeps the body and the rules.
enum status chat_read(const struct chat_rules *rules, struct slice body, struct value_room *room,
                      struct chat *out);
