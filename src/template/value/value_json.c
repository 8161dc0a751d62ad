// SPDX-License-Identifier: Apache-2.0
//
// Writing is json.dumps, byte for byte.  Reading is json.loads, less what no UTF-8 can hold (halves of
// surrogate pairs) and what is no JSON (NaN): those are refused.
//
// While reading, the items of containers that have not ended lie at the far end of the arena, growing down;
// when one ends, its items are moved to the near end, all at once and in their final size.

#include "base/base.h"
#include "base/utf8.h"
#include "json/json.h"
#include "template/value/value.h"
#include "template/value/value_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // Python refuses to convert longer ones, since that takes quadratic time.
    integer_digits_max = 4300,
    // Its shortest decimal takes as long as so many other steps.
    float_steps = 64,
};

struct value_json_writer {
    struct value_room *room;
    const struct value_json_style *style;
    struct slice item_separator;
    struct slice key_separator;
    struct text *out;
};

static bool is_json_plain(uint8_t byte, bool ensure_ascii)
{
    return byte >= 0x20 && byte != '"' && byte != '\\' && (!ensure_ascii || byte < 0x7f);
}

// How many bytes from `at` on stand for themselves.
static size_t plain_size(struct slice string, size_t at, bool ensure_ascii)
{
    size_t end = at;
    // Eight at a time: (word - ones * n) & ~word has the top bit of a byte set when a byte below n is there.
    const uint64_t ones = 0x0101010101010101;
    for (; string.size - end >= 8; end += 8) {
        uint64_t word;
        memcpy(&word, string.bytes + end, sizeof(word));
        uint64_t quotes = word ^ (ones * '"');
        uint64_t backslashes = word ^ (ones * '\\');
        uint64_t special = ((word - ones * 0x20) & ~word) | ((quotes - ones) & ~quotes) |
                           ((backslashes - ones) & ~backslashes);
        special |= ensure_ascii ? word | (word + ones) : 0;
        if ((special & (ones * 0x80)) != 0) {
            break;
        }
    }
    while (end < string.size && is_json_plain(string.bytes[end], ensure_ascii)) {
        end++;
    }
    return end - at;
}

static void add_unit(uint32_t unit, struct text *out)
{
    ASSERT(unit <= 0xffff);
    text_add_format(out, "\\u%04x", unit);
}

static void add_escape(uint32_t code_point, struct text *out)
{
    static const char characters[] = "\"\\\n\r\t\f\b";
    static const char letters[] = "\"\\nrtfb";
    const char *found =
        code_point > 0 && code_point < 0x80 ? strchr(characters, (int)code_point) : NULL;
    if (found != NULL) {
        char text[2] = {'\\', letters[found - characters]};
        text_add(out, slice_of(text, sizeof(text)));
    } else if (code_point > 0xffff) {
        add_unit(0xd800 + ((code_point - 0x10000) >> 10), out);
        add_unit(0xdc00 + (code_point & 0x3ff), out);
    } else {
        add_unit(code_point, out);
    }
}

static void writer_string(struct slice string, bool ensure_ascii, struct text *out)
{
    text_add_str(out, "\"");
    for (size_t at = 0; at < string.size && !out->overflow;) {
        size_t plain = plain_size(string, at, ensure_ascii);
        text_add(out, slice_of(string.bytes + at, plain));
        at += plain;
        if (at < string.size) {
            unsigned size = 0;
            add_escape(utf8_read(string.bytes + at, &size), out);
            at += size;
        }
    }
    text_add_str(out, "\"");
}

static void writer_float(double number, struct text *out)
{
    if (isnan(number)) {
        text_add_str(out, "NaN");
    } else if (isinf(number)) {
        text_add_str(out, number < 0 ? "-Infinity" : "Infinity");
    } else {
        value_print_float(number, out);
    }
}

// False when it is a container, or nothing that JSON has.
static bool writer_scalar(const struct value_json_writer *writer, const struct value *value)
{
    struct text *out = writer->out;
    switch (value->kind) {
    case VALUE_NONE:
        text_add_str(out, "null");
        return true;
    case VALUE_BOOL:
        text_add_str(out, value->boolean ? "true" : "false");
        return true;
    case VALUE_INT:
        text_add_format(out, "%lld", (long long)value->integer);
        return true;
    case VALUE_BIG_INT:
        text_add(out, value->string);
        return true;
    case VALUE_FLOAT:
        writer_float(value->number, out);
        return true;
    case VALUE_STRING:
        writer_string(value->string, writer->style->ensure_ascii, out);
        return true;
    default:
        return false;
    }
}

