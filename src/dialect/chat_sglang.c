// SPDX-License-Identifier: Apache-2.0
//
// What SGLang makes of a request before the template sees it.
//
// Messages, calls and tools pass through models, which have their members in the order of their declaration
// and know no others; of a message, what is null is then left out, and the function of a tool gets the order
// back that it had.  A user has a content and nothing else, and an assistant at the end becomes a user.
// What a tool takes is a schema, and names of types that no schema has are replaced; such tools are refused.

#include "base/base.h"
#include "dialect/chat_internal.h"

static const char *const generic_roles[] = {
    "system", "assistant", "tool", "function", "developer", "latest_reminder", "root",
};

static bool is_generic(struct slice role)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(generic_roles); i++) {
        if (slice_is(role, generic_roles[i])) {
            return true;
        }
    }
    return false;
}

static bool content_make(struct chat_walk *walk, const struct value *content, bool is_tool,
                         struct value *out)
{
    if (content->kind == VALUE_LIST) {
        return walk->rules->content_is_list && !is_tool
                   ? chat_map(walk, content->list, chat_text_part, out)
                   : chat_join(walk, content->list, " ", false, out);
    }
    *out = content->kind == VALUE_STRING ? *content : value_string(slice_str(""));
    return true;
}

// Arguments are an object, or the text of one.
static bool arguments_make(struct chat_walk *walk, struct value *arguments)
{
    if (arguments->kind == VALUE_STRING &&
        !value_from_json(walk->room, arguments->string, arguments)) {
        return false;
    }
    if (chat_is_given(arguments) && arguments->kind != VALUE_DICT) {
        return chat_refuse(walk, "arguments of a call that are no object");
    }
    return true;
}

static bool call_make(struct chat_walk *walk, const struct value *call, struct value *out)
{
    const struct value_dict *given = chat_function_of(walk, call);
    struct value id;
    struct value index;
    struct value name;
    struct chat_dict function;
    struct chat_dict made;

    if (given == NULL || !chat_member_of_kind(walk, call->dict, "id", VALUE_STRING, &id) ||
        !chat_member_of_kind(walk, call->dict, "index", VALUE_INT, &index) ||
        !chat_member_of_kind(walk, given, "name", VALUE_STRING, &name)) {
        return false;
    }
    struct value arguments = chat_member(given, "arguments");
    if (arguments.kind == VALUE_UNDEFINED) {
        arguments = value_none();
    }
    if (!arguments_make(walk, &arguments) || !chat_dict_begin(walk, 2, &function) ||
        !chat_dict_begin(walk, 4, &made)) {
        return false;
    }
    chat_dict_add(&function, "name", name);
    chat_dict_add(&function, "arguments", arguments);
    chat_dict_add(&made, "id", id);
    chat_dict_add(&made, "index", index);
    chat_dict_add(&made, "type", value_string(slice_str("function")));
    chat_dict_add(&made, "function", chat_dict_end(&function));
    *out = chat_dict_end(&made);
    return true;
}

static void add_given(struct chat_dict *made, const char *key, const struct value *value)
{
    if (chat_is_given(value)) {
        chat_dict_add(made, key, *value);
    }
}

static bool generic_make(struct chat_walk *walk, const struct value *values, struct chat_dict *made)
{
    add_given(made, "tool_call_id", &values[CHAT_KEY_TOOL_CALL_ID]);
    add_given(made, "name", &values[CHAT_KEY_NAME]);
    add_given(made, "reasoning_content", &values[CHAT_KEY_REASONING_CONTENT]);
    if (values[CHAT_KEY_TOOL_CALLS].kind != VALUE_LIST) {
        return true;
    }
    if (!slice_is(values[CHAT_KEY_ROLE].string, "assistant")) {
        return chat_refuse(walk, "tool_calls of a message that is not the assistant's");
    }
    struct value calls;
    if (!chat_map(walk, values[CHAT_KEY_TOOL_CALLS].list, call_make, &calls)) {
        return false;
    }
    chat_dict_add(made, "tool_calls", calls);
    return true;
}

