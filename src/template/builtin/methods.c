// SPDX-License-Identifier: Apache-2.0
//
// Methods of strings but for those that split them (split_methods.c), of dicts and of lists.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// The common beginning of methods of strings: the string, and steps for reading it.
static bool open_string(struct value_room *room, const struct value *subject)
{
    return builtin_refuse_markup(room, subject) && value_step(room, 1 + subject->string.size / 64);
}

static bool change_case(struct value_room *room, const struct value *subject,
                        const struct call_arguments *arguments, enum value_text_case to,
                        struct value *out)
{
    struct slice changed;
    if (!builtin_bind_none(room, "str method", arguments) || !open_string(room, subject) ||
        !value_text_to_case(room, subject->string, to, &changed)) {
        return false;
    }
    *out = value_string(changed);
    return true;
}

bool method_lower(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_LOWER, out);
}

bool method_upper(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_UPPER, out);
}

bool method_title(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_TITLE, out);
}

bool method_capitalize(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_CAPITALIZE, out);
}

static bool strip(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, unsigned sides, struct value *out)
{
    static const struct signature signature = {"strip", 0, 1, {""}};
    const struct value *chars = NULL;
    struct slice set = {0};
    if (!builtin_bind(room, &signature, arguments, &chars)) {
        return false;
    }
    if (argument_is_given(chars)) {
        if (!argument_string(room, chars, &set)) {
            return false;
        }
        set.bytes = set.size > 0 ? set.bytes : (const uint8_t *)"";
    }
    struct slice stripped = string_strip(subject->string, set, sides);
    *out = value_string(stripped);
    out->markup = subject->markup;
    uint64_t gone = subject->string.size - stripped.size;
    return value_step(room, 1 + gone * (1 + set.size / 8) / 16);
}

bool method_strip(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return strip(room, subject, arguments, STRIP_LEFT | STRIP_RIGHT, out);
}

bool method_lstrip(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return strip(room, subject, arguments, STRIP_LEFT, out);
}

bool method_rstrip(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return strip(room, subject, arguments, STRIP_RIGHT, out);
}