static void write_break(const struct value_json_writer *writer, unsigned depth)
{
    ASSERT_SLOW(depth <= value_depth_max);
    if (writer->style->indent < 0) {
        return;
    }
    text_add_str(writer->out, "\n");
    uint64_t spaces = (uint64_t)writer->style->indent * depth;
    for (uint64_t i = 0; i < spaces && !writer->out->overflow; i++) {
        text_add_str(writer->out, " ");
    }
}

static void write_separator(const struct value_json_writer *writer, uint32_t index, unsigned depth)
{
    if (index > 0) {
        text_add(writer->out, writer->item_separator);
    }
    write_break(writer, depth);
}

static bool writer_value(const struct value_json_writer *writer, const struct value *value,
                         unsigned depth);

static bool writer_list(const struct value_json_writer *writer, const struct value_list *list,
                        unsigned depth)
{
    ASSERT(depth > 0 && depth <= value_depth_max);
    if (list->count == 0) {
        text_add_str(writer->out, "[]");
        return true;
    }
    text_add_str(writer->out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        write_separator(writer, i, depth);
        if (!writer_value(writer, &list->items[i], depth)) {
            return false;
        }
    }
    write_break(writer, depth - 1);
    text_add_str(writer->out, "]");
    return true;
}

// Keys that are no strings are written as strings of what they are.
static bool writer_key(const struct value_json_writer *writer, const struct value *key)
{
    switch (key->kind) {
    case VALUE_STRING:
        writer_string(key->string, writer->style->ensure_ascii, writer->out);
        return true;
    case VALUE_NONE:
    case VALUE_BOOL:
    case VALUE_INT:
    case VALUE_BIG_INT:
    case VALUE_FLOAT:
        text_add_str(writer->out, "\"");
        (void)writer_scalar(writer, key);
        text_add_str(writer->out, "\"");
        return true;
    default:
        return value_raise(writer->room, "keys must be str, int, float, bool or None, not %s",
                           value_type_name(key));
    }
}

// The next member in the order of keys after `last`, the first one when that is NULL.  Quadratic, which
// steps bound; what is sorted has a few members.
static bool next_sorted(const struct value_json_writer *writer, const struct value_dict *dict,
                        const struct value_member *last, const struct value_member **out)
{
    const struct value_member *next = NULL;
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value_member *member = &dict->members[i];
        int after = 1;
        int before = -1;
        if (last != NULL && !value_compare(writer->room, &member->key, &last->key, &after)) {
            return false;
        }
        if (next != NULL && !value_compare(writer->room, &member->key, &next->key, &before)) {
            return false;
        }
        if (after > 0 && before < 0) {
            next = member;
        }
    }
    *out = next;
    return true;
}

static bool writer_dict(const struct value_json_writer *writer, const struct value_dict *dict,
                        unsigned depth)
{
    ASSERT(depth > 0 && depth <= value_depth_max);
    if (dict->count == 0) {
        text_add_str(writer->out, "{}");
        return true;
    }
    const struct value_member *member = NULL;
    text_add_str(writer->out, "{");
    for (uint32_t i = 0; i < dict->count; i++) {
        write_separator(writer, i, depth);
        if (!writer->style->sort_keys) {
            member = &dict->members[i];
        } else if (!next_sorted(writer, dict, member, &member)) {
            return false;
        }
        if (!writer_key(writer, &member->key)) {
            return false;
        }
        text_add(writer->out, writer->key_separator);
        if (!writer_value(writer, &member->value, depth)) {
            return false;
        }
    }
    write_break(writer, depth - 1);
    text_add_str(writer->out, "}");
    return true;
}

static bool writer_value(const struct value_json_writer *writer, const struct value *value,
                         unsigned depth)
{
    if (writer->out->overflow || depth >= value_depth_max) {
        return value_fail(writer->room, STATUS_TOO_LARGE, "what is written as JSON is too large");
    }
    if (!value_step(writer->room, value->kind == VALUE_FLOAT ? float_steps : 1) ||
        writer_scalar(writer, value)) {
        return writer->room->status == STATUS_OK;
    }
    switch (value->kind) {
    case VALUE_LIST:
    case VALUE_TUPLE:
        return writer_list(writer, value->list, depth + 1);
    case VALUE_DICT:
        return writer_dict(writer, value->dict, depth + 1);
    default:
        return value_raise(writer->room, "Object of type %s is not JSON serializable",
                           value_type_name(value));
    }
}