// What is not handed on, or not in all releases.
static bool is_unfollowed(const struct value *values)
{
    const struct value *reasoning = &values[CHAT_KEY_REASONING];
    const struct value *content = &values[CHAT_KEY_REASONING_CONTENT];

    return chat_is_given(&values[CHAT_KEY_TOOLS]) || chat_is_given(&values[CHAT_KEY_PHASE]) ||
           chat_is_given(&values[CHAT_KEY_PREFIX]) ||
           (chat_is_given(reasoning) &&
            (!chat_is_given(content) || !slice_equal(reasoning->string, content->string)));
}

static bool message_make(struct chat_walk *walk, const struct chat_message *message,
                         struct value *out)
{
    const struct value *values = message->values;
    struct slice role = values[CHAT_KEY_ROLE].string;
    bool is_user = slice_is(role, "user");
    struct value content;
    struct chat_dict made;

    if (!is_user && !is_generic(role)) {
        return chat_refuse(walk, "a role that is not known");
    }
    if (is_unfollowed(values)) {
        return chat_refuse(walk, "tools, phase, prefix or reasoning of a message");
    }
    if (!content_make(walk, &values[CHAT_KEY_CONTENT], slice_is(role, "tool"), &content) ||
        !chat_dict_begin(walk, is_user ? 2 : 6, &made)) {
        return false;
    }
    // A content that stays a list is put back behind the others.
    bool is_last = values[CHAT_KEY_CONTENT].kind == VALUE_LIST && walk->rules->content_is_list;
    chat_dict_add(&made, "role", values[CHAT_KEY_ROLE]);
    if (!is_last) {
        chat_dict_add(&made, "content", content);
    }
    if (!is_user && !generic_make(walk, values, &made)) {
        return false;
    }
    if (is_last) {
        chat_dict_add(&made, "content", content);
    }
    *out = chat_dict_end(&made);
    return true;
}

static bool messages_finish(struct chat_walk *walk)
{
    struct value *last = &walk->messages.items[walk->messages.count - 1];
    struct value role = chat_member(last->dict, "role");
    struct value content = chat_member(last->dict, "content");
    struct chat_dict made;

    if (!slice_is(role.string, "assistant") || content.kind != VALUE_STRING) {
        return true;
    }
    if (!chat_dict_begin(walk, 2, &made)) {
        return false;
    }
    chat_dict_add(&made, "role", value_string(slice_str("user")));
    chat_dict_add(&made, "content", content);
    *last = chat_dict_end(&made);
    return true;
}

static bool is_type(const struct value *value)
{
    static const char *const types[] = {
        "string", "number", "integer", "boolean", "object", "array", "null",
    };
    for (uint32_t i = 0; value->kind == VALUE_STRING && i < ARRAY_COUNT(types); i++) {
        if (slice_is(value->string, types[i])) {
            return true;
        }
    }
    return value->kind != VALUE_STRING;
}

// Whether all types in a schema have names that schemas have; value_from_json bounds the depth.
static bool has_types(const struct value *schema)
{
    if (schema->kind == VALUE_LIST) {
        for (uint32_t i = 0; i < schema->list->count; i++) {
            if (!has_types(&schema->list->items[i])) {
                return false;
            }
        }
        return true;
    }
    for (uint32_t i = 0; schema->kind == VALUE_DICT && i < schema->dict->count; i++) {
        const struct value_member *member = &schema->dict->members[i];
        bool names_type = slice_is(member->key.string, "type");
        if ((names_type && !is_type(&member->value)) || !has_types(&member->value)) {
            return false;
        }
        for (uint32_t j = 0;
             names_type && member->value.kind == VALUE_LIST && j < member->value.list->count; j++) {
            if (!is_type(&member->value.list->items[j])) {
                return false;
            }
        }
    }
    return true;
}