// What [start:end] is of a string, for those methods that look at a part: its bytes, and how many
// characters are before it.  Where start is behind the end, nothing is found, not even nothing.
struct window {
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

static bool open_window(struct value_room *room, struct slice string, const struct value *start,
                        const struct value *end, struct window *out)
{
    *out = (struct window){.part = string, .valid = true};
    if (!argument_is_given(start) && !argument_is_given(end)) {
        return true;
    }
    int64_t from = 0;
    int64_t to = INT64_MAX;
    if ((argument_is_given(start) && !argument_integer(room, start, 0, &from)) ||
        (argument_is_given(end) && !argument_integer(room, end, 0, &to))) {
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

// Whether `part` begins or ends with what is asked for, which may be a tuple of such.
static bool borders(struct value_room *room, const struct window *window,
                    const struct value *wanted, bool at_end, bool *out)
{
    const struct value *wants = wanted;
    uint32_t count = 1;
    if (wanted->kind == VALUE_TUPLE) {
        wants = wanted->list->items;
        count = wanted->list->count;
    }
    *out = false;
    for (uint32_t i = 0; i < count && !*out; i++) {
        struct slice border;
        if (!value_step(room, 1) || !argument_string(room, &wants[i], &border)) {
            return false;
        }
        struct slice part = window->part;
        size_t at = at_end ? part.size - border.size : 0;
        *out = window->valid && border.size <= part.size &&
               (border.size == 0 || memcmp(part.bytes + at, border.bytes, border.size) == 0);
    }
    return true;
}

static const struct signature search_signature = {"str method", 1, 3, {"", "", ""}};

static bool starts_or_ends(struct value_room *room, const struct value *subject,
                           const struct call_arguments *arguments, bool at_end, struct value *out)
{
    const struct value *given[3];
    struct window window;
    bool found = false;
    if (!builtin_bind(room, &search_signature, arguments, given) ||
        !open_window(room, subject->string, given[1], given[2], &window) ||
        !borders(room, &window, given[0], at_end, &found)) {
        return false;
    }
    *out = value_bool(found);
    return true;
}

bool method_startswith(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return starts_or_ends(room, subject, arguments, false, out);
}

bool method_endswith(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out)
{
    return starts_or_ends(room, subject, arguments, true, out);
}

static bool search(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, bool last, int64_t *out)
{
    const struct value *given[3];
    struct window window;
    struct slice part;
    if (!builtin_bind(room, &search_signature, arguments, given) ||
        !argument_string(room, given[0], &part) ||
        !open_window(room, subject->string, given[1], given[2], &window) ||
        !value_step(room, 1 + subject->string.size * (last ? 1 + part.size / 8 : 1) / 64)) {
        return false;
    }
    size_t place = PLACE_NONE;
    if (window.valid) {
        place = last ? last_place_of(window.part, part) : place_of(window.part, part);
    }
    *out = -1;
    if (place != PLACE_NONE) {
        struct slice before = slice_of(window.part.bytes, place);
        *out = (int64_t)(window.before + value_string_length(before));
    }
    return true;
}

static bool find_or_fail(struct value_room *room, const struct value *subject,
                         const struct call_arguments *arguments, bool last, struct value *out)
{
    int64_t place = -1;
    if (!search(room, subject, arguments, last, &place)) {
        return false;
    }
    if (place < 0) {
        return value_fail(room, STATUS_MALFORMED, "substring not found");
    }
    *out = value_int(place);
    return true;
}

bool method_find(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    int64_t place = -1;
    if (!search(room, subject, arguments, false, &place)) {
        return false;
    }
    *out = value_int(place);
    return true;
}

bool method_rfind(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    int64_t place = -1;
    if (!search(room, subject, arguments, true, &place)) {
        return false;
    }
    *out = value_int(place);
    return true;
}

bool method_index(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return find_or_fail(room, subject, arguments, false, out);
}

bool method_rindex(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return find_or_fail(room, subject, arguments, true, out);
}

bool method_count(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    const struct value *given[3];
    struct window window;
    struct slice part;
    if (!builtin_bind(room, &search_signature, arguments, given) ||
        !argument_string(room, given[0], &part) ||
        !open_window(room, subject->string, given[1], given[2], &window) ||
        !open_string(room, subject)) {
        return false;
    }
    if (part.size == 0) {
        *out = value_int(window.valid ? (int64_t)value_string_length(window.part) + 1 : 0);
        return true;
    }
    int64_t count = 0;
    struct slice rest = window.part;
    size_t place = window.valid ? place_of(rest, part) : PLACE_NONE;
    for (; place != PLACE_NONE; place = place_of(rest, part)) {
        count++;
        rest = slice_of(rest.bytes + place + part.size, rest.size - place - part.size);
    }
    *out = value_int(count);
    return true;
}

static bool is_alphanumeric(uint32_t code_point)
{
    return value_text_is_alphabetic(code_point) || value_text_is_numeric(code_point);
}

// At least one character, and all of the class.
static bool all_are(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, bool (*is)(uint32_t), struct value *out)
{
    if (!builtin_bind_none(room, "str method", arguments) ||
        !value_step(room, 1 + subject->string.size / 16)) {
        return false;
    }
    bool all = subject->string.size > 0;
    unsigned size = 0;
    for (size_t at = 0; at < subject->string.size && all; at += size) {
        all = is(utf8_read(subject->string.bytes + at, &size));
    }
    *out = value_bool(all);
    return true;
}

bool method_isalnum(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    return all_are(room, subject, arguments, is_alphanumeric, out);
}

bool method_isalpha(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    return all_are(room, subject, arguments, value_text_is_alphabetic, out);
}

bool method_isdigit(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    return all_are(room, subject, arguments, value_text_is_digit, out);
}

bool method_isspace(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    return all_are(room, subject, arguments, value_text_is_space, out);
}

bool method_islower(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    *out = value_bool(value_text_is_lower(subject->string));
    return builtin_bind_none(room, "islower", arguments) &&
           value_step(room, 1 + subject->string.size / 16);
}

bool method_isupper(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    *out = value_bool(value_text_is_upper(subject->string));
    return builtin_bind_none(room, "isupper", arguments) &&
           value_step(room, 1 + subject->string.size / 16);
}

bool method_join(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"join", 1, 1, {""}};
    const struct value *iterable = NULL;
    const struct value_list *list = NULL;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, &iterable) ||
        !value_iterate(room, iterable, &list) || !value_step(room, 1 + list->count)) {
        return false;
    }
    struct text text = value_text_open(room);
    for (uint32_t i = 0; i < list->count && !text.overflow; i++) {
        const struct value *item = &list->items[i];
        if (item->kind != VALUE_STRING) {
            return value_fail(room, STATUS_MALFORMED,
                              "sequence item %u: expected str instance, %s found", i,
                              value_type_name(item));
        }
        text_add(&text, i > 0 ? subject->string : slice_of(NULL, 0));
        text_add(&text, item->string);
    }
    struct slice joined;
    if (!value_text_take(room, &text, &joined)) {
        return false;
    }
    *out = value_string(joined);
    return true;
}

