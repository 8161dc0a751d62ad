// SPDX-License-Identifier: Apache-2.0
//
// One pass over the body.  Messages are made as they are read, since no other member of a body
// changes them; the other members are kept until the end.

#include "dialect/chat.h"

#include "base/base.h"
#include "dialect/chat_internal.h"

static const char *const body_names[] = {
#define X(name, text) text,
    CHAT_FIELD_MAP(X, X)
#undef X
};
enum { chat_field_unfollowed = CHAT_FIELD_CONTINUE }; // the first of them

// Arguments of apply_chat_template and functions of templates cannot be variables.
static const char *const reserved_kwargs[] = {
    "add_generation_prompt",
    "chat_template",
    "continue_final_message",
    "conversation",
    "cycler",
    "dict",
    "joiner",
    "lipsum",
    "max_length",
    "messages",
    "namespace",
    "padding",
    "raise_exception",
    "range",
    "return_assistant_tokens_mask",
    "return_dict",
    "return_tensors",
    "strftime_now",
    "tokenize",
    "tokenizer_kwargs",
    "tools",
    "truncation",
};

// chat_dict_put is linear in the number of members.
enum { kwargs_count_max = 64 };

static const struct value_dict no_kwargs;

struct value chat_get(const struct value_dict *dict, const char *key)
{
    const struct value *found = value_dict_get(dict, slice_str(key));
    return found != NULL ? *found : value_undefined(slice_str(key));
}

bool chat_get_of_kind(struct chat_walk *walk, const struct value_dict *dict, const char *key,
                      enum value_kind kind, struct value *out)
{
    *out = chat_get(dict, key);
    if (!chat_is_given(out)) {
        *out = value_none();
        return true;
    }
    return out->kind == kind || chat_refuse(walk, "a %s of another kind", key);
}

const struct value_dict *chat_function_of(struct chat_walk *walk, const struct value *tool)
{
    if (tool->kind != VALUE_DICT) {
        (void)chat_refuse(walk, "a tool that is not an object");
        return NULL;
    }
    struct value type = chat_get(tool->dict, "type");
    struct value function = chat_get(tool->dict, "function");
    struct value deferred = chat_get(tool->dict, "defer_loading");
    if (function.kind != VALUE_DICT ||
        (type.kind != VALUE_UNDEFINED &&
         (type.kind != VALUE_STRING || !slice_is(type.string, "function")))) {
        (void)chat_refuse(walk, "a tool that is not a function");
        return NULL;
    }
    struct value function_deferred = chat_get(function.dict, "defer_loading");
    if (chat_is_given(&deferred) || chat_is_given(&function_deferred)) {
        (void)chat_refuse(walk, "a tool with defer_loading");
        return NULL;
    }
    return function.dict;
}

bool chat_function_make(struct chat_walk *walk, const struct value_dict *given,
                        const char *const order[chat_function_key_count], struct value *out)
{
    struct chat_dict made;
    struct value member;

    if (!chat_get_of_kind(walk, given, "name", VALUE_STRING, &member)) {
        return false;
    }
    if (!chat_is_given(&member)) {
        return chat_refuse(walk, "a tool without a name");
    }
    if (!chat_get_of_kind(walk, given, "description", VALUE_STRING, &member) ||
        !chat_get_of_kind(walk, given, "strict", VALUE_BOOL, &member) ||
        !chat_dict_begin(walk, chat_function_key_count, &made)) {
        return false;
    }
    for (uint32_t i = 0; i < chat_function_key_count; i++) {
        member = chat_get(given, order[i]);
        bool is_missing = member.kind == VALUE_UNDEFINED;
        if (chat_is_given(&member) || strcmp(order[i], "strict") != 0) {
            chat_dict_append(&made, slice_str(order[i]), is_missing ? value_none() : member);
        }
    }
    *out = chat_dict_end(&made);
    return true;
}

bool chat_reads(const struct chat_walk *walk, struct slice variable)
{
    const struct chat_rules *rules = walk->rules;
    return rules->reads == NULL || rules->reads(rules->owner, variable);
}

bool chat_effort(struct chat_walk *walk, struct value *out)
{
    const struct json_value *value = &walk->fields[CHAT_FIELD_EFFORT];

    *out = value_none();
    if (json_is_unset(value)) {
        return true;
    }
    if (value->kind != JSON_STRING) {
        return chat_refuse(walk, "a reasoning_effort that is not a text");
    }
    walk->shape |= CHAT_EFFORT_SHAPE;
    return chat_string(walk, value->raw, out);
}

void chat_kwargs_put(const struct value_dict *kwargs, struct chat_dict *variables)
{
    for (uint32_t i = 0; i < kwargs->count; i++) {
        chat_dict_put(variables, kwargs->members[i].key.string, kwargs->members[i].value);
    }
}

