// SPDX-License-Identifier: Apache-2.0
//
// Nearly all bytes of a request are contents of messages.  Texts without escapes are not copied;
// only the search for escapes reads them a second time.

#include "base/base.h"
#include "dialect/chat_internal.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const message_names[] = {
#define X(name, text) text,
    CHAT_KEY_MAP(X)
#undef X
};

enum part_key { PART_TYPE, PART_TEXT, part_key_count };
static const char *const part_names[] = {[PART_TYPE] = "type", [PART_TEXT] = "text"};

bool chat_refuse(struct chat_walk *walk, const char *format, ...)
{
    char text[sizeof(walk->room->error)];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return value_fail(walk->room, STATUS_MALFORMED, "%s", text);
}

uint32_t chat_name_find(const char *const *names, uint32_t count, struct slice text)
{
    // The first byte alone tells most names apart.
    uint8_t first = text.size > 0 ? text.bytes[0] : 0;
    uint32_t i = 0;
    while (i < count && (first != (uint8_t)names[i][0] || !slice_is(text, names[i]))) {
        i++;
    }
    return i;
}

uint32_t chat_key_find(const char *const *names, uint32_t count, struct slice key)
{
    uint32_t i = chat_name_find(names, count, key);
    if (i == count && key.size > 0 && memchr(key.bytes, '\\', key.size) != NULL) {
        for (i = 0; i < count && !json_string_is(key, names[i]); i++) {
        }
    }
    return i;
}

bool chat_push(struct chat_walk *walk, struct chat_values *values, struct value value)
{
    if (values->count == values->capacity) {
        uint32_t capacity = values->capacity > 0 ? 2 * values->capacity : 16;
        struct value *items = (void *)value_bytes_new(walk->room, capacity * sizeof(*items));
        if (items == NULL) {
            return false;
        }
        if (values->count > 0) {
            memcpy(items, values->items, values->count * sizeof(*items));
        }
        values->items = items;
        values->capacity = capacity;
    }
    values->items[values->count++] = value;
    return true;
}

bool chat_list_of(struct chat_walk *walk, const struct chat_values *values, struct value *out)
{
    struct value_list *list = value_list_new(walk->room, values->count);
    if (list == NULL) {
        return false;
    }
    if (values->count > 0) {
        memcpy(list->items, values->items, values->count * sizeof(list->items[0]));
    }
    *out = value_of_list(list);
    return true;
}

bool chat_string(struct chat_walk *walk, struct slice raw, struct value *out)
{
    struct slice text = raw;

    if (raw.size > 0 && memchr(raw.bytes, '\\', raw.size) != NULL) {
        uint8_t *bytes = value_bytes_new(walk->room, raw.size);
        if (bytes == NULL) {
            return false;
        }
        if (json_string_decode(raw, bytes, raw.size, &text) != STATUS_OK) {
            return chat_refuse(walk, "half a surrogate pair");
        }
    }
    *out = value_string(text);
    return true;
}

bool chat_dict_begin(struct chat_walk *walk, uint32_t capacity, struct chat_dict *out)
{
    out->dict = value_dict_new(walk->room, capacity);
    out->capacity = capacity;
    if (out->dict != NULL) {
        out->dict->count = 0;
    }
    return out->dict != NULL;
}

void chat_dict_append(struct chat_dict *dict, struct slice key, struct value value)
{
    ASSERT(dict->dict->count < dict->capacity);

    dict->dict->members[dict->dict->count++] =
        (struct value_member){.key = value_string(key), .value = value};
}

void chat_dict_put(struct chat_dict *dict, struct slice key, struct value value)
{
    struct value_dict *inner = dict->dict;
    uint32_t i = 0;

    while (i < inner->count && !slice_equal(inner->members[i].key.string, key)) {
        i++;
    }
    ASSERT(i < dict->capacity);
    inner->members[i] = (struct value_member){.key = value_string(key), .value = value};
    inner->count += i == inner->count;
}

struct value chat_dict_end(const struct chat_dict *dict)
{
    return (struct value){.kind = VALUE_DICT, .dict = dict->dict};
}

bool chat_map(struct chat_walk *walk, const struct value_list *list, chat_make_fn *make,
              struct value *out)
{
    struct value_list *made = value_list_new(walk->room, list->count);

    for (uint32_t i = 0; made != NULL && i < list->count; i++) {
        if (!make(walk, &list->items[i], &made->items[i])) {
            return false;
        }
    }
    *out = value_of_list(made);
    return made != NULL;
}

bool chat_dict_of(struct chat_walk *walk, const struct chat_member *members, uint32_t count,
                  struct value *out)
{
    struct chat_dict made;
    uint32_t made_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        made_count += members[i].value.kind != VALUE_UNDEFINED;
    }
    if (!chat_dict_begin(walk, made_count, &made)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].value.kind != VALUE_UNDEFINED) {
            chat_dict_append(&made, slice_str(members[i].key), members[i].value);
        }
    }
    *out = chat_dict_end(&made);
    return true;
}