bool method_replace(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"replace", 2, 3, {"", "", "count"}};
    const struct value *given[3];
    struct slice pair[2];
    struct slice replaced;
    int64_t count = -1;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, given) ||
        !argument_string(room, given[0], &pair[0]) || !argument_string(room, given[1], &pair[1]) ||
        !argument_integer(room, given[2], -1, &count) ||
        !string_replace(room, subject->string, pair, count, &replaced)) {
        return false;
    }
    *out = value_string(replaced);
    return true;
}

static bool remove_border(struct value_room *room, const struct value *subject,
                          const struct call_arguments *arguments, bool at_end, struct value *out)
{
    static const struct signature signature = {"str method", 1, 1, {""}};
    const struct value *border = NULL;
    struct window window = {.part = subject->string, .valid = true};
    struct slice removed;
    bool found = false;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, &border) ||
        !argument_string(room, border, &removed) ||
        !borders(room, &window, border, at_end, &found)) {
        return false;
    }
    *out = *subject;
    if (found && removed.size > 0) {
        const uint8_t *bytes = subject->string.bytes;
        out->string =
            slice_of(at_end ? bytes : bytes + removed.size, subject->string.size - removed.size);
    }
    return true;
}

bool method_removeprefix(struct value_room *room, const struct value *subject,
                         const struct call_arguments *arguments, struct value *out)
{
    return remove_border(room, subject, arguments, false, out);
}

bool method_removesuffix(struct value_room *room, const struct value *subject,
                         const struct call_arguments *arguments, struct value *out)
{
    return remove_border(room, subject, arguments, true, out);
}

// With blanks; other characters to fill with are refused.
static bool pad(struct value_room *room, const struct value *subject,
                const struct call_arguments *arguments, enum pad_side side, struct value *out)
{
    static const struct signature signature = {"str method", 1, 2, {"", ""}};
    const struct value *given[2];
    struct slice padded;
    int64_t width = 0;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, given) ||
        !argument_integer(room, given[0], 0, &width)) {
        return false;
    }
    if (given[1] != NULL && (given[1]->kind != VALUE_STRING || !slice_is(given[1]->string, " "))) {
        return value_fail(room, STATUS_MALFORMED, "a fill character is not implemented");
    }
    if (!string_pad(room, subject->string, width, side, &padded)) {
        return false;
    }
    *out = value_string(padded);
    return true;
}

bool method_center(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return pad(room, subject, arguments, PAD_BOTH, out);
}

bool method_ljust(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return pad(room, subject, arguments, PAD_AFTER, out);
}

bool method_rjust(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return pad(room, subject, arguments, PAD_BEFORE, out);
}

