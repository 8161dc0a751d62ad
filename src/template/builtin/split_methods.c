// SPDX-License-Identifier: Apache-2.0
//
// Methods that cut strings into lists and tuples of their parts, which are slices of the string.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// Parts gather in what is left of the arena, one after the other, and become a list in place.
struct parts {
    struct value_room *room;
    struct value_list *list;
    size_t capacity;
};

static bool parts_open(struct parts *parts, struct value_room *room)
{
    struct arena *arena = room->arena;
    size_t left = arena->size - arena->used;
    if (left < sizeof(struct value_list)) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
        return false;
    }
    *parts = (struct parts){
        .room = room,
        .list = (struct value_list *)(void *)(arena->bytes + arena->used),
        .capacity = (left - sizeof(struct value_list)) / sizeof(struct value),
    };
    parts->list->count = 0;
    return true;
}

static bool parts_add(struct parts *parts, struct slice part)
{
    struct value_list *list = parts->list;
    if (list->count == parts->capacity) {
        return value_fail(parts->room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    list->items[list->count++] = value_string(part);
    return true;
}

static bool parts_take(struct parts *parts, bool reverse, struct value *out)
{
    uint32_t count = parts->list->count;
    struct value_list *list = value_list_new(parts->room, count);
    if (list == NULL) {
        return false;
    }
    ASSERT(list == parts->list);
    for (uint32_t i = 0; reverse && i < count / 2; i++) {
        struct value swap = list->items[i];
        list->items[i] = list->items[count - 1 - i];
        list->items[count - 1 - i] = swap;
    }
    *out = value_of_list(list);
    return value_step(parts->room, 1 + count);
}

// Bytes of the word that the string begins with.
static size_t word_size(struct slice string)
{
    size_t at = 0;
    while (at < string.size) {
        uint8_t byte = string.bytes[at];
        unsigned size = 1;
        if (byte > ' ' && byte < 0x80) {
            at++;
            continue;
        }
        if (byte == ' ' || value_text_is_space(utf8_read(string.bytes + at, &size))) {
            break;
        }
        at += size;
    }
    return at;
}

// Bytes of the word that the string ends with.
static size_t last_word_size(struct slice string)
{
    const uint8_t *at = string.bytes + string.size;
    while (at > string.bytes) {
        unsigned size = 0;
        const uint8_t *before = utf8_back(string.bytes, at);
        if (value_text_is_space(utf8_read(before, &size))) {
            break;
        }
        at = before;
    }
    return string.size - (size_t)(at - string.bytes);
}

// Takes `part_size` bytes off one end of `rest`, and `gap` more, which are dropped.
static struct slice cut_part(struct slice *rest, size_t part_size, size_t gap, bool from_end)
{
    ASSERT_SLOW(part_size + gap <= rest->size);
    struct slice part = slice_of(rest->bytes, part_size);
    if (from_end) {
        part = string_after(*rest, rest->size - part_size);
        rest->size -= part_size + gap;
    } else {
        *rest = string_after(*rest, part_size + gap);
    }
    return part;
}

static size_t space_size(struct slice string, bool from_end)
{
    return from_end ? value_text_space_after(string) : value_text_space_before(string);
}

static bool split_words(struct parts *parts, struct slice rest, int64_t left, bool from_end)
{
    (void)cut_part(&rest, 0, space_size(rest, from_end), from_end);
    for (; rest.size > 0 && left != 0; left--) {
        size_t size = from_end ? last_word_size(rest) : word_size(rest);
        struct slice word = cut_part(&rest, size, 0, from_end);
        (void)cut_part(&rest, 0, space_size(rest, from_end), from_end);
        if (!parts_add(parts, word)) {
            return false;
        }
    }
    return rest.size == 0 || parts_add(parts, rest);
}

static bool split_at(struct parts *parts, struct slice rest, struct slice separator, int64_t left,
                     bool from_end)
{
    ASSERT(separator.size > 0);
    for (; left != 0; left--) {
        size_t place = from_end ? last_place_of(rest, separator) : place_of(rest, separator);
        if (place == PLACE_NONE) {
            break;
        }
        size_t size = from_end ? rest.size - place - separator.size : place;
        if (!parts_add(parts, cut_part(&rest, size, separator.size, from_end))) {
            return false;
        }
    }
    return parts_add(parts, rest);
}

bool method_split(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    bool from_end = call->builtin->variant == FROM_END;
    bool has_separator = call_has(call, 0);
    struct slice separator = {0};
    struct slice string = call->subject->string;
    struct parts parts;
    int64_t most = -1;
    if (!call_integer(call, 1, -1, &most) || (has_separator && !call_string(call, 0, &separator)) ||
        !call_takes_steps(call, 1 + string.size * (from_end ? 1 + separator.size / 8 : 1) / 64) ||
        !parts_open(&parts, call->room)) {
        return false;
    }
    if (has_separator && separator.size == 0) {
        return value_raise(call->room, "empty separator");
    }
    bool is_split = has_separator ? split_at(&parts, string, separator, most, from_end)
                                  : split_words(&parts, string, most, from_end);
    return is_split && parts_take(&parts, from_end, call->out);
}

bool method_splitlines(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    struct parts parts;
    struct slice rest = call->subject->string;
    struct string_line line;
    if (!call_takes_steps(call, 1 + rest.size / 16) || !parts_open(&parts, call->room)) {
        return false;
    }
    while (string_next_line(&rest, &line)) {
        if (!parts_add(&parts, call_is_true(call, 0) ? line.whole : line.line)) {
            return false;
        }
    }
    return parts_take(&parts, false, call->out);
}

bool method_partition(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    bool from_end = call->builtin->variant == FROM_END;
    struct slice separator;
    struct slice string = call->subject->string;
    if (!call_string(call, 0, &separator)) {
        return false;
    }
    if (separator.size == 0) {
        return value_raise(call->room, "empty separator");
    }
    struct value_list *tuple = value_list_new(call->room, 3);
    if (tuple == NULL ||
        !call_takes_steps(call, 1 + string.size * (from_end ? 1 + separator.size / 8 : 1) / 64)) {
        return false;
    }
    size_t place = from_end ? last_place_of(string, separator) : place_of(string, separator);
    for (uint32_t i = 0; i < 3; i++) {
        tuple->items[i] = value_string(slice_of(NULL, 0));
    }
    if (place == PLACE_NONE) {
        tuple->items[from_end ? 2 : 0].string = string;
    } else {
        tuple->items[0].string = slice_of(string.bytes, place);
        tuple->items[1].string = slice_of(string.bytes + place, separator.size);
        tuple->items[2].string = string_after(string, place + separator.size);
    }
    return call_gives(call, (struct value){.kind = VALUE_TUPLE, .list = tuple});
}