bool value_to_json(struct value_room *room, const struct value *value,
                   const struct value_json_style *style, struct text *out)
{
    struct value_json_writer writer = {
        .room = room,
        .style = style,
        .item_separator = style->item_separator,
        .key_separator = style->key_separator,
        .out = out,
    };
    if (writer.item_separator.bytes == NULL) {
        writer.item_separator = slice_str(style->indent < 0 ? ", " : ",");
    }
    if (writer.key_separator.bytes == NULL) {
        writer.key_separator = slice_str(": ");
    }
    size_t before = out->size;
    if (!writer_value(&writer, value, 0)) {
        return false;
    }
    if (out->overflow) {
        return value_fail(room, STATUS_TOO_LARGE, "what is written as JSON is too large");
    }
    return value_step(room, 1 + (out->size - before) / 64);
}

struct value_json_reader {
    struct value_room *room;
    struct json json;
    struct value_member *pending; // the lowest item at the far end of the arena
};

// The arena ends where the pending items begin, so that nothing is taken twice.
static bool reader_push(struct value_json_reader *reader, const struct value_member *member)
{
    ASSERT(reader->room->arena->used <= reader->room->arena->size);
    struct arena *arena = reader->room->arena;
    if (arena->size - arena->used < sizeof(*member)) {
        return value_fail(reader->room, STATUS_TOO_LARGE, "the JSON is too large");
    }
    arena->size -= sizeof(*member);
    reader->pending--;
    *reader->pending = *member;
    return true;
}

static void reader_pop(struct value_json_reader *reader, uint32_t count)
{
    reader->room->arena->size += count * sizeof(*reader->pending);
    reader->pending += count;
}

static bool reader_string(struct value_json_reader *reader, struct slice raw, struct value *out)
{
    if (raw.size == 0 || memchr(raw.bytes, '\\', raw.size) == NULL) {
        *out = value_string(raw);
        return true;
    }
    uint8_t *bytes = value_bytes_new(reader->room, raw.size);
    if (bytes == NULL) {
        return false;
    }
    struct slice string;
    if (json_string_decode(raw, bytes, raw.size, &string) != STATUS_OK) {
        return value_raise(reader->room, "a string of the JSON has half a surrogate pair");
    }
    *out = value_string(string);
    return true;
}

static bool is_float_text(struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '.' || (text.bytes[i] | 0x20) == 'e') {
            return true;
        }
    }
    return false;
}

static bool reader_integer(struct value_json_reader *reader, struct slice text, struct value *out)
{
    ASSERT(text.size > 0);
    bool negative = text.bytes[0] == '-';
    size_t digits = text.size - negative;
    uint64_t magnitude = 0;
    if (digits > integer_digits_max) {
        return value_raise(reader->room, "an integer of the JSON has more than %d digits",
                           integer_digits_max);
    }
    struct slice number = slice_of(text.bytes + negative, digits);
    if (slice_parse_u64(number, &magnitude) && magnitude <= (uint64_t)INT64_MAX + negative) {
        *out = value_int((int64_t)(negative ? 0 - magnitude : magnitude));
    } else {
        *out = (struct value){.kind = VALUE_BIG_INT, .string = text};
    }
    return true;
}

static bool reader_float(struct value_json_reader *reader, struct slice text, struct value *out)
{
    ASSERT(text.size > 0);
    char brief[64];
    char *copy = brief;
    // Paid here, since the number may be printed where steps are not counted.
    if (!value_step(reader->room, float_steps)) {
        return false;
    }
    if (text.size >= sizeof(brief)) {
        copy = (char *)value_bytes_new(reader->room, text.size + 1);
        if (copy == NULL) {
            return false;
        }
    }
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    *out = value_float(strtod(copy, NULL));
    return true;
}

static bool reader_value(struct value_json_reader *reader, const struct json_value *value,
                         struct value *out);

// Moves the items that were pushed last, the first of them highest up.
static bool end_list(struct value_json_reader *reader, uint32_t count, struct value *out)
{
    struct value_list *list = value_list_new(reader->room, count);
    if (list == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        list->items[i] = reader->pending[count - 1 - i].value;
    }
    reader_pop(reader, count);
    *out = (struct value){.kind = VALUE_LIST, .list = list};
    return true;
}

