// SPDX-License-Identifier: Apache-2.0
//
// How SGLang changes a request before the template sees it.
//
// Messages, calls and tools pass through typed models: only declared members remain, in the order
// of declaration.  Null members of a message are left out, and the function of a tool gets the
// client's order back.  A user message has only a content, and an assistant message at the end
// becomes one of the user.  SGLang replaces unknown type names in schemas; we refuse such tools.

#include "base/base.h"
#include "dialect/chat_internal.h"

static const char *const generic_roles[] = {
    "system", "assistant", "tool", "function", "developer", "latest_reminder", "root",
};

// Arguments are an object, or the text of one.
static bool sglang_arguments(struct chat_walk *walk, struct value *arguments)
{
    if (arguments->kind == VALUE_STRING &&
        !value_from_json(walk->room, arguments->string, arguments)) {
        return false;
    }
    if (chat_is_given(arguments) && arguments->kind != VALUE_DICT) {
        return chat_refuse(walk, "arguments of a call that are not an object");
    }
    return true;
}

static bool sglang_call(struct chat_walk *walk, const struct value *call, struct value *out)
{
    const struct value_dict *given = chat_function_of(walk, call);
    struct value id;
    struct value index;
    struct value name;
    struct value function;

    if (given == NULL || !chat_get_of_kind(walk, call->dict, "id", VALUE_STRING, &id) ||
        !chat_get_of_kind(walk, call->dict, "index", VALUE_INT, &index) ||
        !chat_get_of_kind(walk, given, "name", VALUE_STRING, &name)) {
        return false;
    }
    struct value arguments = chat_get(given, "arguments");
    if (arguments.kind == VALUE_UNDEFINED) {
        arguments = value_none();
    }
    if (!sglang_arguments(walk, &arguments)) {
        return false;
    }
    const struct chat_member inner[] = {{"name", name}, {"arguments", arguments}};
    if (!chat_dict_of(walk, inner, ARRAY_COUNT(inner), &function)) {
        return false;
    }
    const struct chat_member members[] = {
        {"id", id}, {"index", index}, {"type", chat_word("function")}, {"function", function}};
    return chat_dict_of(walk, members, ARRAY_COUNT(members), out);
}

// Members that only some releases pass to the template.
static bool is_unfollowed(const struct value *values)
{
    const struct value *reasoning = &values[CHAT_KEY_REASONING];
    const struct value *content = &values[CHAT_KEY_REASONING_CONTENT];

    return chat_is_given(&values[CHAT_KEY_TOOLS]) || chat_is_given(&values[CHAT_KEY_PHASE]) ||
           chat_is_given(&values[CHAT_KEY_PREFIX]) ||
           (chat_is_given(reasoning) &&
            (!chat_is_given(content) || !slice_equal(reasoning->string, content->string)));
}

static bool sglang_message(struct chat_walk *walk, const struct chat_message *message,
                           struct value *out)
{
    const struct value *values = message->values;
    const struct value absent = {0};
    const struct value *given_calls = &values[CHAT_KEY_TOOL_CALLS];
    struct slice role = values[CHAT_KEY_ROLE].string;
    bool is_list = walk->rules->content_is_list;
    bool is_user = slice_is(role, "user");
    struct value content;
    struct value calls = absent;

    if (!is_user && chat_name_find(generic_roles, ARRAY_COUNT(generic_roles), role) ==
                        ARRAY_COUNT(generic_roles)) {
        return chat_refuse(walk, "a role that is not known");
    }
    if (is_unfollowed(values)) {
        return chat_refuse(walk, "tools, phase, prefix or reasoning of a message");
    }
    bool has_calls = !is_user && given_calls->kind == VALUE_LIST;
    if (has_calls && !slice_is(role, "assistant")) {
        return chat_refuse(walk, "tool_calls of a message that is not the assistant's");
    }
    if (!chat_content(walk, &values[CHAT_KEY_CONTENT], is_list && !slice_is(role, "tool"), " ",
                      false, &content) ||
        (has_calls && !chat_map(walk, given_calls->list, sglang_call, &calls))) {
        return false;
    }
    // A content that stays a list comes last.
    bool is_last = values[CHAT_KEY_CONTENT].kind == VALUE_LIST && is_list;
    const struct chat_member members[] = {
        {"role", values[CHAT_KEY_ROLE]},
        {"content", is_last ? absent : content},
        {"tool_call_id", is_user ? absent : chat_given(values[CHAT_KEY_TOOL_CALL_ID])},
        {"name", is_user ? absent : chat_given(values[CHAT_KEY_NAME])},
        {"reasoning_content", is_user ? absent : chat_given(values[CHAT_KEY_REASONING_CONTENT])},
        {"tool_calls", calls},
        {"content", is_last ? content : absent},
    };
    return chat_dict_of(walk, members, ARRAY_COUNT(members), out);
}

static bool sglang_finish(struct chat_walk *walk)
{
    struct value *last = &walk->messages.items[walk->messages.count - 1];
    struct value content = chat_get(last->dict, "content");

    if (!slice_is(chat_get(last->dict, "role").string, "assistant") ||
        content.kind != VALUE_STRING) {
        return true;
    }
    const struct chat_member members[] = {{"role", chat_word("user")}, {"content", content}};
    return chat_dict_of(walk, members, ARRAY_COUNT(members), last);
}

