// SPDX-License-Identifier: Apache-2.0
//
// Filters that give strings, and those that read them.  What is no string is taken as what it prints, as
// Jinja does.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

static bool change_case(struct value_room *room, const struct value *subject,
                        const struct call_arguments *arguments, enum value_text_case to,
                        struct value *out)
{
    struct slice text;
    struct slice changed;
    if (!builtin_bind_none(room, "the filter", arguments) ||
        !value_to_string(room, subject, &text) || !value_text_to_case(room, text, to, &changed)) {
        return false;
    }
    bool markup = subject->kind == VALUE_STRING && subject->markup;
    *out = value_string(changed);
    out->markup = markup;
    return true;
}

bool filter_lower(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_LOWER, out);
}

bool filter_upper(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_UPPER, out);
}

bool filter_capitalize(struct value_room *room, const struct value *subject,
                       const struct call_arguments *arguments, struct value *out)
{
    return change_case(room, subject, arguments, VALUE_TEXT_CAPITALIZE, out);
}

// What Jinja cuts words at: [-\s({\[<].
static bool is_word_border(uint32_t code_point)
{
    return code_point == '-' || code_point == '(' || code_point == '{' || code_point == '[' ||
           code_point == '<' || value_text_is_space(code_point);
}

// Bytes up to where a word begins or ends.
static size_t run_size(struct slice text)
{
    unsigned size = 0;
    bool border = is_word_border(utf8_read(text.bytes, &size));
    size_t at = size;
    while (at < text.size && is_word_border(utf8_read(text.bytes + at, &size)) == border) {
        at += size;
    }
    return at;
}

// Jinja's own: not that of Python, which makes "They'Re" of "they're".
bool filter_title(struct value_room *room, const struct value *subject,
                  const struct call_arguments *arguments, struct value *out)
{
    struct slice rest;
    if (!builtin_bind_none(room, "title", arguments) || !value_to_string(room, subject, &rest) ||
        !value_step(room, 1 + rest.size / 16)) {
        return false;
    }
    struct text text = value_text_open(room);
    while (rest.size > 0 && !text.overflow) {
        size_t size = run_size(rest);
        unsigned first = utf8_size_of_lead(rest.bytes[0]);
        value_text_add_case(slice_of(rest.bytes, first), VALUE_TEXT_UPPER, &text);
        value_text_add_case(slice_of(rest.bytes + first, size - first), VALUE_TEXT_LOWER, &text);
        rest = slice_of(rest.bytes + size, rest.size - size);
    }
    struct slice titled;
    if (!value_text_take(room, &text, &titled)) {
        return false;
    }
    *out = value_string(titled);
    return true;
}

bool filter_string(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    struct slice text;
    if (!builtin_bind_none(room, "string", arguments) || !value_to_string(room, subject, &text)) {
        return false;
    }
    bool markup = subject->kind == VALUE_STRING && subject->markup;
    *out = value_string(text);
    out->markup = markup;
    return true;
}

bool filter_safe(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    if (!filter_string(room, subject, arguments, out)) {
        return false;
    }
    out->markup = true;
    return true;
}

bool filter_trim(struct value_room *room, const struct value *subject,
                 const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"trim", 0, 1, {"chars"}};
    const struct value *chars = NULL;
    struct slice set = {0};
    struct slice text;
    if (!builtin_bind(room, &signature, arguments, &chars) ||
        !value_to_string(room, subject, &text)) {
        return false;
    }
    if (argument_is_given(chars)) {
        if (!argument_string(room, chars, &set)) {
            return false;
        }
        set.bytes = set.size > 0 ? set.bytes : (const uint8_t *)"";
    }
    bool markup = subject->kind == VALUE_STRING && subject->markup;
    struct slice trimmed = string_strip(text, set, STRIP_LEFT | STRIP_RIGHT);
    *out = value_string(trimmed);
    out->markup = markup;
    return value_step(room, 1 + (text.size - trimmed.size) * (1 + set.size / 8) / 16);
}

bool filter_replace(struct value_room *room, const struct value *subject,
                    const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"replace", 2, 3, {"old", "new", "count"}};
    const struct value *given[3];
    struct slice pair[2];
    struct slice text;
    struct slice replaced;
    int64_t count = -1;
    if (!builtin_bind(room, &signature, arguments, given) ||
        !value_to_string(room, subject, &text) || !value_to_string(room, given[0], &pair[0]) ||
        !value_to_string(room, given[1], &pair[1]) ||
        (argument_is_given(given[2]) && !argument_integer(room, given[2], -1, &count)) ||
        !string_replace(room, text, pair, count, &replaced)) {
        return false;
    }
    *out = value_string(replaced);
    return true;
}