// Zeros come after a sign.
bool method_zfill(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"zfill", 1, 1, {""}};
    const struct value *given = NULL;
    int64_t width = 0;
    if (!open_string(room, subject) || !builtin_bind(room, &signature, arguments, &given) ||
        !argument_integer(room, given, 0, &width)) {
        return false;
    }
    struct slice string = subject->string;
    *out = *subject;
    int64_t missing = width - (int64_t)value_string_length(string);
    if (width < 0 || missing <= 0) {
        return true;
    }
    size_t sign = string.size > 0 && (string.bytes[0] == '+' || string.bytes[0] == '-');
    struct text text = value_text_open(room);
    text_add(&text, slice_of(string.bytes, sign));
    for (int64_t i = 0; i < missing && !text.overflow; i++) {
        text_add_str(&text, "0");
    }
    text_add(&text, slice_of(sign > 0 ? string.bytes + sign : string.bytes, string.size - sign));
    return value_text_take(room, &text, &out->string);
}

bool method_format(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    return open_string(room, subject) && value_format_braces(room, subject->string, arguments, out);
}

bool method_copy(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    // Nothing can change it, so a copy is the same.
    *out = *subject;
    return builtin_bind_none(room, "copy", arguments);
}

bool method_dict_get(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"get", 1, 2, {"", ""}};
    const struct value *given[2];
    const struct value *found = NULL;
    if (!builtin_bind(room, &signature, arguments, given) ||
        !value_dict_find(room, subject->dict, given[0], &found)) {
        return false;
    }
    if (found == NULL) {
        found = given[1];
    }
    *out = found != NULL ? *found : value_none();
    return true;
}

bool method_dict_keys(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *keys = NULL;
    return builtin_bind_none(room, "keys", arguments) && value_iterate(room, subject, &keys) &&
           value_view_new(room, "dict_keys", keys, out);
}

bool method_dict_values(struct value_room *room, const struct value *subject,
                        const struct call_arguments *arguments, struct value *out)
{
    uint32_t count = subject->dict->count;
    struct value_list *values = NULL;
    if (!builtin_bind_none(room, "values", arguments) || !value_step(room, 1 + count) ||
        (values = value_list_new(room, count)) == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        values->items[i] = subject->dict->members[i].value;
    }
    return value_view_new(room, "dict_values", values, out);
}

bool method_dict_items(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    const struct value_list *pairs = NULL;
    return builtin_bind_none(room, "items", arguments) &&
           value_pairs(room, subject->dict, &pairs) &&
           value_view_new(room, "dict_items", pairs, out);
}

bool method_list_count(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"count", 1, 1, {""}};
    const struct value *wanted = NULL;
    if (!builtin_bind(room, &signature, arguments, &wanted)) {
        return false;
    }
    int64_t count = 0;
    for (uint32_t i = 0; i < subject->list->count; i++) {
        bool equal = false;
        if (!value_equals(room, &subject->list->items[i], wanted, &equal)) {
            return false;
        }
        count += equal;
    }
    *out = value_int(count);
    return true;
}

bool method_list_index(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"index", 1, 3, {"", "", ""}};
    const struct value *given[3];
    const struct value_list *list = subject->list;
    int64_t start = 0;
    int64_t stop = INT64_MAX;
    if (!builtin_bind(room, &signature, arguments, given) ||
        !argument_integer(room, given[1], 0, &start) ||
        !argument_integer(room, given[2], INT64_MAX, &stop)) {
        return false;
    }
    size_t end = clamp_index(stop, list->count);
    for (size_t i = clamp_index(start, list->count); i < list->count && i < end; i++) {
        bool equal = false;
        if (!value_equals(room, &list->items[i], given[0], &equal)) {
            return false;
        }
        if (equal) {
            *out = value_int((int64_t)i);
            return true;
        }
    }
    return value_fail(room, STATUS_MALFORMED, "the value is not in the list");
}
