// SPDX-License-Identifier: Apache-2.0
//
// chat_internal.h -- how chat requests are read, and where engines differ.
//
//     chat.c          the body: its members, tools, kwargs -> variables
//     chat_message.c  a message: its members and parts, the same for all engines
//     chat_vllm.c, chat_sglang.c   how an engine changes messages, tools and kwargs
//     chat_shape.c    which features the request uses
#pragma once

#include "dialect/chat.h"
#include "json/json.h"

// The index of a text in a list of names; `count`: not among them.
uint32_t chat_name_find(const char *const *names, uint32_t count, struct slice text);
// The same for a key as json.h handed it out, with escapes.
uint32_t chat_key_find(const char *const *names, uint32_t count, struct slice key);

// Members of a body.  UNFOLLOWED ones change the prompt in ways that we do not follow, unless they
// are null or false.
#define CHAT_FIELD_MAP(FOLLOWED, UNFOLLOWED)                                                       \
    FOLLOWED(MESSAGES, "messages")                                                                 \
    FOLLOWED(TOOLS, "tools")                                                                       \
    FOLLOWED(TOOL_CHOICE, "tool_choice")                                                           \
    FOLLOWED(DOCUMENTS, "documents")                                                               \
    FOLLOWED(GENERATION, "add_generation_prompt")                                                  \
    FOLLOWED(KWARGS, "chat_template_kwargs")                                                       \
    FOLLOWED(EFFORT, "reasoning_effort")                                                           \
    FOLLOWED(REASONING, "reasoning")                                                               \
    FOLLOWED(TRANSFER, "kv_transfer_params")                                                       \
    UNFOLLOWED(CONTINUE, "continue_final_message")                                                 \
    UNFOLLOWED(SPECIAL_TOKENS, "add_special_tokens")                                               \
    UNFOLLOWED(TEMPLATE, "chat_template")                                                          \
    UNFOLLOWED(INPUT_IDS, "input_ids")                                                             \
    UNFOLLOWED(TOKEN_IDS, "prompt_token_ids")                                                      \
    UNFOLLOWED(TRUNCATE, "truncate_prompt_tokens")                                                 \
    UNFOLLOWED(SESSION, "session_params")

enum chat_field {
#define X(name, text) CHAT_FIELD_##name,
    CHAT_FIELD_MAP(X, X)
#undef X
        chat_field_count
};

// Members of a message.
#define CHAT_KEY_MAP(X)                                                                            \
    X(ROLE, "role")                                                                                \
    X(CONTENT, "content")                                                                          \
    X(NAME, "name")                                                                                \
    X(TOOL_CALLS, "tool_calls")                                                                    \
    X(TOOL_CALL_ID, "tool_call_id")                                                                \
    X(REASONING, "reasoning")                                                                      \
    X(REASONING_CONTENT, "reasoning_content")                                                      \
    X(TASK, "task")                                                                                \
    X(TOOLS, "tools")                                                                              \
    X(PHASE, "phase")                                                                              \
    X(PREFIX, "prefix")

enum chat_key {
#define X(name, text) CHAT_KEY_##name,
    CHAT_KEY_MAP(X)
#undef X
        chat_key_count
};

// A missing member is UNDEFINED, a null one NONE.  The role is a string; the content a string, or a
// list of strings: the texts of its parts; calls and tools are lists; phase and prefix are true if
// they are set; all others are strings.
struct chat_message {
    struct value values[chat_key_count];
};

static inline bool chat_is_given(const struct value *value)
{
    return value->kind > VALUE_NONE;
}

// UNDEFINED instead of NONE.
static inline struct value chat_given(struct value value)
{
    return chat_is_given(&value) ? value : (struct value){0};
}

static inline struct value chat_word(const char *text)
{
    return value_string(slice_str(text));
}

// A list that grows.
struct chat_values {
    struct value *items;
    uint32_t count;
    uint32_t capacity;
};

// The order of the messages so far.
struct chat_turns {
    uint32_t system_count; // system and developer messages
    uint32_t turn_count;   // the others
    struct slice last_role;
    bool last_calls; // the last message called tools
    bool has_developer;
};

struct chat_walk {
    const struct chat_rules *rules;
    struct value_room *room;
    struct json json;
    struct json_value fields[chat_field_count];
    struct chat_values messages;
    struct chat_values parts; // of the content that is being read
    bool has_part_members;    // some part has more than a type and a text
    uint32_t shape;
    struct chat_turns turns;
};

bool chat_push(struct chat_walk *walk, struct chat_values *values, struct value value);
bool chat_list_of(struct chat_walk *walk, const struct chat_values *values, struct value *out);

