// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings but for those that split them (split_methods.c), of dicts and of lists.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// The part [start:end] of a string: its bytes, and the number of characters before it.  If start is
// behind the end, methods find nothing in it, not even the empty string.
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
static struct string_window window_open(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    struct slice string = call->subject->string;
    if (!call_has(call, 1) && !call_has(call, 2)) {
        return (struct string_window){.part = string, .valid = true};
    }
    size_t length = value_string_length(string);
    size_t first = clamp_index(call_has(call, 1) ? call_integer(call, 1, 0) : 0, length);
    size_t last = clamp_index(call_has(call, 2) ? call_integer(call, 2, 0) : INT64_MAX, length);
    last = last < length ? last : length;
    if (first > last) {
        return (struct string_window){0};
    }
    return (struct string_window){
        .part = value_string_part(string, first, last), .before = first, .valid = true};
}

static bool string_borders(struct slice string, struct slice border, bool at_end)
{
    size_t at = at_end ? string.size - border.size : 0;
    return border.size <= string.size &&
           (border.size == 0 || memcmp(string.bytes + at, border.bytes, border.size) == 0);
}

// startswith and endswith, of the argument or of one of a tuple.
bool method_borders(const struct builtin_call *call)
{
    struct string_window window = window_open(call);
    bool at_end = call->builtin->variant == FROM_END;
    const struct value *wanted = call->given[0];
    uint32_t count = 1;
    if (wanted->kind == VALUE_TUPLE) {
        count = wanted->list->count;
        wanted = wanted->list->items;
    }
    bool found = false;
    for (uint32_t i = 0; i < count && !found && value_step(call->room, 1); i++) {
        struct slice border = argument_string(call->room, &wanted[i]);
        found = window.valid && string_borders(window.part, border, at_end);
    }
    return call_gives(call, value_bool(found));
}

bool method_remove_border(const struct builtin_call *call)
{
    bool at_end = call->builtin->variant == FROM_END;
    struct slice string = call->subject->string;
    struct slice border = call_string(call, 0, "");
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
    struct slice part = call_string(call, 0, "");
    struct string_window window = window_open(call);
    (void)value_step(call->room,
                     1 + call->subject->string.size * (last ? 1 + part.size / 8 : 1) / 64);
    size_t place = window.valid ? place_of(window.part, part, last) : PLACE_NONE;
    if (place == PLACE_NONE) {
        return (call->builtin->variant & FIND_OR_FAIL) != 0
                   ? value_raise(call->room, "substring not found")
                   : call_gives(call, value_int(-1));
    }
    size_t before = value_string_length(slice_of(window.part.bytes, place));
    return call_gives(call, value_int((int64_t)(window.before + before)));
}

bool method_count(const struct builtin_call *call)
{
    struct slice part = call_string(call, 0, "");
    struct string_window window = window_open(call);
    (void)value_step(call->room, 1 + call->subject->string.size / 64);
    int64_t count = 0;
    if (part.size == 0) {
        count = window.valid ? (int64_t)value_string_length(window.part) + 1 : 0;
        return call_gives(call, value_int(count));
    }
    struct slice rest = window.part;
    size_t place = window.valid ? place_of(rest, part, false) : PLACE_NONE;
    for (; place != PLACE_NONE; place = place_of(rest, part, false)) {
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
    (void)value_step(call->room, 1 + string.size / 16);
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
    const struct value_list *list = value_iterate(call->room, call->given[0]);
    (void)value_step(call->room, 1 + list->count);
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
    return call_gives(call, value_text_end(call->room, &text));
}

// Zeros come after a sign.
bool method_zfill(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_STRING);
    struct slice string = call->subject->string;
    (void)value_step(call->room, 1 + string.size / 64);
    int64_t width = call_integer(call, 0, 0);
    int64_t missing = width < 0 ? 0 : width - (int64_t)value_string_length(string);
    if (missing <= 0) {
        return call_gives(call, value_string(string));
    }
    size_t sign = string.size > 0 && (string.bytes[0] == '+' || string.bytes[0] == '-');
    struct text text = value_text_open(call->room);
    text_add(&text, slice_of(string.bytes, sign));
    string_add_repeated(&text, slice_str("0"), (uint64_t)missing);
    text_add(&text, string_after(string, sign));
    return call_gives(call, value_text_end(call->room, &text));
}

bool method_format(const struct builtin_call *call)
{
    struct slice format = call->subject->string;
    (void)value_step(call->room, 1 + format.size / 64);
    return call_gives(call, value_format_braces(call->room, format, call->arguments));
}

// Nothing can change a list or a dict, so a copy is the same.
bool method_copy(const struct builtin_call *call)
{
    return call_gives(call, *call->subject);
}

bool method_dict_get(const struct builtin_call *call)
{
    ASSERT(call->subject->kind == VALUE_DICT);
    const struct value *found = value_dict_find(call->room, call->subject->dict, call->given[0]);
    found = found != NULL ? found : call->given[1];
    return call_gives(call, found != NULL ? *found : value_none());
}

// keys, values and items.
bool method_dict_view(const struct builtin_call *call)
{
    enum value_dict_part part = (enum value_dict_part)call->builtin->variant;
    return call_gives(call,
                      value_view(part, value_dict_list(call->room, call->subject->dict, part)));
}

bool method_list_count(const struct builtin_call *call)
{
    ASSERT(value_is_sequence(call->subject));
    const struct value_list *list = call->subject->list;
    int64_t count = 0;
    for (uint32_t i = 0; i < list->count && call->room->status == STATUS_OK; i++) {
        count += value_equals(call->room, &list->items[i], call->given[0]);
    }
    return call_gives(call, value_int(count));
}

bool method_list_index(const struct builtin_call *call)
{
    ASSERT(value_is_sequence(call->subject));
    const struct value_list *list = call->subject->list;
    size_t at = clamp_index(call_integer(call, 1, 0), list->count);
    size_t end = clamp_index(call_integer(call, 2, INT64_MAX), list->count);
    while (at < list->count && at < end &&
           !value_equals(call->room, &list->items[at], call->given[0])) {
        at++;
    }
    return at < list->count && at < end ? call_gives(call, value_int((int64_t)at))
                                        : value_raise(call->room, "the value is not in the list");
}
