// SPDX-License-Identifier: Apache-2.0
//
// Methods that cut strings into lists and tuples of their parts, which are slices of the string.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// Parts gather in the rest of the arena and become a list in place.
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

static struct value parts_take(struct parts *parts, bool reverse)
{
    uint32_t count = parts->list->count;
    struct value_list *list = value_list_new(parts->room, count);
    ASSERT(list == NULL || list == parts->list);
    for (uint32_t i = 0; list != NULL && reverse && i < count / 2; i++) {
        struct value swap = list->items[i];
        list->items[i] = list->items[count - 1 - i];
        list->items[count - 1 - i] = swap;
    }
    (void)value_step(parts->room, 1 + count);
    return value_of_list(list);
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
        size_t place = place_of(rest, separator, from_end);
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

// Takes steps for a search; from the end it takes longer.
static void search_pay(const struct builtin_call *call, struct slice separator)
{
    uint64_t factor = call->builtin->variant == FROM_END ? 1 + separator.size / 8 : 1;
    (void)value_step(call->room, 1 + call->subject->string.size * factor / 64);
}

bool method_split(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    bool from_end = call->builtin->variant == FROM_END;
    bool has_separator = call_has(call, 0);
    struct slice string = call->subject->string;
    struct parts parts;
    int64_t most = call_integer(call, 1, -1);
    struct slice separator = has_separator ? call_string(call, 0, "") : slice_of(NULL, 0);
    search_pay(call, separator);
    if (has_separator && separator.size == 0) {
        return value_raise(call->room, "empty separator");
    }
    bool is_split = parts_open(&parts, call->room) &&
                    (has_separator ? split_at(&parts, string, separator, most, from_end)
                                   : split_words(&parts, string, most, from_end));
    return is_split && call_gives(call, parts_take(&parts, from_end));
}

bool method_splitlines(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    struct parts parts;
    struct slice rest = call->subject->string;
    struct string_line line;
    (void)value_step(call->room, 1 + rest.size / 16);
    bool is_good = parts_open(&parts, call->room);
    while (is_good && string_next_line(&rest, &line)) {
        is_good = parts_add(&parts, call_is_true(call, 0) ? line.whole : line.line);
    }
    return is_good && call_gives(call, parts_take(&parts, false));
}

bool method_partition(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    bool from_end = call->builtin->variant == FROM_END;
    struct slice string = call->subject->string;
    struct slice separator = call_string(call, 0, "");
    if (separator.size == 0) {
        return value_raise(call->room, "empty separator");
    }
    search_pay(call, separator);
    size_t place = place_of(string, separator, from_end);
    struct value parts[3] = {value_string(slice_str("")), value_string(slice_str("")),
                             value_string(slice_str(""))};
    if (place == PLACE_NONE) {
        parts[from_end ? 2 : 0].string = string;
    } else {
        parts[0].string = slice_of(string.bytes, place);
        parts[1].string = slice_of(string.bytes + place, separator.size);
        parts[2].string = string_after(string, place + separator.size);
    }
    return call_gives(call, value_of_tuple(value_list_copy(call->room, parts, 3)));
}
