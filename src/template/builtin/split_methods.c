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

static bool parts_add(struct parts *parts, const uint8_t *begin, size_t size)
{
    struct value_list *list = parts->list;
    if (list->count == parts->capacity) {
        return value_fail(parts->room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    list->items[list->count++] = value_string(slice_of(begin, size));
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
    *out = (struct value){.kind = VALUE_LIST, .list = list};
    return value_step(parts->room, 1 + count);
}

static struct slice skip(struct slice string, size_t size)
{
    return slice_of(size > 0 ? string.bytes + size : string.bytes, string.size - size);
}

// Where the white space begins, or the end.
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

// The same from the end.
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

static bool split_words(struct parts *parts, struct slice rest, int64_t left)
{
    rest = skip(rest, value_text_space_before(rest));
    for (; rest.size > 0 && left != 0; left--) {
        size_t size = word_size(rest);
        if (!parts_add(parts, rest.bytes, size)) {
            return false;
        }
        rest = skip(rest, size);
        rest = skip(rest, value_text_space_before(rest));
    }
    return rest.size == 0 || parts_add(parts, rest.bytes, rest.size);
}

static bool split_last_words(struct parts *parts, struct slice rest, int64_t left)
{
    rest.size -= value_text_space_after(rest);
    for (; rest.size > 0 && left != 0; left--) {
        size_t size = last_word_size(rest);
        if (!parts_add(parts, rest.bytes + rest.size - size, size)) {
            return false;
        }
        rest.size -= size;
        rest.size -= value_text_space_after(rest);
    }
    return rest.size == 0 || parts_add(parts, rest.bytes, rest.size);
}

static bool split_at(struct parts *parts, struct slice rest, struct slice separator, int64_t left)
{
    size_t place = left == 0 ? PLACE_NONE : place_of(rest, separator);
    while (place != PLACE_NONE) {
        if (!parts_add(parts, rest.bytes, place)) {
            return false;
        }
        rest = skip(rest, place + separator.size);
        left--;
        place = left == 0 ? PLACE_NONE : place_of(rest, separator);
    }
    return parts_add(parts, rest.bytes, rest.size);
}

static bool split_last_at(struct parts *parts, struct slice rest, struct slice separator,
                          int64_t left)
{
    size_t place = left == 0 ? PLACE_NONE : last_place_of(rest, separator);
    while (place != PLACE_NONE) {
        size_t after = place + separator.size;
        if (!parts_add(parts, rest.bytes + after, rest.size - after)) {
            return false;
        }
        rest.size = place;
        left--;
        place = left == 0 ? PLACE_NONE : last_place_of(rest, separator);
    }
    return parts_add(parts, rest.bytes, rest.size);
}

static bool split(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, bool from_end, struct value *out)
{
    static const struct signature signature = {"split", 0, 2, {"sep", "maxsplit"}};
    const struct value *given[2];
    struct slice separator = {0};
    struct slice string = subject->string;
    struct parts parts;
    int64_t most = -1;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, given) ||
        !argument_integer(room, given[1], -1, &most) ||
        (argument_is_given(given[0]) && !argument_string(room, given[0], &separator)) ||
        !value_step(room, 1 + string.size * (from_end ? 1 + separator.size / 8 : 1) / 64) ||
        !parts_open(&parts, room)) {
        return false;
    }
    bool done = false;
    if (!argument_is_given(given[0])) {
        done =
            from_end ? split_last_words(&parts, string, most) : split_words(&parts, string, most);
    } else if (separator.size == 0) {
        return value_fail(room, STATUS_MALFORMED, "empty separator");
    } else {
        done = from_end ? split_last_at(&parts, string, separator, most)
                        : split_at(&parts, string, separator, most);
    }
    return done && parts_take(&parts, from_end, out);
}

bool method_split(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return split(room, subject, arguments, false, out);
}

bool method_rsplit(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return split(room, subject, arguments, true, out);
}

bool method_splitlines(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"splitlines", 0, 1, {"keepends"}};
    const struct value *keep = NULL;
    struct parts parts;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, &keep) ||
        !value_step(room, 1 + subject->string.size / 16) || !parts_open(&parts, room)) {
        return false;
    }
    struct slice rest = subject->string;
    struct string_line line;
    while (string_next_line(&rest, &line)) {
        struct slice kept = argument_is_true(keep) ? line.whole : line.line;
        if (!parts_add(&parts, kept.bytes, kept.size)) {
            return false;
        }
    }
    return parts_take(&parts, false, out);
}

static bool partition(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, bool from_end, struct value *out)
{
    static const struct signature signature = {"partition", 1, 1, {""}};
    const struct value *given = NULL;
    struct slice separator;
    struct slice string = subject->string;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, &given) ||
        !argument_string(room, given, &separator)) {
        return false;
    }
    if (separator.size == 0) {
        return value_fail(room, STATUS_MALFORMED, "empty separator");
    }
    struct value_list *tuple = value_list_new(room, 3);
    if (tuple == NULL ||
        !value_step(room, 1 + string.size * (from_end ? 1 + separator.size / 8 : 1) / 64)) {
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
        tuple->items[2].string = skip(string, place + separator.size);
    }
    *out = (struct value){.kind = VALUE_TUPLE, .list = tuple};
    return true;
}

bool method_partition(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, struct value *out)
{
    return partition(room, subject, arguments, false, out);
}

bool method_rpartition(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return partition(room, subject, arguments, true, out);
}