static bool plain_tools([[maybe_unused]] struct chat_walk *walk, const struct value_list *tools,
                        struct value *out)
{
    *out = value_of_list(tools);
    return true;
}

static bool plain_kwargs(struct chat_walk *walk, const struct chat_kwargs *kwargs,
                         struct chat_dict *variables)
{
    struct value effort;

    if (!chat_effort(walk, &effort)) {
        return false;
    }
    if (chat_is_given(&effort)) {
        return chat_refuse(walk, "reasoning_effort, which is an engine's");
    }
    walk->shape |= kwargs->given->count > 0 ? CHAT_KWARGS_SHAPE : 0u;
    chat_kwargs_put(kwargs->defaults, variables);
    chat_kwargs_put(kwargs->given, variables);
    return true;
}

static const struct chat_maker chat_plain = {
    .tools = plain_tools,
    .kwargs = plain_kwargs,
    .has_documents = true,
    .obeys_generation = true,
};

static const struct chat_maker *const chat_makers[] = {
    [DIALECT_VLLM] = &chat_vllm,
    [DIALECT_SGLANG] = &chat_sglang,
    [DIALECT_TRTLLM] = &chat_plain,
    [DIALECT_PLAIN] = &chat_plain,
};

// Reads a message twice: for its shape, and as the template sees it.
static bool plain_message(struct chat_walk *walk, struct json_value *value,
                          struct chat_message *message, struct value *made)
{
    if (!json_skip(&walk->json, value)) {
        return false;
    }
    struct json inner = json_inside(value->raw);
    return chat_message_read(walk, &inner, message) &&
           value_from_json(walk->room, value->raw, made);
}

static bool body_message_read(struct chat_walk *walk, const struct chat_maker *maker,
                              struct json_value *value)
{
    struct chat_message message;
    struct value made;

    if (value->kind != JSON_OBJECT) {
        return chat_refuse(walk, "a message that is not an object");
    }
    if (maker->message == NULL) {
        if (!plain_message(walk, value, &message, &made)) {
            return false;
        }
    } else {
        json_enter(&walk->json);
        if (!chat_message_read(walk, &walk->json, &message) ||
            !maker->message(walk, &message, &made)) {
            return false;
        }
    }
    chat_shape_note(walk, &message);
    return chat_push(walk, &walk->messages, made);
}

static bool body_messages_read(struct chat_walk *walk, const struct chat_maker *maker,
                               const struct json_value *value)
{
    struct json_item item;

    if (value->kind != JSON_ARRAY) {
        return chat_refuse(walk, "messages that are not a list");
    }
    // Of duplicate members the last counts.
    walk->messages.count = 0;
    walk->shape = 0;
    walk->turns = (struct chat_turns){0};
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        if (!body_message_read(walk, maker, &item.value)) {
            return false;
        }
    }
    return true;
}

static bool chat_body_read(struct chat_walk *walk, const struct chat_maker *maker)
{
    struct json_item item;

    if (!json_next(&walk->json, &item) || item.value.kind != JSON_OBJECT) {
        return chat_refuse(walk, "a body that is not an object");
    }
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        uint32_t field = chat_key_find(body_names, chat_field_count, item.key);
        if (field == chat_field_count) {
            continue;
        }
        if (!(field == CHAT_FIELD_MESSAGES ? body_messages_read(walk, maker, &item.value)
                                           : json_skip(&walk->json, &item.value))) {
            return false;
        }
        walk->fields[field] = item.value;
    }
    return true;
}

static bool body_fields_check(struct chat_walk *walk)
{
    struct json_value ids = json_member(&walk->fields[CHAT_FIELD_TRANSFER], "prompt_token_ids");

    for (uint32_t i = chat_field_unfollowed; i < chat_field_count; i++) {
        const struct json_value *value = &walk->fields[i];
        if (!json_is_unset(value) && (value->kind != JSON_BOOL || json_is_true(value))) {
            return chat_refuse(walk, "%s", body_names[i]);
        }
    }
    if (!json_is_unset(&ids)) {
        return chat_refuse(walk, "prompt_token_ids of kv_transfer_params");
    }
    return walk->messages.count > 0 || chat_refuse(walk, "no messages");
}

static bool kwargs_read(struct chat_walk *walk, struct slice json, const struct value_dict **out)
{
    struct value kwargs;

    if (!value_from_json(walk->room, json, &kwargs)) {
        return false;
    }
    if (kwargs.kind != VALUE_DICT) {
        return chat_refuse(walk, "kwargs that are not an object");
    }
    if (kwargs.dict->count > kwargs_count_max) {
        return chat_refuse(walk, "more kwargs than %u", (unsigned)kwargs_count_max);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(reserved_kwargs); i++) {
        if (value_dict_get(kwargs.dict, slice_str(reserved_kwargs[i])) != NULL) {
            return chat_refuse(walk, "%s among the kwargs", reserved_kwargs[i]);
        }
    }
    *out = kwargs.dict;
    return true;
}

