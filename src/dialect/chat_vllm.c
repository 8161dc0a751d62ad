// SPDX-License-Identifier: Apache-2.0
//
// How vLLM changes a request before the template sees it.
//
// It makes new messages from the members that it knows.  Calls pass through typed dicts: declared
// members come first, in the order of declaration, then the others.  Tools pass through a typed
// model: exactly the declared members remain.
//
// If the template does not name the developer role, developer messages become system messages; then
// all system messages are merged into one, whose content is a text even if contents are lists.

#include "base/base.h"
#include "dialect/chat_internal.h"

static const char *const vllm_call_order[] = {"id", "function", "type"};
static const char *const vllm_function_order[] = {"arguments", "name"};

static bool vllm_content(struct chat_walk *walk, const struct value *content, bool is_tool,
                         struct value *out)
{
    bool keeps_parts = walk->rules->content_is_list && !is_tool;

    if (keeps_parts && content->kind == VALUE_LIST && walk->has_part_members) {
        return chat_refuse(walk, "a part with more than a type and a text"); // releases differ
    }
    if (keeps_parts && content->kind != VALUE_LIST) {
        // A text becomes a list of one part, and no text an empty list.
        struct value_list *list = value_list_new(walk->room, content->kind == VALUE_STRING);
        *out = value_of_list(list);
        return list != NULL && (list->count == 0 || chat_text_part(walk, content, &list->items[0]));
    }
    // Empty texts are left out, except for results of tools, which are joined as parts.
    return chat_content(walk, content, keeps_parts, "\n", !walk->rules->content_is_list, out);
}

// A copy of `dict` with these of its members first.
static bool vllm_reorder(struct chat_walk *walk, const struct value_dict *dict,
                         const char *const *order, uint32_t count, struct chat_dict *out)
{
    if (!chat_dict_begin(walk, dict->count + 1, out)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct value value = chat_get(dict, order[i]);
        if (value.kind != VALUE_UNDEFINED) {
            chat_dict_append(out, slice_str(order[i]), value);
        }
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        if (chat_name_find(order, count, dict->members[i].key.string) == count) {
            chat_dict_append(out, dict->members[i].key.string, dict->members[i].value);
        }
    }
    return true;
}

static bool is_blank_json(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.bytes[i];
        if (byte != ' ' && byte != '\t' && byte != '\n' && byte != '\r') {
            return false;
        }
    }
    return true;
}

// The text of an object becomes that object; a missing value and a scalar become {}.
static bool vllm_arguments(struct chat_walk *walk, struct value given, struct value *out)
{
    bool is_text = given.kind == VALUE_STRING && !is_blank_json(given.string);

    if (is_text && !value_from_json(walk->room, given.string, &given)) {
        return false;
    }
    *out = given;
    if (given.kind == VALUE_DICT) {
        return true;
    }
    if (is_text || given.kind == VALUE_LIST) {
        return chat_refuse(walk, "arguments of a call that are not an object"); // releases differ
    }
    struct value_dict *empty = value_dict_new(walk->room, 0);
    *out = (struct value){.kind = VALUE_DICT, .dict = empty};
    return empty != NULL;
}

static bool vllm_call(struct chat_walk *walk, const struct value *call, struct value *out)
{
    const struct value_dict *given = chat_function_of(walk, call);
    struct value arguments;
    struct chat_dict function;
    struct chat_dict made;

    if (given == NULL || !vllm_arguments(walk, chat_get(given, "arguments"), &arguments) ||
        !vllm_reorder(walk, given, vllm_function_order, ARRAY_COUNT(vllm_function_order),
                      &function) ||
        !vllm_reorder(walk, call->dict, vllm_call_order, ARRAY_COUNT(vllm_call_order), &made)) {
        return false;
    }
    chat_dict_put(&function, slice_str("arguments"), arguments);
    chat_dict_put(&made, slice_str("function"), chat_dict_end(&function));
    *out = chat_dict_end(&made);
    return true;
}

// A line that one client adds to system messages, and that newer releases remove.
static bool has_billing_line(const struct value *content)
{
    static const char line[] = "x-anthropic-billing-header";

    if (content->kind == VALUE_STRING) {
        return slice_starts_with(content->string, line);
    }
    uint32_t count = content->kind == VALUE_LIST ? content->list->count : 0;
    uint32_t i = 0;
    while (i < count && !slice_starts_with(content->list->items[i].string, line)) {
        i++;
    }
    return i < count;
}

static bool vllm_message(struct chat_walk *walk, const struct chat_message *message,
                         struct value *out)
{
    const struct value *values = message->values;
    const struct value absent = {0};
    struct slice role = values[CHAT_KEY_ROLE].string;
    bool is_assistant = slice_is(role, "assistant");
    bool is_developer = slice_is(role, "developer");
    bool is_renamed = is_developer && !walk->rules->knows_developer;
    bool is_tool = slice_is(role, "tool");
    const struct value *given_calls = &values[CHAT_KEY_TOOL_CALLS];
    struct value content;
    struct value calls = absent;
    struct value reasoning = absent;

