// SPDX-License-Identifier: Apache-2.0
//
// How SGLang changes a request before the template sees it.
//
// Messages, calls and tools pass through models, which have their members in the order of their
// declaration and know no others.  Null members of a message are then left out, and the function of
// a tool gets its own order back.  A user message has a content and nothing else, and an assistant
// at the end becomes a user.  SGLang replaces names of types that no schema has; we refuse such
// tools.

#include "base/base.h"
#include "dialect/chat_internal.h"

static const char *const generic_roles[] = {
    "system", "assistant", "tool", "function", "developer", "latest_reminder", "root",
};

static bool sglang_content(struct chat_walk *walk, const struct value *content, bool is_tool,
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
    if (!sglang_arguments(walk, &arguments) || !chat_dict_begin(walk, 2, &function) ||
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

static bool sglang_generic(struct chat_walk *walk, const struct value *values,
                           struct chat_dict *made)
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
    if (!chat_map(walk, values[CHAT_KEY_TOOL_CALLS].list, sglang_call, &calls)) {
        return false;
    }
    chat_dict_add(made, "tool_calls", calls);
    return true;
}

// Members that not all releases hand on to the template.
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
    struct slice role = values[CHAT_KEY_ROLE].string;
    bool is_user = slice_is(role, "user");
    struct value content;
    struct chat_dict made;

    if (!is_user && !chat_is_one_of(role, generic_roles, ARRAY_COUNT(generic_roles))) {
        return chat_refuse(walk, "a role that is not known");
    }
    if (is_unfollowed(values)) {
        return chat_refuse(walk, "tools, phase, prefix or reasoning of a message");
    }
    if (!sglang_content(walk, &values[CHAT_KEY_CONTENT], slice_is(role, "tool"), &content) ||
        !chat_dict_begin(walk, is_user ? 2 : 6, &made)) {
        return false;
    }
    // A content that stays a list is put back behind the others.
    bool is_last = values[CHAT_KEY_CONTENT].kind == VALUE_LIST && walk->rules->content_is_list;
    chat_dict_add(&made, "role", values[CHAT_KEY_ROLE]);
    if (!is_last) {
        chat_dict_add(&made, "content", content);
    }
    if (!is_user && !sglang_generic(walk, values, &made)) {
        return false;
    }
    if (is_last) {
        chat_dict_add(&made, "content", content);
    }
    *out = chat_dict_end(&made);
    return true;
}

static bool sglang_finish(struct chat_walk *walk)
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

static bool is_schema_type(const struct value *value)
{
    static const char *const types[] = {
        "string", "number", "integer", "boolean", "object", "array", "null",
    };
    return value->kind != VALUE_STRING || chat_is_one_of(value->string, types, ARRAY_COUNT(types));
}

// Whether all types in a schema have names that schemas have; value_from_json bounds the depth.
static bool has_schema_types(const struct value *schema)
{
    if (schema->kind == VALUE_LIST) {
        for (uint32_t i = 0; i < schema->list->count; i++) {
            if (!has_schema_types(&schema->list->items[i])) {
                return false;
            }
        }
        return true;
    }
    for (uint32_t i = 0; schema->kind == VALUE_DICT && i < schema->dict->count; i++) {
        const struct value_member *member = &schema->dict->members[i];
        bool names_type = slice_is(member->key.string, "type");
        if ((names_type && !is_schema_type(&member->value)) || !has_schema_types(&member->value)) {
            return false;
        }
        for (uint32_t j = 0;
             names_type && member->value.kind == VALUE_LIST && j < member->value.list->count; j++) {
            if (!is_schema_type(&member->value.list->items[j])) {
                return false;
            }
        }
    }
    return true;
}

// The members of a function in the order that the client has, then those it left out.
static void sglang_function_order(const struct value_dict *given,
                                  const char *order[chat_function_key_count])
{
    static const char *const keys[] = {"description", "name", "parameters", "strict"};
    uint32_t count = 0;

    for (uint32_t i = 0; i < given->count; i++) {
        for (uint32_t key = 0; key < ARRAY_COUNT(keys); key++) {
            if (slice_is(given->members[i].key.string, keys[key])) {
                order[count++] = keys[key];
            }
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
    struct chat_dict made;

    if (given == NULL) {
        return false;
    }
    struct value parameters = chat_member(given, "parameters");
    if (!has_schema_types(&parameters)) {
        return chat_refuse(walk, "a tool with types that schemas do not have");
    }
    sglang_function_order(given, order);
    if (!chat_function_make(walk, given, order, &function) || !chat_dict_begin(walk, 3, &made)) {
        return false;
    }
    chat_dict_add(&made, "type", value_string(slice_str("function")));
    chat_dict_add(&made, "function", function);
    chat_dict_add(&made, "defer_loading", value_none());
    *out = chat_dict_end(&made);
    return true;
}

// The name that tool_choice asks for; NONE: all tools.
static bool tool_choice_read(struct chat_walk *walk, struct value *name)
{
    static const char *const outer[] = {"function"};
    static const char *const inner[] = {"name"};
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct json_value found = {0};

    *name = value_none();
    if (choice->kind != JSON_OBJECT) {
        return true;
    }
    if (json_find(choice->raw, outer, 1, &found) != STATUS_OK || found.kind != JSON_OBJECT ||
        json_find(found.raw, inner, 1, &found) != STATUS_OK || found.kind != JSON_STRING) {
        return chat_refuse(walk, "a tool_choice without the name of a function");
    }
    return chat_string(walk, found.raw, name);
}

// Keeps those of the made tools that have that name.
static bool keep_named_tools(struct chat_walk *walk, const struct value_list *tools,
                             struct slice name, struct value *out)
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
        return chat_refuse(walk, "a tool_choice that names none of the tools");
    }
    return chat_list_of(walk, &kept, out);
}

static bool sglang_tools(struct chat_walk *walk, const struct value_list *tools, struct value *out)
{
    const struct json_value *choice = &walk->fields[CHAT_FIELD_TOOL_CHOICE];
    struct value chosen;

    *out = value_none();
    if (tools->count == 0 || (choice->kind == JSON_STRING && json_string_is(choice->raw, "none"))) {
        return true;
    }
    if (!tool_choice_read(walk, &chosen) || !chat_map(walk, tools, sglang_tool, out)) {
        return false;
    }
    return !chat_is_given(&chosen) || keep_named_tools(walk, out->list, chosen.string, out);
}

// An effort says whether to think, unless the request says it itself.
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
    enum json_kind reasoning = walk->fields[CHAT_FIELD_REASONING].kind;

    if (reasoning != JSON_ABSENT && reasoning != JSON_NULL) {
        return chat_refuse(walk, "reasoning of the request");
    }
    if (value_dict_get(kwargs->defaults, slice_str("reasoning_effort")) != NULL) {
        // Whether it overrides the one of the request depends on where that is.
        return chat_refuse(walk, "reasoning_effort among the defaults");
    }
    chat_dict_put_all(variables, kwargs->defaults);
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
