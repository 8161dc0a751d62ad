// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings but for those that split them (split_methods.c), of dicts and of lists.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// What [start:end] is of a string, for methods that look at a part: its bytes, and how many characters are
// before it.  Where start is behind the end nothing is found, not even the empty string.
struct string_window {
    struct slice part;
    size_t before;
    bool valid;
};

static size_t clamp_index(int64_t index, size_t length)
{
    if (index < 0) {
        index += (int64_t)length;
        return index < 0 ? 0 : (size_t)index;
    }
    return (size_t)index;
}

// The window of a method whose second and third parameters are start and end.
static bool window_open(struct string_window *out, const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    struct slice string = call->subject->string;
    *out = (struct string_window){.part = string, .valid = true};
    if (!call_has(call, 1) && !call_has(call, 2)) {
        return true;
    }
    int64_t from = 0;
    int64_t to = INT64_MAX;
    if ((call_has(call, 1) && !call_integer(call, 1, 0, &from)) ||
        (call_has(call, 2) && !call_integer(call, 2, 0, &to))) {
        return false;
    }
    size_t length = value_string_length(string);
    size_t first = clamp_index(from, length);
    size_t last = clamp_index(to, length);
    last = last < length ? last : length;
    out->valid = first <= last;
    if (out->valid) {
        out->before = first;
        out->part = value_string_part(string, first, last);
    }
    return true;
}

static bool string_borders(struct slice string, struct slice border, bool at_end)
{
    size_t at = at_end ? string.size - border.size : 0;
    return border.size <= string.size &&
           (border.size == 0 || memcmp(string.bytes + at, border.bytes, border.size) == 0);
}

// startswith and endswith: whether the string borders on the argument, or on one of a tuple of them.
bool method_borders(const struct builtin_call *call)
{
    struct string_window window;
    const struct value *wanted = call->given[0];
    uint32_t count = 1;
    if (wanted->kind == VALUE_TUPLE) {
        count = wanted->list->count;
        wanted = wanted->list->items;
    }
    if (!window_open(&window, call)) {
        return false;
    }
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++) {
        struct slice border;
        if (!call_takes_steps(call, 1) || !argument_string(call->room, &wanted[i], &border)) {
            return false;
        }
        found =
            window.valid && string_borders(window.part, border, call->builtin->variant == FROM_END);
    }
    return call_gives(call, value_bool(found));
}

bool method_remove_border(const struct builtin_call *call)
{
    bool at_end = call->builtin->variant == FROM_END;
    struct slice string = call->subject->string;
    struct slice border;
    if (!call_takes_steps(call, 1) || !call_string(call, 0, &border)) {
        return false;
    }
    if (string_borders(string, border, at_end)) {
        string = at_end ? slice_of(string.bytes, string.size - border.size)
                        : string_after(string, border.size);
    }
    return call_gives(call, value_string(string));
}

// find, index and the same from the end.
bool method_find(const struct builtin_call *call)
{
    bool last = (call->builtin->variant & FIND_LAST) != 0;
    struct string_window window;
    struct slice part;
    if (!call_string(call, 0, &part) || !window_open(&window, call) ||
        !call_takes_steps(call,
                          1 + call->subject->string.size * (last ? 1 + part.size / 8 : 1) / 64)) {
        return false;
    }
    size_t place = PLACE_NONE;
    if (window.valid) {
        place = last ? last_place_of(window.part, part) : place_of(window.part, part);
    }
    if (place != PLACE_NONE) {
        struct slice before = slice_of(window.part.bytes, place);
        return call_gives(call, value_int((int64_t)(window.before + value_string_length(before))));
    }
    return (call->builtin->variant & FIND_OR_FAIL) != 0
               ? value_raise(call->room, "substring not found")
               : call_gives(call, value_int(-1));
}

bool method_count(const struct builtin_call *call)
{
    struct string_window window;
    struct slice part;
    if (!call_string(call, 0, &part) || !window_open(&window, call) ||
        !call_takes_steps(call, 1 + call->subject->string.size / 64)) {
        return false;
    }
    int64_t count = 0;
    if (part.size == 0) {
        count = window.valid ? (int64_t)value_string_length(window.part) + 1 : 0;
        return call_gives(call, value_int(count));
    }
    struct slice rest = window.part;
    size_t place = window.valid ? place_of(rest, part) : PLACE_NONE;
    for (; place != PLACE_NONE; place = place_of(rest, part)) {
        count++;
        rest = string_after(rest, place + part.size);
    }
    return call_gives(call, value_int(count));
}

static bool is_alphanumeric(uint32_t code_point)
{
    return value_text_is_alphabetic(code_point) || value_text_is_numeric(code_point);
}