    if (chat_is_given(&values[CHAT_KEY_TOOLS])) {
        return chat_refuse(walk, "tools of a message");
    }
    if (slice_is(role, "system") && has_billing_line(&values[CHAT_KEY_CONTENT])) {
        return chat_refuse(walk, "a billing header in a system message");
    }
    bool has_calls =
        is_assistant && given_calls->kind == VALUE_LIST && given_calls->list->count > 0;
    if (!vllm_content(walk, &values[CHAT_KEY_CONTENT], is_tool, &content) ||
        (has_calls && !chat_map(walk, given_calls->list, vllm_call, &calls))) {
        return false;
    }
    if (is_assistant) {
        bool is_given = chat_is_given(&values[CHAT_KEY_REASONING]);
        reasoning = chat_given(values[is_given ? CHAT_KEY_REASONING : CHAT_KEY_REASONING_CONTENT]);
    }
    const struct chat_member members[] = {
        {"role", is_renamed ? chat_word("system") : values[CHAT_KEY_ROLE]},
        {"content", content},
        {"tool_calls", calls},
        {"reasoning", reasoning},
        {"reasoning_content", reasoning},
        {"tool_call_id", is_tool ? values[CHAT_KEY_TOOL_CALL_ID] : absent},
        {"name", chat_given(values[CHAT_KEY_NAME])},
        {"task", chat_given(values[CHAT_KEY_TASK])},
        {"tools", is_developer && !is_renamed ? value_none() : absent},
    };
    return chat_dict_of(walk, members, ARRAY_COUNT(members), out);
}

static bool is_system_message(const struct value *message)
{
    return slice_is(chat_get(message->dict, "role").string, "system");
}

// Adds the text of a content to `texts`; the parts of a list are its lines.
static bool push_content_text(struct chat_walk *walk, struct value content,
                              struct chat_values *texts)
{
    struct chat_values lines = {0};
    struct value list;
    struct value text = content;

    if (content.kind == VALUE_LIST) {
        for (uint32_t i = 0; i < content.list->count; i++) {
            if (!chat_push(walk, &lines, chat_get(content.list->items[i].dict, "text"))) {
                return false;
            }
        }
        if (!chat_list_of(walk, &lines, &list) || !chat_join(walk, list.list, "\n", false, &text)) {
            return false;
        }
    }
    return chat_push(walk, texts, text);
}

// Puts one system message, with the texts of all, before the other messages.
static bool merge_systems(struct chat_walk *walk)
{
    struct chat_values texts = {0};
    struct chat_values others = {0};
    struct value list;
    struct value content;

    if (!chat_push(walk, &others, value_none())) { // the place of the system message
        return false;
    }
    for (uint32_t i = 0; i < walk->messages.count; i++) {
        const struct value *message = &walk->messages.items[i];
        if (!(is_system_message(message)
                  ? push_content_text(walk, chat_get(message->dict, "content"), &texts)
                  : chat_push(walk, &others, *message))) {
            return false;
        }
    }
    if (!chat_list_of(walk, &texts, &list) || !chat_join(walk, list.list, "\n\n", true, &content)) {
        return false;
    }
    const struct chat_member members[] = {{"role", chat_word("system")}, {"content", content}};
    walk->messages = others;
    return chat_dict_of(walk, members, ARRAY_COUNT(members), &walk->messages.items[0]);
}

static bool vllm_finish(struct chat_walk *walk)
{
    uint32_t i = 1;

    if (!walk->turns.has_developer || walk->rules->knows_developer) {
        return true;
    }
    while (i < walk->messages.count && !is_system_message(&walk->messages.items[i])) {
        i++;
    }
    return i >= walk->messages.count || merge_systems(walk);
}

static bool vllm_tool(struct chat_walk *walk, const struct value *tool, struct value *out)
{
    static const char *const order[] = {"name", "description", "parameters", "strict"};
    const struct value_dict *given = chat_function_of(walk, tool);
    struct value function;

    if (given == NULL || !chat_get_of_kind(walk, given, "parameters", VALUE_DICT, &function) ||
        !chat_function_make(walk, given, order, &function)) {
        return false;
    }
    const struct chat_member members[] = {{"type", chat_word("function")}, {"function", function}};
    return chat_dict_of(walk, members, ARRAY_COUNT(members), out);
}

static bool vllm_tools(struct chat_walk *walk, const struct value_list *tools, struct value *out)
{
    if (tools->count == 0) {
        return chat_refuse(walk, "a list of tools without any"); // an error of newer releases
    }
    return chat_map(walk, tools, vllm_tool, out);
}

// Null and "auto" mean: not set.
static bool is_set_kwarg(const struct value *value)
{
    return value->kind != VALUE_NONE &&
           (value->kind != VALUE_STRING || !slice_is(value->string, "auto"));
}

static bool vllm_kwargs(struct chat_walk *walk, const struct chat_kwargs *kwargs,
                        struct chat_dict *variables)
{
    struct value effort;
    struct slice thinking = slice_str("enable_thinking");

    for (uint32_t i = 0; i < kwargs->defaults->count; i++) {
        const struct value_member *member = &kwargs->defaults->members[i];
        if (chat_reads(walk, member->key.string)) {
            chat_dict_put(variables, member->key.string, member->value);
        }
    }
    for (uint32_t i = 0; i < kwargs->given->count; i++) {
        const struct value_member *member = &kwargs->given->members[i];
        if (is_set_kwarg(&member->value) && chat_reads(walk, member->key.string)) {
            walk->shape |= CHAT_KWARGS_SHAPE;
            chat_dict_put(variables, member->key.string, member->value);
        }
    }
    if (!chat_effort(walk, &effort) || !chat_is_given(&effort)) {
        return walk->room->status == STATUS_OK;
    }
    if (chat_reads(walk, slice_str("reasoning_effort"))) {
        chat_dict_put(variables, slice_str("reasoning_effort"), effort);
    }
    if (chat_reads(walk, thinking) && value_dict_get(kwargs->given, thinking) == NULL) {
        chat_dict_put(variables, thinking, value_bool(!slice_is(effort.string, "none")));
    }
    return true;
}

const struct chat_maker chat_vllm = {
    .message = vllm_message,
    .finish = vllm_finish,
    .tools = vllm_tools,
    .kwargs = vllm_kwargs,
    .has_documents = true,
    .obeys_generation = true,
};