bool chat_text_part(struct chat_walk *walk, const struct value *text, struct value *out)
{
    const struct chat_member part[] = {{"type", chat_word("text")}, {"text", *text}};
    return chat_dict_of(walk, part, ARRAY_COUNT(part), out);
}

bool chat_content(struct chat_walk *walk, const struct value *content, bool keeps_parts,
                  const char *separator, bool skips_empty, struct value *out)
{
    if (content->kind == VALUE_LIST) {
        return keeps_parts ? chat_map(walk, content->list, chat_text_part, out)
                           : chat_join(walk, content->list, separator, skips_empty, out);
    }
    *out = content->kind == VALUE_STRING ? *content : chat_word("");
    return true;
}

bool chat_join(struct chat_walk *walk, const struct value_list *list, const char *separator,
               bool skips_empty, struct value *out)
{
    size_t separator_size = strlen(separator);
    size_t size = 0;
    struct slice only = slice_str("");
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        struct slice text = list->items[i].string;
        if (text.size > 0 || !skips_empty) {
            size += text.size + (count > 0 ? separator_size : 0);
            only = text;
            count++;
        }
    }
    *out = value_string(only);
    if (count <= 1) {
        return true;
    }
    uint8_t *bytes = value_bytes_new(walk->room, size);
    if (bytes == NULL) {
        return false;
    }
    struct text joined = text_over(bytes, size);
    bool first = true;
    for (uint32_t i = 0; i < list->count; i++) {
        struct slice text = list->items[i].string;
        if (text.size > 0 || !skips_empty) {
            text_add(&joined, slice_of(separator, first ? 0 : separator_size));
            text_add(&joined, text);
            first = false;
        }
    }
    ASSERT(joined.size == size);
    *out = value_string(text_slice(&joined));
    return true;
}

// A part of the content, whose object `json` has entered.
static bool part_read(struct chat_walk *walk, struct json *json)
{
    struct json_value found[part_key_count] = {0};
    struct json_item item;
    struct value type = {0};
    struct value text;

    while (json_next(json, &item)) {
        uint32_t key = chat_key_find(part_names, part_key_count, item.key);
        if (key < part_key_count) {
            found[key] = item.value;
        } else {
            walk->has_part_members = true;
        }
    }
    if (found[PART_TYPE].kind != JSON_STRING) {
        return chat_refuse(walk, "a part of a content without a type");
    }
    if (!chat_string(walk, found[PART_TYPE].raw, &type)) {
        return false;
    }
    if (!slice_is(type.string, "text")) {
        size_t size = type.string.size < 40 ? type.string.size : 40;
        return chat_refuse(walk, "a part of type %.*s", (int)size, (const char *)type.string.bytes);
    }
    if (found[PART_TEXT].kind != JSON_STRING) {
        return chat_refuse(walk, "a part of type text without a text");
    }
    return chat_string(walk, found[PART_TEXT].raw, &text) && chat_push(walk, &walk->parts, text);
}

static bool parts_read(struct chat_walk *walk, struct json *json, struct value *out)
{
    struct json_item item;

    walk->parts.count = 0;
    walk->has_part_members = false;
    json_enter(json);
    while (json_next(json, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            return chat_refuse(walk, "a part of a content that is not an object");
        }
        json_enter(json);
        if (!part_read(walk, json)) {
            return false;
        }
    }
    return chat_list_of(walk, &walk->parts, out);
}

static bool message_member_read(struct chat_walk *walk, struct json *json, enum chat_key key,
                                struct json_value *value, struct value *out)
{
    if (value->kind == JSON_NULL) {
        *out = value_none();
        return true;
    }
    switch (key) {
    case CHAT_KEY_TOOL_CALLS:
    case CHAT_KEY_TOOLS:
        if (value->kind != JSON_ARRAY) {
            return chat_refuse(walk, "%s of a message that are not a list", message_names[key]);
        }
        // json_close reports a failure of the cursor.
        return json_skip(json, value) && value_from_json(walk->room, value->raw, out);
    case CHAT_KEY_PHASE:
    case CHAT_KEY_PREFIX:
        *out = value->kind == JSON_BOOL && !json_is_true(value) ? value_none() : value_bool(true);
        return true;
    case CHAT_KEY_CONTENT:
        if (value->kind == JSON_ARRAY) {
            return parts_read(walk, json, out);
        }
        break;
    default:
        break;
    }
    if (value->kind != JSON_STRING) {
        return chat_refuse(walk, "a %s of a message that is not a text", message_names[key]);
    }
    return chat_string(walk, value->raw, out);
}

bool chat_message_read(struct chat_walk *walk, struct json *json, struct chat_message *out)
{
    struct json_item item;

    *out = (struct chat_message){0};
    while (json_next(json, &item)) {
        uint32_t key = chat_key_find(message_names, chat_key_count, item.key);
        if (key < chat_key_count &&
            !message_member_read(walk, json, (enum chat_key)key, &item.value, &out->values[key])) {
            return false;
        }
    }
    if (out->values[CHAT_KEY_ROLE].kind != VALUE_STRING) {
        return chat_refuse(walk, "a message without a role");
    }
    return true;
}