// At least one character, and all of the variant's class.
bool method_is_all(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    static bool (*const classes[])(uint32_t code_point) = {
        [TEXT_ALPHANUMERIC] = is_alphanumeric,
        [TEXT_ALPHABETIC] = value_text_is_alphabetic,
        [TEXT_DIGITS] = value_text_is_digit,
        [TEXT_SPACES] = value_text_is_space,
    };
    struct slice string = call->subject->string;
    if (!call_takes_steps(call, 1 + string.size / 16)) {
        return false;
    }
    bool all = string.size > 0;
    unsigned size = 0;
    for (size_t at = 0; at < string.size && all; at += size) {
        all = classes[call->builtin->variant](utf8_read(string.bytes + at, &size));
    }
    return call_gives(call, value_bool(all));
}

bool method_join(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    const struct value_list *list = NULL;
    if (!value_iterate(call->room, call->given[0], &list) ||
        !call_takes_steps(call, 1 + list->count)) {
        return false;
    }
    struct text text = value_text_open(call->room);
    for (uint32_t i = 0; i < list->count && !text.overflow; i++) {
        const struct value *item = &list->items[i];
        if (item->kind != VALUE_STRING) {
            return value_raise(call->room, "sequence item %u: expected str instance, %s found", i,
                               value_type_name(item));
        }
        text_add(&text, i > 0 ? call->subject->string : slice_of(NULL, 0));
        text_add(&text, item->string);
    }
    return value_text_end(call->room, &text, call->out);
}

bool method_replace(const struct builtin_call *call)
{
    struct slice pair[2];
    struct slice replaced;
    int64_t count = -1;
    return call_string(call, 0, &pair[0]) && call_string(call, 1, &pair[1]) &&
           call_integer(call, 2, -1, &count) &&
           string_replace(call->room, call->subject->string, pair, count, &replaced) &&
           call_gives(call, value_string(replaced));
}

// Zeros come after a sign.
bool method_zfill(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    int64_t width = 0;
    struct slice string = call->subject->string;
    if (!call_takes_steps(call, 1 + string.size / 64) || !call_integer(call, 0, 0, &width)) {
        return false;
    }
    int64_t missing = width - (int64_t)value_string_length(string);
    if (width < 0 || missing <= 0) {
        return call_gives(call, value_string(string));
    }
    size_t sign = string.size > 0 && (string.bytes[0] == '+' || string.bytes[0] == '-');
    struct text text = value_text_open(call->room);
    text_add(&text, slice_of(string.bytes, sign));
    string_add_repeated(&text, "0", (uint64_t)missing);
    text_add(&text, string_after(string, sign));
    return value_text_end(call->room, &text, call->out);
}

bool method_format(const struct builtin_call *call)
{
    return call_takes_steps(call, 1 + call->subject->string.size / 64) &&
           value_format_braces(call->room, call->subject->string, call->arguments, call->out);
}

// Nothing can change a list or a dict, so a copy is the same.
bool method_copy(const struct builtin_call *call)
{
    return call_gives(call, *call->subject);
}

bool method_dict_get(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_DICT);
    const struct value *found = NULL;
    if (!value_dict_find(call->room, call->subject->dict, call->given[0], &found)) {
        return false;
    }
    found = found != NULL ? found : call->given[1];
    return call_gives(call, found != NULL ? *found : value_none());
}

// keys, values and items.
bool method_dict_view(const struct builtin_call *call)
{
    static const char *const names[] = {
        [VALUE_DICT_KEYS] = "dict_keys",
        [VALUE_DICT_VALUES] = "dict_values",
        [VALUE_DICT_ITEMS] = "dict_items",
    };
    enum value_dict_part part = (enum value_dict_part)call->builtin->variant;
    const struct value_list *list = NULL;
    return value_dict_list(call->room, call->subject->dict, part, &list) &&
           value_view_new(call->room, names[part], list, call->out);
}

bool method_list_count(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_LIST || call->subject->kind == VALUE_TUPLE);
    const struct value_list *list = call->subject->list;
    int64_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        bool equal = false;
        if (!value_equals(call->room, &list->items[i], call->given[0], &equal)) {
            return false;
        }
        count += equal;
    }
    return call_gives(call, value_int(count));
}

bool method_list_index(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_LIST || call->subject->kind == VALUE_TUPLE);
    const struct value_list *list = call->subject->list;
    int64_t start = 0;
    int64_t stop = INT64_MAX;
    if (!call_integer(call, 1, 0, &start) || !call_integer(call, 2, INT64_MAX, &stop)) {
        return false;
    }
    size_t end = clamp_index(stop, list->count);
    for (size_t i = clamp_index(start, list->count); i < list->count && i < end; i++) {
        bool equal = false;
        if (!value_equals(call->room, &list->items[i], call->given[0], &equal)) {
            return false;
        }
        if (equal) {
            return call_gives(call, value_int((int64_t)i));
        }
    }
    return value_raise(call->room, "the value is not in the list");
}