// Whether all types in a schema have names that JSON schemas know; value_from_json bounds the
// depth.
static bool has_schema_types(const struct value *schema, bool is_type)
{
    static const char *const types[] = {
        "string", "number", "integer", "boolean", "object", "array", "null",
    };
    bool good = true;

    if (schema->kind == VALUE_STRING) {
        return !is_type ||
               chat_name_find(types, ARRAY_COUNT(types), schema->string) < ARRAY_COUNT(types);
    }
    for (uint32_t i = 0; good && schema->kind == VALUE_LIST && i < schema->list->count; i++) {
        good = has_schema_types(&schema->list->items[i], is_type);
    }
    for (uint32_t i = 0; good && schema->kind == VALUE_DICT && i < schema->dict->count; i++) {
        const struct value_member *member = &schema->dict->members[i];
        good = has_schema_types(&member->value, slice_is(member->key.string, "type"));
    }
    return good;
}

// The members of a function in the client's order, then the missing ones.
static void sglang_function_order(const struct value_dict *given,
                                  const char *order[chat_function_key_count])
{
    static const char *const keys[] = {"description", "name", "parameters", "strict"};
    uint32_t count = 0;

    for (uint32_t i = 0; i < given->count; i++) {
        uint32_t key = chat_name_find(keys, ARRAY_COUNT(keys), given->members[i].key.string);
        if (key < ARRAY_COUNT(keys)) {
            order[count++] = keys[key];
        }
    }
    for (uint32_t key = 0; key < ARRAY_COUNT(keys); key++) {
        if (value_dict_get(given, slice_str(keys[key])) == NULL) {
            order[count++] = keys[key];
        }
    }
    ASSERT(count == chat_function_key_count);
}

static bool sglang_tool(struct chat_walk *walk, const struct value *tool, struct value *out)
{
    const struct value_dict *given = chat_function_of(walk, tool);
    const char *order[chat_function_key_count];
    struct value function;

    if (given == NULL) {
        return false;
    }
    struct value parameters = chat_get(given, "parameters");
    if (!has_schema_types(&parameters, false)) {
        return chat_refuse(walk, "a tool with types that schemas do not have");
    }
    sglang_function_order(given, order);
    if (!chat_function_make(walk, given, order, &function)) {
        return false;
    }
    const struct chat_member members[] = {
        {"type", chat_word("function")}, {"function", function}, {"defer_loading", value_none()}};
    return chat_dict_of(walk, members, ARRAY_COUNT(members), out);
}

// The name that tool_choice asks for; NONE: all tools.
static bool tool_choice_read(struct chat_walk *walk, struct value *name)
{
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct json_value function = json_member(choice, "function");
    struct json_value found = json_member(&function, "name");

    *name = value_none();
    if (choice->kind != JSON_OBJECT) {
        return true;
    }
    if (found.kind != JSON_STRING) {
        return chat_refuse(walk, "a tool_choice without the name of a function");
    }
    return chat_string(walk, found.raw, name);
}

// Keeps the tools with that name.
static bool keep_named_tools(struct chat_walk *walk, const struct value_list *tools,
                             struct slice name, struct value *out)
{
    struct chat_values kept = {0};

    for (uint32_t i = 0; i < tools->count; i++) {
        struct value function = chat_get(tools->items[i].dict, "function");
        if (slice_equal(chat_get(function.dict, "name").string, name) &&
            !chat_push(walk, &kept, tools->items[i])) {
            return false;
        }
    }
    if (kept.count == 0) {
        return chat_refuse(walk, "a tool_choice that names none of the tools");
    }
    return chat_list_of(walk, &kept, out);
}

static bool sglang_tools(struct chat_walk *walk, const struct value_list *tools, struct value *out)
{
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct value chosen;

    *out = value_none();
    if (tools->count == 0 || json_is_string(choice, "none")) {
        return true;
    }
    if (!tool_choice_read(walk, &chosen) || !chat_map(walk, tools, sglang_tool, out)) {
        return false;
    }
    return !chat_is_given(&chosen) || keep_named_tools(walk, out->list, chosen.string, out);
}

// The effort switches thinking on or off, unless the request's kwargs do.
static bool sglang_effort(struct chat_walk *walk, const struct value_dict *given,
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

static bool sglang_kwargs(struct chat_walk *walk, const struct chat_kwargs *kwargs,
                          struct chat_dict *variables)
{
    if (!json_is_unset(&walk->fields[CHAT_FIELD_REASONING])) {
        return chat_refuse(walk, "reasoning of the request");
    }
    if (value_dict_get(kwargs->defaults, slice_str("reasoning_effort")) != NULL) {
        // Which one wins depends on where the request sets it.
        return chat_refuse(walk, "reasoning_effort among the defaults");
    }
    chat_kwargs_put(kwargs->defaults, variables);
    if (!sglang_effort(walk, kwargs->given, variables)) {
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

// Its model of a body does not have `documents`.
const struct chat_maker chat_sglang = {
    .message = sglang_message,
    .finish = sglang_finish,
    .tools = sglang_tools,
    .kwargs = sglang_kwargs,
};