bool filter_center(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"center", 0, 1, {"width"}};
    const struct value *given = NULL;
    struct slice text;
    struct slice padded;
    int64_t width = 80;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, &given) ||
        !argument_integer(room, given, 80, &width) || !value_to_string(room, subject, &text) ||
        !string_pad(room, text, width, PAD_BOTH, &padded)) {
        return false;
    }
    *out = value_string(padded);
    return true;
}

bool filter_format(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    struct slice format;
    if (!builtin_refuse_markup(room, subject) || !value_to_string(room, subject, &format)) {
        return false;
    }
    if (arguments->named_count > 0 && arguments->named_count < arguments->count) {
        return value_fail(room, STATUS_MALFORMED,
                          "can't handle positional and keyword arguments at the same time");
    }
    struct value operand = {.kind = VALUE_TUPLE};
    if (arguments->named_count > 0) {
        struct value_dict *dict = value_dict_new(room, arguments->count);
        for (uint32_t i = 0; dict != NULL && i < arguments->count; i++) {
            dict->members[i] =
                (struct value_member){value_string(arguments->names[i]), arguments->values[i]};
        }
        operand = (struct value){.kind = VALUE_DICT, .dict = dict};
    } else {
        struct value_list *list = value_list_new(room, arguments->count);
        for (uint32_t i = 0; list != NULL && i < arguments->count; i++) {
            list->items[i] = arguments->values[i];
        }
        operand.list = list;
    }
    return room->status == STATUS_OK && value_format_percent(room, format, &operand, out);
}

// What is written before a line: a string, or as many blanks.
struct indentation {
    struct slice text;
    uint64_t blanks;
};

static void add_indentation(struct text *out, const struct indentation *indentation)
{
    text_add(out, indentation->text);
    for (uint64_t i = 0; i < indentation->blanks && !out->overflow; i++) {
        text_add_str(out, " ");
    }
}

static void indent_lines(struct text *out, struct slice rest, const struct indentation *indentation,
                         bool blank)
{
    // Jinja adds a newline and takes lines after: so a string that ends with one has an empty last line,
    // and all ends of lines become newlines.
    struct string_line line;
    bool first = true;
    bool open = true;
    while (open && !out->overflow) {
        bool found = string_next_line(&rest, &line);
        if (!found) {
            line.line = slice_of(NULL, 0);
        }
        open = found && line.whole.size > line.line.size;
        if (!first) {
            text_add_str(out, "\n");
            if (blank || line.line.size > 0) {
                add_indentation(out, indentation);
            }
        }
        text_add(out, line.line);
        first = false;
    }
}

bool filter_indent(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {"indent", 0, 3, {"width", "first", "blank"}};
    const struct value *given[3];
    struct slice string;
    struct indentation indentation = {0};
    int64_t width = 4;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, given) ||
        !argument_string(room, subject, &string)) {
        return false;
    }
    if (given[0] != NULL && given[0]->kind == VALUE_STRING) {
        indentation.text = given[0]->string;
    } else if (!argument_integer(room, given[0], 4, &width)) {
        return false;
    } else {
        indentation.blanks = width > 0 ? (uint64_t)width : 0;
    }
    struct text text = value_text_open(room);
    if (argument_is_true(given[1])) {
        add_indentation(&text, &indentation);
    }
    indent_lines(&text, string, &indentation, argument_is_true(given[2]));
    struct slice indented;
    if (!value_text_take(room, &text, &indented)) {
        return false;
    }
    *out = value_string(indented);
    return true;
}

bool filter_truncate(struct value_room *room, const struct value *subject,
                     const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {
        "truncate", 0, 4, {"length", "killwords", "end", "leeway"}};
    const struct value *given[4];
    struct slice string;
    struct slice end = slice_str("...");
    int64_t length = 255;
    int64_t leeway = 5;
    if (!builtin_refuse_markup(room, subject) ||
        !builtin_bind(room, &signature, arguments, given) ||
        !argument_string(room, subject, &string) ||
        !argument_integer(room, given[0], 255, &length) ||
        (given[2] != NULL && !argument_string(room, given[2], &end)) ||
        (argument_is_given(given[3]) && !argument_integer(room, given[3], 5, &leeway)) ||
        !value_step(room, 1 + string.size / 64)) {
        return false;
    }
    int64_t end_length = (int64_t)value_string_length(end);
    if (length < end_length || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX) {
        return value_fail(room, STATUS_MALFORMED, "expected length >= %d, and leeway >= 0",
                          (int)end_length);
    }
    *out = *subject;
    if ((int64_t)value_string_length(string) <= length + leeway) {
        return true;
    }
    struct slice kept = value_string_part(string, 0, (size_t)(length - end_length));
    size_t blank = argument_is_true(given[1]) ? PLACE_NONE : last_place_of(kept, slice_str(" "));
    kept.size = blank != PLACE_NONE ? blank : kept.size;
    struct text text = value_text_open(room);
    text_add(&text, kept);
    text_add(&text, end);
    return value_text_take(room, &text, &out->string);
}