// A string that json.h handed out, unescaped; in place when it has no escapes.
bool chat_string(struct chat_walk *walk, struct slice raw, struct value *out);

// A list of the results of `make` for each item.
typedef bool chat_make_fn(struct chat_walk *walk, const struct value *item, struct value *out);
bool chat_map(struct chat_walk *walk, const struct value_list *list, chat_make_fn *make,
              struct value *out);

// A dict of these members in this order, without those that are UNDEFINED.
struct chat_member {
    const char *key;
    struct value value;
};
bool chat_dict_of(struct chat_walk *walk, const struct chat_member *members, uint32_t count,
                  struct value *out);

// {"type": "text", "text": text} of a string.
bool chat_text_part(struct chat_walk *walk, const struct value *text, struct value *out);
// A content as the template sees it: a list of parts, or its texts joined; "" without a text.
bool chat_content(struct chat_walk *walk, const struct value *content, bool keeps_parts,
                  const char *separator, bool skips_empty, struct value *out);
// The strings of a list with the separator between them; empty ones count unless `skips_empty`.
bool chat_join(struct chat_walk *walk, const struct value_list *list, const char *separator,
               bool skips_empty, struct value *out);

// Reads the members of the message whose object `json` has entered.
bool chat_message_read(struct chat_walk *walk, struct json *json, struct chat_message *out);

// Adds the features of a message to the shape.
void chat_shape_note(struct chat_walk *walk, const struct chat_message *message);
// Adds the features of all messages together.
void chat_shape_end(struct chat_walk *walk);
// Adds the features of the tools in the body.
void chat_shape_note_tools(struct chat_walk *walk, const struct value_list *tools);

// A dict with room for `capacity` members that is filled one by one.
struct chat_dict {
    struct value_dict *dict;
    uint32_t capacity;
};
bool chat_dict_begin(struct chat_walk *walk, uint32_t capacity, struct chat_dict *out);
void chat_dict_append(struct chat_dict *dict, struct slice key, struct value value);
// The same for a key that may be there: its value is replaced.
void chat_dict_put(struct chat_dict *dict, struct slice key, struct value value);
struct value chat_dict_end(const struct chat_dict *dict);

bool chat_reads(const struct chat_walk *walk, struct slice variable);
// Notes why the request is refused; returns false.
bool chat_refuse(struct chat_walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Without reserved keys: arguments of apply_chat_template and functions of templates.
struct chat_kwargs {
    const struct value_dict *defaults; // of the engine's command line
    const struct value_dict *given;    // in the body
};
// Most variables that a maker adds to these.
enum { chat_kwargs_extra_max = 3 };

// Puts all of them into the variables.
void chat_kwargs_put(const struct value_dict *kwargs, struct chat_dict *variables);

// The differences between engines.
struct chat_maker {
    // Makes the message that the template sees.  NULL: as it is in the body.
    bool (*message)(struct chat_walk *walk, const struct chat_message *message, struct value *out);
    // Changes the messages when all are made.  NULL: no change.
    bool (*finish)(struct chat_walk *walk);
    // Makes the tools that the template sees; NONE: no tools.
    bool (*tools)(struct chat_walk *walk, const struct value_list *tools, struct value *out);
    // Puts the variables that defaults, chat_template_kwargs and reasoning_effort set.
    bool (*kwargs)(struct chat_walk *walk, const struct chat_kwargs *kwargs,
                   struct chat_dict *variables);
    bool has_documents;    // the engine reads `documents` of the body
    bool obeys_generation; // the engine reads add_generation_prompt
};
extern const struct chat_maker chat_vllm;
extern const struct chat_maker chat_sglang;

// A member of a dict; UNDEFINED when it is missing.
struct value chat_get(const struct value_dict *dict, const char *key);
// The same, but NONE when it is missing; refuses other kinds than `kind` and NONE.
bool chat_get_of_kind(struct chat_walk *walk, const struct value_dict *dict, const char *key,
                      enum value_kind kind, struct value *out);
// The function of a tool, or of a call; NULL: it has none, and the request is refused.
const struct value_dict *chat_function_of(struct chat_walk *walk, const struct value *tool);
// The function of a tool with these members in this order; missing ones are NONE, except for
// `strict`, which is left out.
enum { chat_function_key_count = 4 };
bool chat_function_make(struct chat_walk *walk, const struct value_dict *given,
                        const char *const order[chat_function_key_count], struct value *out);
// reasoning_effort of the body: a string, or NONE.
bool chat_effort(struct chat_walk *walk, struct value *out);