// Members of the model of a function, in its order.
enum function_key { FUNCTION_DESCRIPTION, FUNCTION_NAME, FUNCTION_PARAMETERS, FUNCTION_STRICT };
static const char *const function_keys[] = {
    [FUNCTION_DESCRIPTION] = "description",
    [FUNCTION_NAME] = "name",
    [FUNCTION_PARAMETERS] = "parameters",
    [FUNCTION_STRICT] = "strict",
};
enum { function_key_count = ARRAY_COUNT(function_keys) };

static uint32_t function_key_of(struct slice key)
{
    uint32_t i = 0;
    while (i < function_key_count && !slice_is(key, function_keys[i])) {
        i++;
    }
    return i;
}

// In the order that the client has, then what it left out.
static void function_order(const struct value_dict *given, uint32_t *order)
{
    bool is_there[function_key_count] = {false};
    uint32_t count = 0;

    for (uint32_t i = 0; i < given->count; i++) {
        uint32_t key = function_key_of(given->members[i].key.string);
        if (key < function_key_count) {
            order[count++] = key;
            is_there[key] = true;
        }
    }
    for (uint32_t key = 0; key < function_key_count; key++) {
        if (!is_there[key]) {
            order[count++] = key;
        }
    }
}

static bool function_make(struct chat_walk *walk, const struct value_dict *given, struct value *out)
{
    bool is_modelled = walk->rules->tools_as_modelled;
    uint32_t order[function_key_count] = {0, 1, 2, 3};
    struct value values[function_key_count];
    struct chat_dict made;

    for (uint32_t i = 0; i < function_key_count; i++) {
        values[i] = chat_member(given, function_keys[i]);
        if (values[i].kind == VALUE_UNDEFINED) {
            values[i] = value_none();
        }
    }
    if (is_modelled && values[FUNCTION_STRICT].kind == VALUE_NONE) {
        values[FUNCTION_STRICT] = value_bool(false);
    } else if (!is_modelled) {
        function_order(given, order);
    }
    if (!chat_dict_begin(walk, function_key_count, &made)) {
        return false;
    }
    for (uint32_t i = 0; i < function_key_count; i++) {
        if (order[i] != FUNCTION_STRICT || chat_is_given(&values[FUNCTION_STRICT])) {
            chat_dict_add(&made, function_keys[order[i]], values[order[i]]);
        }
    }
    *out = chat_dict_end(&made);
    return true;
}

static bool tool_make(struct chat_walk *walk, const struct value *tool, struct value *out)
{
    const struct value_dict *given = chat_function_of(walk, tool);
    struct value description;
    struct value name;
    struct value strict;
    struct value function;
    struct chat_dict made;

    if (given == NULL ||
        !chat_member_of_kind(walk, given, "description", VALUE_STRING, &description) ||
        !chat_member_of_kind(walk, given, "name", VALUE_STRING, &name) ||
        !chat_member_of_kind(walk, given, "strict", VALUE_BOOL, &strict)) {
        return false;
    }
    struct value parameters = chat_member(given, "parameters");
    if (!chat_is_given(&name) || !has_types(&parameters)) {
        return chat_refuse(walk, "a tool without a name, or with types that schemas do not have");
    }
    if (!function_make(walk, given, &function) || !chat_dict_begin(walk, 3, &made)) {
        return false;
    }
    chat_dict_add(&made, "type", value_string(slice_str("function")));
    chat_dict_add(&made, "function", function);
    chat_dict_add(&made, "defer_loading", value_none());
    *out = chat_dict_end(&made);
    return true;
}