// A list, or NONE.
static bool body_list_read(struct chat_walk *walk, enum chat_field field, struct value *out)
{
    const struct json_value *value = &walk->fields[field];

    *out = value_none();
    if (json_is_unset(value)) {
        return true;
    }
    if (value->kind != JSON_ARRAY) {
        return chat_refuse(walk, "%s that are not a list", body_names[field]);
    }
    return value_from_json(walk->room, value->raw, out);
}

static bool body_tools_read(struct chat_walk *walk, const struct chat_maker *maker,
                            struct value *out)
{
    if (!body_list_read(walk, CHAT_FIELD_TOOLS, out) || out->kind != VALUE_LIST) {
        return walk->room->status == STATUS_OK;
    }
    chat_shape_note_tools(walk, out->list);
    return maker->tools(walk, out->list, out);
}

static bool generation_read(struct chat_walk *walk, const struct chat_maker *maker, bool *out)
{
    const struct json_value *field = &walk->fields[CHAT_FIELD_GENERATION];

    *out = json_is_unset(field) || json_is_true(field);
    if (*out) {
        return true;
    }
    if (field->kind != JSON_BOOL) {
        return chat_refuse(walk, "add_generation_prompt that is neither true nor false");
    }
    walk->shape |= CHAT_NO_GENERATION_SHAPE;
    return maker->obeys_generation ||
           chat_refuse(walk, "add_generation_prompt, which not all of its endpoints obey");
}

static bool documents_put(struct chat_walk *walk, struct chat_dict *variables)
{
    struct value documents;

    if (!body_list_read(walk, CHAT_FIELD_DOCUMENTS, &documents) || documents.kind != VALUE_LIST) {
        return walk->room->status == STATUS_OK;
    }
    walk->shape |= CHAT_DOCUMENTS_SHAPE;
    chat_dict_put(variables, slice_str("documents"), documents);
    return true;
}

static bool variables_make(struct chat_walk *walk, const struct chat_maker *maker, struct chat *out)
{
    const struct chat_rules *rules = walk->rules;
    const struct json_value *field = &walk->fields[CHAT_FIELD_KWARGS];
    struct chat_kwargs kwargs = {.defaults = &no_kwargs, .given = &no_kwargs};
    struct value messages;
    struct value tools;
    bool generates;
    struct chat_dict variables;

    if (!chat_list_of(walk, &walk->messages, &messages) || !body_tools_read(walk, maker, &tools) ||
        !generation_read(walk, maker, &generates) ||
        (rules->kwargs.size > 0 && !kwargs_read(walk, rules->kwargs, &kwargs.defaults)) ||
        (!json_is_unset(field) && !kwargs_read(walk, field->raw, &kwargs.given)) ||
        !chat_dict_begin(walk,
                         4 + rules->token_count + kwargs.defaults->count + kwargs.given->count +
                             chat_kwargs_extra_max,
                         &variables)) {
        return false;
    }
    chat_dict_append(&variables, slice_str("messages"), messages);
    chat_dict_append(&variables, slice_str("tools"), tools);
    chat_dict_append(&variables, slice_str("documents"), value_none());
    chat_dict_append(&variables, slice_str("add_generation_prompt"), value_bool(generates));
    for (uint32_t i = 0; i < rules->token_count; i++) {
        chat_dict_put(&variables, rules->tokens[i].name, value_string(rules->tokens[i].text));
    }
    if (!maker->kwargs(walk, &kwargs, &variables) ||
        (maker->has_documents && !documents_put(walk, &variables))) {
        return false;
    }
    out->variables = variables.dict;
    out->has_tools = tools.kind == VALUE_LIST;
    return true;
}

enum status chat_read(const struct chat_rules *rules, struct slice body, struct value_room *room,
                      struct chat *out)
{
    ASSERT(rules->engine < ARRAY_COUNT(chat_makers));
    const struct chat_maker *maker = chat_makers[rules->engine];
    struct chat_walk walk = {.rules = rules, .room = room, .json = json_open(body)};
    struct chat chat = {0};

    bool good = chat_body_read(&walk, maker);
    enum status status = json_close(&walk.json);
    if (status != STATUS_OK) {
        // Report this error, not those that follow from the broken text.
        room->status = STATUS_OK;
        (void)value_fail(room, status, "a body that is not JSON, or nested too deep");
        return status;
    }
    if (!good || !body_fields_check(&walk) || (maker->finish != NULL && !maker->finish(&walk)) ||
        !variables_make(&walk, maker, &chat)) {
        ASSERT(room->status != STATUS_OK);
        return room->status;
    }
    chat_shape_end(&walk);
    chat.shape = walk.shape;
    *out = chat;
    return STATUS_OK;
}
