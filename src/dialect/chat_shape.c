// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/utf8.h"
#include "dialect/chat_internal.h"
#include "template/value/value_text.h"

const char *chat_shape_text(enum chat_shape_bit bit)
{
    static const char *const texts[] = {
#define X(name, text) text,
        CHAT_SHAPE_MAP(X)
#undef X
    };
    ASSERT(bit < chat_shape_count);
    return texts[bit];
}

static bool has_space_around(struct slice text)
{
    unsigned size;
    const uint8_t *end = text.bytes + text.size;

    return value_text_is_space(utf8_read(text.bytes, &size)) ||
           value_text_is_space(utf8_read(utf8_back(text.bytes, end), &size));
}

// Special tokens are short and without blanks: <|im_end|>, </s>, <tool_call>.
static bool has_special_tag(struct slice text)
{
    enum { tag_size_max = 64 };
    const uint8_t *at = text.bytes;
    const uint8_t *end = text.bytes + text.size;

    while ((at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        const uint8_t *begin = ++at;
        const uint8_t *last = end - at > tag_size_max ? at + tag_size_max : end;
        while (at != last && *at > ' ' && *at != '<' && *at != '>') {
            at++;
        }
        if (at < end && *at == '>' && at > begin) {
            return true;
        }
    }
    return false;
}

static uint32_t shape_of_text(struct slice text)
{
    ASSERT(text.size > 0);
    return (has_space_around(text) ? CHAT_SPACE_SHAPE : 0u) |
           (has_special_tag(text) ? CHAT_SPECIAL_SHAPE : 0u);
}

static uint32_t shape_of_content(const struct value *content, bool calls)
{
    uint32_t empty = calls ? 0 : CHAT_EMPTY_SHAPE;

    if (content->kind == VALUE_STRING) {
        return content->string.size > 0 ? shape_of_text(content->string) : empty;
    }
    if (content->kind != VALUE_LIST) {
        return empty;
    }
    uint32_t shape = CHAT_PARTS_SHAPE | (content->list->count == 0 ? empty : 0);
    for (uint32_t i = 0; i < content->list->count; i++) {
        struct slice text = content->list->items[i].string;
        shape |= text.size > 0 ? shape_of_text(text) : CHAT_EMPTY_SHAPE;
    }
    return shape;
}

// Most templates are made for this: one system message, then the user and the assistant in turns,
// with the results of tools between calls and text.
static bool is_regular_next(const struct chat_walk *walk, struct slice role)
{
    if (walk->turns.turn_count == 0) {
        return slice_is(role, "user");
    }
    if (slice_is(walk->turns.last_role, "user")) {
        return slice_is(role, "assistant");
    }
    if (slice_is(walk->turns.last_role, "assistant")) {
        return slice_is(role, walk->turns.last_calls ? "tool" : "user");
    }
    return slice_is(walk->turns.last_role, "tool") &&
           (slice_is(role, "tool") || slice_is(role, "assistant"));
}

static void shape_note_role(struct chat_walk *walk, struct slice role)
{
    bool is_developer = slice_is(role, "developer");

    if (is_developer || slice_is(role, "system")) {
        walk->shape |= is_developer ? CHAT_DEVELOPER_SHAPE : CHAT_SYSTEM_SHAPE;
        walk->turns.has_developer |= is_developer;
        if (walk->turns.system_count++ > 0 || walk->turns.turn_count > 0) {
            walk->shape |= CHAT_IRREGULAR_SHAPE;
        }
        return;
    }
    if (!is_regular_next(walk, role)) {
        walk->shape |= CHAT_IRREGULAR_SHAPE;
    }
    if (slice_is(role, "assistant")) {
        walk->shape |= CHAT_TURNS_SHAPE;
    } else if (slice_is(role, "tool")) {
        walk->shape |= CHAT_TOOL_RESULTS_SHAPE;
    }
    walk->turns.turn_count++;
    walk->turns.last_role = role;
}

void chat_shape_note(struct chat_walk *walk, const struct chat_message *message)
{
    const struct value *values = message->values;
    bool calls = values[CHAT_KEY_TOOL_CALLS].kind == VALUE_LIST &&
                 values[CHAT_KEY_TOOL_CALLS].list->count > 0;

    shape_note_role(walk, values[CHAT_KEY_ROLE].string);
    walk->turns.last_calls = calls;
    walk->shape |= shape_of_content(&values[CHAT_KEY_CONTENT], calls);
    if (chat_is_given(&values[CHAT_KEY_TOOL_CALLS])) {
        walk->shape |= CHAT_TOOL_CALLS_SHAPE;
    }
    if (chat_is_given(&values[CHAT_KEY_REASONING]) ||
        chat_is_given(&values[CHAT_KEY_REASONING_CONTENT])) {
        walk->shape |= CHAT_REASONING_SHAPE;
    }
    if (chat_is_given(&values[CHAT_KEY_NAME])) {
        walk->shape |= CHAT_NAMES_SHAPE;
    }
}

void chat_shape_end(struct chat_walk *walk)
{
    walk->shape |= CHAT_PLAIN_SHAPE;
    if (!slice_is(walk->turns.last_role, "user") && !slice_is(walk->turns.last_role, "tool")) {
        walk->shape |= CHAT_IRREGULAR_SHAPE;
    }
}

static bool has_other_than(const struct value_dict *dict, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < dict->count; i++) {
        if (chat_name_find(names, count, dict->members[i].key.string) == count) {
            return true;
        }
    }
    return false;
}

void chat_shape_note_tools(struct chat_walk *walk, const struct value_list *tools)
{
    static const char *const tool_names[] = {"type", "function"};
    static const char *const function_names[] = {"name", "description", "parameters"};

    walk->shape |= CHAT_TOOLS_SHAPE;
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct value *tool = &tools->items[i];
        if (tool->kind != VALUE_DICT) {
            continue;
        }
        const struct value *function = value_dict_get(tool->dict, slice_str("function"));
        if (has_other_than(tool->dict, tool_names, ARRAY_COUNT(tool_names)) ||
            (function != NULL && function->kind == VALUE_DICT &&
             has_other_than(function->dict, function_names, ARRAY_COUNT(function_names)))) {
            walk->shape |= CHAT_TOOL_EXTRAS_SHAPE;
        }
    }
}