static bool is_unreserved(uint8_t byte)
{
    return (byte < 0x80 && value_text_is_alphabetic(byte)) || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("_.-~/", byte) != NULL);
}

bool filter_urlencode(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, struct value *out)
{
    static const char digits[] = "0123456789ABCDEF";
    if (!builtin_bind_none(room, "urlencode", arguments)) {
        return false;
    }
    if (subject->kind != VALUE_STRING) {
        return value_fail(room, STATUS_MALFORMED, "urlencode of '%s' is not implemented",
                          value_type_name(subject));
    }
    struct slice string = subject->string;
    struct text text = value_text_open(room);
    for (size_t i = 0; i < string.size && !text.overflow; i++) {
        uint8_t byte = string.bytes[i];
        char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
        text_add(&text, is_unreserved(byte) ? slice_of(&byte, 1) : slice_of(escape, 3));
    }
    struct slice encoded;
    if (!value_text_take(room, &text, &encoded)) {
        return false;
    }
    *out = value_string(encoded);
    return true;
}

bool filter_wordcount(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, struct value *out)
{
    struct slice text;
    if (!builtin_bind_none(room, "wordcount", arguments) ||
        !value_to_string(room, subject, &text) || !value_step(room, 1 + text.size / 16)) {
        return false;
    }
    int64_t count = 0;
    bool inside = false;
    unsigned size = 0;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t code_point = utf8_read(text.bytes + at, &size);
        bool word = code_point == '_' || value_text_is_alphabetic(code_point) ||
                    value_text_is_numeric(code_point);
        count += word && !inside;
        inside = word;
    }
    *out = value_int(count);
    return true;
}

static bool read_separators(struct value_room *room, const struct value *given,
                            struct value_json_style *style)
{
    if (!argument_is_given(given)) {
        return true;
    }
    bool pair = (given->kind == VALUE_TUPLE || given->kind == VALUE_LIST) &&
                given->list->count == 2 && given->list->items[0].kind == VALUE_STRING &&
                given->list->items[1].kind == VALUE_STRING;
    if (!pair) {
        return value_fail(room, STATUS_MALFORMED, "separators of tojson are two strings");
    }
    style->item_separator = given->list->items[0].string;
    style->key_separator = given->list->items[1].string;
    // An empty one is there, other than one that is not given.
    if (style->item_separator.size == 0) {
        style->item_separator = slice_str("");
    }
    if (style->key_separator.size == 0) {
        style->key_separator = slice_str("");
    }
    return true;
}

// json.dumps as transformers calls it.
bool filter_tojson(struct value_room *room, const struct value *subject,
                   const struct call_arguments *arguments, struct value *out)
{
    static const struct signature signature = {
        "tojson", 0, 4, {"ensure_ascii", "indent", "separators", "sort_keys"}};
    const struct value *given[4];
    struct value_json_style style = {.indent = -1};
    int64_t indent = 0;
    if (!builtin_bind(room, &signature, arguments, given) ||
        !read_separators(room, given[2], &style)) {
        return false;
    }
    style.ensure_ascii = argument_is_true(given[0]);
    style.sort_keys = argument_is_true(given[3]);
    if (argument_is_given(given[1])) {
        if (!argument_integer(room, given[1], 0, &indent)) {
            return false;
        }
        // Below zero there are line breaks all the same.
        style.indent = indent < 0 ? 0 : indent > INT32_MAX ? INT32_MAX : (int32_t)indent;
    }
    struct text text = value_text_open(room);
    struct slice written;
    if (!value_to_json(room, subject, &style, &text) || !value_text_take(room, &text, &written)) {
        return false;
    }
    *out = value_string(written);
    return true;
}

// Transformers has none either.  Templates name it in branches that are rarely run, which Jinja allows.
bool filter_from_json(struct value_room *room, const struct value *subject,
                      const struct call_arguments *arguments, struct value *out)
{
    (void)subject;
    (void)arguments;
    (void)out;
    return value_fail(room, STATUS_MALFORMED, "No filter named 'from_json' found.");
}