// Whether a few keys differ, by comparing each with each.
static bool keys_differ(const struct value_dict *dict)
{
    for (uint32_t i = 1; i < dict->count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (slice_equal(dict->members[i].key.string, dict->members[j].key.string)) {
                return false;
            }
        }
    }
    return true;
}

// Of members with the same key the first stays, with the value of the last.
static bool merge_keys(struct value_room *room, struct value_dict *dict)
{
    // Many keys are sorted: clients choose them, and could choose them so that a table of hashes is slow.
    enum { compared_max = 16 };
    if (dict->count <= compared_max && keys_differ(dict)) {
        return true;
    }
    struct arena before = *room->arena;
    struct value_sort_entry *entries = value_sort_entries_new(room, dict->count);
    if (entries == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        entries[i] = (struct value_sort_entry){.key = &dict->members[i].key, .index = i};
    }
    if (!value_sort(room, entries, dict->count, false)) {
        return false;
    }
    // Equal keys are neighbours now, in their order.
    uint32_t first = 0;
    for (uint32_t i = 1; i < dict->count; i++) {
        if (slice_equal(entries[i].key->string, entries[first].key->string)) {
            struct value_member *repeated = &dict->members[entries[i].index];
            dict->members[entries[first].index].value = repeated->value;
            repeated->value.kind = VALUE_UNDEFINED; // no value of JSON is: this one goes
        } else {
            first = i;
        }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < dict->count; i++) {
        if (dict->members[i].value.kind != VALUE_UNDEFINED) {
            dict->members[kept++] = dict->members[i];
        }
    }
    ASSERT(kept > 0 && kept <= dict->count);
    dict->count = kept;
    *room->arena = before;
    return true;
}

static bool end_dict(struct value_json_reader *reader, uint32_t count, struct value *out)
{
    struct value_dict *dict = value_dict_new(reader->room, count);
    if (dict == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        dict->members[i] = reader->pending[count - 1 - i];
    }
    reader_pop(reader, count);
    *out = (struct value){.kind = VALUE_DICT, .dict = dict};
    return merge_keys(reader->room, dict);
}

// json.h bounds how deep this goes.
static bool reader_container(struct value_json_reader *reader, bool object, struct value *out)
{
    struct json_item item;
    uint32_t count = 0;
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        struct value_member member = {0};
        if (!value_step(reader->room, 1) ||
            (object && !reader_string(reader, item.key, &member.key)) ||
            !reader_value(reader, &item.value, &member.value) || !reader_push(reader, &member)) {
            return false;
        }
        count++;
    }
    if (reader->json.status != STATUS_OK) {
        return false;
    }
    return object ? end_dict(reader, count, out) : end_list(reader, count, out);
}

static bool reader_value(struct value_json_reader *reader, const struct json_value *value,
                         struct value *out)
{
    switch (value->kind) {
    case JSON_NULL:
        *out = value_none();
        return true;
    case JSON_BOOL:
        *out = value_bool(json_is_true(value));
        return true;
    case JSON_NUMBER:
        return is_float_text(value->raw) ? reader_float(reader, value->raw, out)
                                         : reader_integer(reader, value->raw, out);
    case JSON_STRING:
        return reader_string(reader, value->raw, out);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return reader_container(reader, value->kind == JSON_OBJECT, out);
    case JSON_ABSENT:
        break;
    }
    ASSERT(false);
    return false;
}

bool value_from_json(struct value_room *room, struct slice json, struct value *out)
{
    struct arena *arena = room->arena;
    size_t whole = arena->size;
    // The memory is aligned for anything, and so is its end once the size is.
    arena->size -= arena->size - arena->used < 16 ? 0 : arena->size % 16;
    struct value_json_reader reader = {
        .room = room,
        .json = json_open(json),
        .pending = (struct value_member *)(void *)(arena->bytes + arena->size),
    };
    struct json_item item;
    struct value value = value_none();
    bool read = value_step(room, 1 + json.size / 64) && json_next(&reader.json, &item) &&
                reader_value(&reader, &item.value, &value);
    arena->size = whole;
    enum status status = json_close(&reader.json);
    if (room->status == STATUS_OK && status != STATUS_OK) {
        return value_fail(room, status,
                          status == STATUS_TOO_LARGE ? "the JSON is nested too deep"
                                                     : "what is read as JSON is none");
    }
    if (read && room->status == STATUS_OK) {
        *out = value;
        return true;
    }
    return false;
}