// The name that tool_choice asks for; NONE: all tools.
static bool choice_read(struct chat_walk *walk, struct value *name)
{
    static const char *const outer[] = {"function"};
    static const char *const inner[] = {"name"};
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct json_value found = {0};
    struct slice text;

    *name = value_none();
    if (choice->kind != JSON_OBJECT) {
        return true;
    }
    if (json_find(choice->raw, outer, 1, &found) != STATUS_OK || found.kind != JSON_OBJECT ||
        json_find(found.raw, inner, 1, &found) != STATUS_OK || found.kind != JSON_STRING) {
        return chat_refuse(walk, "a tool_choice without the name of a function");
    }
    if (!chat_string(walk, found.raw, &text)) {
        return false;
    }
    *name = value_string(text);
    return true;
}

// Of tools that were made, those of that name.
static bool keep_named(struct chat_walk *walk, const struct value_list *tools, struct slice name,
                       struct value *out)
{
    struct chat_values kept = {0};

    for (uint32_t i = 0; i < tools->count; i++) {
        struct value function = chat_member(tools->items[i].dict, "function");
        struct value own = chat_member(function.dict, "name");
        if (slice_equal(own.string, name) && !chat_push(walk, &kept, tools->items[i])) {
            return false;
        }
    }
    if (kept.count == 0) {
        return chat_refuse(walk, "a tool_choice that is none of the tools");
    }
    return chat_list_of(walk, &kept, out);
}

static bool tools_make(struct chat_walk *walk, const struct value_list *tools, struct value *out)
{
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct value chosen;

    *out = value_none();
    if (tools->count == 0 || (choice->kind == JSON_STRING && json_string_is(choice->raw, "none"))) {
        return true;
    }
    if (!choice_read(walk, &chosen) || !chat_map(walk, tools, tool_make, out)) {
        return false;
    }
    return !chat_is_given(&chosen) || keep_named(walk, out->list, chosen.string, out);
}

// An effort says whether to think, unless the request does.
static bool effort_put(struct chat_walk *walk, const struct value_dict *given,
                       struct chat_dict *variables)
{
    static const char *const names[] = {"thinking", "enable_thinking"};
    struct value effort;

    if (!chat_effort(walk, &effort) || !chat_is_given(&effort)) {
        return walk->room->status == STATUS_OK;
    }
    chat_dict_put(variables, slice_str("reasoning_effort"), effort);
    for (uint32_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct slice name = slice_str(names[i]);
        if (value_dict_get(given, name) == NULL) {
            chat_dict_put(variables, name, value_bool(!slice_is(effort.string, "none")));
        }
    }
    return true;
}

static bool kwargs_put(struct chat_walk *walk, const struct chat_kwargs *kwargs,
                       struct chat_dict *variables)
{
    enum json_kind reasoning = walk->fields[CHAT_FIELD_REASONING].kind;

    if (reasoning != JSON_ABSENT && reasoning != JSON_NULL) {
        return chat_refuse(walk, "reasoning of the request");
    }
    if (value_dict_get(kwargs->defaults, slice_str("reasoning_effort")) != NULL) {
        // It stands above the one of the request, or not, depending on where that is.
        return chat_refuse(walk, "reasoning_effort among the defaults");
    }
    for (uint32_t i = 0; i < kwargs->defaults->count; i++) {
        const struct value_member *member = &kwargs->defaults->members[i];
        chat_dict_put(variables, member->key.string, member->value);
    }
    if (!effort_put(walk, kwargs->given, variables)) {
        return false;
    }
    for (uint32_t i = 0; i < kwargs->given->count; i++) {
        const struct value_member *member = &kwargs->given->members[i];
        bool is_effort = slice_is(member->key.string, "reasoning_effort");
        walk->shape |= CHAT_KWARGS_SHAPE;
        if (!is_effort || member->value.kind != VALUE_NONE) {
            chat_dict_put(variables, member->key.string, member->value);
        }
    }
    return true;
}

// `documents` of a body is no member of its model.
const struct chat_maker chat_sglang = {
    .message = message_make,
    .finish = messages_finish,
    .tools = tools_make,
    .kwargs = kwargs_put,
};
