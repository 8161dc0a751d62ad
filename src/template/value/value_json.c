// SPDX-License-Identifier: Apache-2.0
//
// Writing is json.dumps, byte for byte.  Reading is json.loads, but refuses halves of surrogate
// pairs, which UTF-8 cannot hold, and NaN, which JSON does not have.
//
// While reading, the items of open containers lie at the far end of the arena, growing down.  When
// a container ends, its items move to the near end, all at once and in their final size.

#include "base/base.h"
#include "base/utf8.h"
#include "json/json.h"
#include "template/value/value.h"
#include "template/value/value_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // Python refuses to convert longer integers, since that takes quadratic time.
    integer_digits_max = 4300,
    // Finding the shortest decimal takes as long as so many other steps.
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

// The number of bytes from `at` on that need no escape.
static size_t plain_size(struct slice string, size_t at, bool ensure_ascii)
{
    size_t end = at;
    // Eight at a time: (word - ones * n) & ~word has a byte's top bit set if a byte is below n.
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

// Python writes NaN and Infinity, which JSON does not have.
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

// False for containers, and for values that JSON does not have.
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
    case VALUE_BIG_INT:
        value_print(value, out);
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

static void writer_value(const struct value_json_writer *writer, const struct value *value,
                         unsigned depth);

// Keys that are not strings are written as strings.
static void writer_key(const struct value_json_writer *writer, const struct value *key)
{
    bool is_string = key->kind == VALUE_STRING;
    text_add_str(writer->out, is_string ? "" : "\"");
    if (!writer_scalar(writer, key)) {
        (void)value_raise(writer->room, "keys must be str, int, float, bool or None, not %s",
                          value_type_name(key));
    }
    text_add_str(writer->out, is_string ? "" : "\"");
    text_add(writer->out, writer->key_separator);
}

// The next member in the order of keys after `last`; the first one if that is NULL.  Quadratic,
// which steps bound: dicts that templates sort are small.
static const struct value_member *next_sorted(const struct value_json_writer *writer,
                                              const struct value_dict *dict,
                                              const struct value_member *last)
{
    const struct value_member *next = NULL;
    for (uint32_t i = 0; i < dict->count; i++) {
        const struct value_member *member = &dict->members[i];
        if ((last == NULL || value_compare(writer->room, &member->key, &last->key) > 0) &&
            (next == NULL || value_compare(writer->room, &member->key, &next->key) < 0)) {
            next = member;
        }
    }
    return next != NULL ? next : &dict->members[0];
}

// A list, or a dict, whose members are written in the order of `sort_keys`.
static void writer_container(const struct value_json_writer *writer, const struct value *value,
                             unsigned depth)
{
    ASSERT(depth > 0 && depth <= value_depth_max);
    bool is_dict = value->kind == VALUE_DICT;
    uint32_t count = is_dict ? value->dict->count : value->list->count;
    const struct value_member *member = NULL;
    text_add_str(writer->out, is_dict ? "{" : "[");
    for (uint32_t i = 0; i < count && writer->room->status == STATUS_OK; i++) {
        text_add(writer->out, i > 0 ? writer->item_separator : slice_of(NULL, 0));
        write_break(writer, depth);
        if (!is_dict) {
            writer_value(writer, &value->list->items[i], depth);
            continue;
        }
        member = writer->style->sort_keys ? next_sorted(writer, value->dict, member)
                                          : &value->dict->members[i];
        writer_key(writer, &member->key);
        writer_value(writer, &member->value, depth);
    }
    if (count > 0) {
        write_break(writer, depth - 1);
    }
    text_add_str(writer->out, is_dict ? "}" : "]");
}

static void writer_value(const struct value_json_writer *writer, const struct value *value,
                         unsigned depth)
{
    if (writer->out->overflow || depth >= value_depth_max) {
        (void)value_fail(writer->room, STATUS_TOO_LARGE, "the JSON output is too large");
    } else if (!value_step(writer->room, value->kind == VALUE_FLOAT ? float_steps : 1) ||
               writer_scalar(writer, value)) {
        return;
    } else if (value_is_sequence(value) || value->kind == VALUE_DICT) {
        writer_container(writer, value, depth + 1);
    } else {
        (void)value_raise(writer->room, "Object of type %s is not JSON serializable",
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
    writer_value(&writer, value, 0);
    if (out->overflow) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the JSON output is too large");
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

static struct value reader_string(struct value_json_reader *reader, struct slice raw)
{
    if (raw.size == 0 || memchr(raw.bytes, '\\', raw.size) == NULL) {
        return value_string(raw);
    }
    struct slice string = {0};
    uint8_t *bytes = value_bytes_new(reader->room, raw.size);
    if (bytes != NULL && json_string_decode(raw, bytes, raw.size, &string) != STATUS_OK) {
        (void)value_raise(reader->room, "a string of the JSON has half a surrogate pair");
    }
    return value_string(string);
}

struct value value_read_integer(struct slice digits)
{
    ASSERT(digits.size > 0);
    bool negative = digits.bytes[0] == '-';
    uint64_t magnitude = 0;
    struct slice number = slice_of(digits.bytes + negative, digits.size - negative);
    return slice_parse_u64(number, &magnitude) && magnitude <= (uint64_t)INT64_MAX + negative
               ? value_int((int64_t)(negative ? 0 - magnitude : magnitude))
               : (struct value){.kind = VALUE_BIG_INT, .string = digits};
}

double value_read_float(struct value_room *room, struct slice digits)
{
    char brief[64];
    char *copy = digits.size < sizeof(brief) ? brief : value_bytes_new(room, digits.size + 1);
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, digits.bytes, digits.size);
    copy[digits.size] = '\0';
    return strtod(copy, NULL);
}

static struct value reader_number(struct value_json_reader *reader, struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '.' || (text.bytes[i] | 0x20) == 'e') {
            // Paid here, since the number may be printed where steps are not counted.
            (void)value_step(reader->room, float_steps);
            return value_float(value_read_float(reader->room, text));
        }
    }
    if (text.size - (text.bytes[0] == '-') > integer_digits_max) {
        (void)value_raise(reader->room, "an integer of the JSON has more than %d digits",
                          integer_digits_max);
    }
    return value_read_integer(text);
}

static struct value reader_value(struct value_json_reader *reader, const struct json_value *value);

// Moves the items that were pushed last, the first of them highest up.
static struct value end_list(struct value_json_reader *reader, uint32_t count)
{
    struct value_list *list = value_list_new(reader->room, count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        list->items[i] = reader->pending[count - 1 - i].value;
    }
    reader_pop(reader, count);
    return value_of_list(list);
}

// Compares each key with each: for a few.
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
static void merge_keys(struct value_room *room, struct value_dict *dict)
{
    // Many keys are sorted: clients choose them, and could make a table of hashes slow.
    enum { compared_max = 16 };
    if (dict->count <= compared_max && keys_differ(dict)) {
        return;
    }
    struct arena before = *room->arena;
    struct value_member **sorted =
        value_bytes_new(room, dict->count * sizeof(struct value_member *));
    if (sorted == NULL) {
        return;
    }
    for (uint32_t i = 0; i < dict->count; i++) {
        sorted[i] = &dict->members[i]; // its key is its first field
    }
    value_sort(room, (const struct value **)(void *)sorted, dict->count, false);
    if (room->status != STATUS_OK) {
        return;
    }
    // Equal keys are neighbours now, in their order.
    struct value_member *first = sorted[0];
    for (uint32_t i = 1; i < dict->count; i++) {
        if (slice_equal(sorted[i]->key.string, first->key.string)) {
            first->value = sorted[i]->value;
            sorted[i]->value.kind = VALUE_UNDEFINED; // JSON has none: marks it for removal
        } else {
            first = sorted[i];
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
}

static struct value end_dict(struct value_json_reader *reader, uint32_t count)
{
    struct value_dict *dict = value_dict_new(reader->room, count);
    for (uint32_t i = 0; dict != NULL && i < count; i++) {
        dict->members[i] = reader->pending[count - 1 - i];
    }
    reader_pop(reader, count);
    if (dict != NULL) {
        merge_keys(reader->room, dict);
    }
    return value_of_dict(dict);
}

// json.h bounds the depth of this recursion.
static struct value reader_container(struct value_json_reader *reader, bool is_object)
{
    struct json_item item;
    uint32_t count = 0;
    json_enter(&reader->json);
    while (json_next(&reader->json, &item)) {
        struct value_member member = {0};
        if (is_object) {
            member.key = reader_string(reader, item.key);
        }
        member.value = reader_value(reader, &item.value);
        if (!value_step(reader->room, 1) || !reader_push(reader, &member)) {
            return value_none();
        }
        count++;
    }
    if (reader->json.status != STATUS_OK) {
        return value_none();
    }
    return is_object ? end_dict(reader, count) : end_list(reader, count);
}

static struct value reader_value(struct value_json_reader *reader, const struct json_value *value)
{
    switch (value->kind) {
    case JSON_NULL:
        return value_none();
    case JSON_BOOL:
        return value_bool(json_is_true(value));
    case JSON_NUMBER:
        return reader_number(reader, value->raw);
    case JSON_STRING:
        return reader_string(reader, value->raw);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return reader_container(reader, value->kind == JSON_OBJECT);
    case JSON_ABSENT:
        break;
    }
    ASSERT(false);
    return value_none();
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
    if (value_step(room, 1 + json.size / 64) && json_next(&reader.json, &item)) {
        value = reader_value(&reader, &item.value);
    }
    arena->size = whole;
    enum status status = json_close(&reader.json);
    if (room->status == STATUS_OK && status != STATUS_OK) {
        return value_fail(room, status,
                          status == STATUS_TOO_LARGE ? "the JSON is nested too deep"
                                                     : "the text is not JSON");
    }
    if (room->status != STATUS_OK) {
        return false;
    }
    *out = value;
    return true;
}
