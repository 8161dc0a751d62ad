// SPDX-License-Identifier: Apache-2.0
//
// Filters that give strings, and those that read them.  Values of other kinds are taken as what they print, as
// Jinja does.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// lower, upper and capitalize as filters, these and title as methods.
bool text_case(const struct builtin_call *call)
{
    struct slice text;
    struct slice changed;
    enum value_text_case to = (enum value_text_case)call->builtin->variant;
    return call_text(call, &text) && value_text_to_case(call->room, text, to, &changed) &&
           call_gives_text(call, changed);
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
    ASSERT(text.size > 0);
    unsigned size = 0;
    bool border = is_word_border(utf8_read(text.bytes, &size));
    size_t at = size;
    while (at < text.size && is_word_border(utf8_read(text.bytes + at, &size)) == border) {
        at += size;
    }
    return at;
}

// Jinja's own: Python's makes "They'Re" of "they're".
bool filter_title(const struct builtin_call *call)
{
    struct slice rest;
    if (!call_text(call, &rest) || !call_takes_steps(call, 1 + rest.size / 16)) {
        return false;
    }
    struct text text = value_text_open(call->room);
    while (rest.size > 0 && !text.overflow) {
        size_t size = run_size(rest);
        unsigned first = utf8_size_of_lead(rest.bytes[0]);
        value_text_add_case(slice_of(rest.bytes, first), VALUE_TEXT_UPPER, &text);
        value_text_add_case(slice_of(rest.bytes + first, size - first), VALUE_TEXT_LOWER, &text);
        rest = string_after(rest, size);
    }
    return value_text_end(call->room, &text, call->out);
}

// string, and safe as its variant.
bool filter_string(const struct builtin_call *call)
{
    struct slice text;
    if (!call_text(call, &text)) {
        return false;
    }
    (void)call_gives_text(call, text);
    call->out->markup |= call->builtin->variant != 0;
    return true;
}

// The filter trim and the methods strip, lstrip and rstrip.
bool text_strip(const struct builtin_call *call)
{
    struct slice set = {0};
    struct slice text;
    if (!call_text(call, &text) || (call_has(call, 0) && !call_string(call, 0, &set))) {
        return false;
    }
    if (call_has(call, 0) && set.size == 0) {
        set = slice_str(""); // strips nothing
    }
    struct slice stripped = string_strip(text, set, call->builtin->variant);
    return call_gives_text(call, stripped) &&
           call_takes_steps(call, 1 + (text.size - stripped.size) * (1 + set.size / 8) / 16);
}

bool filter_replace(const struct builtin_call *call)
{
    struct slice pair[2];
    struct slice text;
    struct slice replaced;
    int64_t count = -1;
    return call_text(call, &text) && value_to_string(call->room, call->given[0], &pair[0]) &&
           value_to_string(call->room, call->given[1], &pair[1]) &&
           (!call_has(call, 2) || call_integer(call, 2, -1, &count)) &&
           string_replace(call->room, text, pair, count, &replaced) &&
           call_gives(call, value_string(replaced));
}

// The filter center and the methods center, ljust and rjust, which take a fill character.
bool text_pad(const struct builtin_call *call)
{
    struct slice text;
    struct slice padded;
    struct slice fill = slice_str(" ");
    int64_t width = 80;
    if (!call_text(call, &text) || !call_integer(call, 0, 80, &width) ||
        !call_string(call, 1, &fill)) {
        return false;
    }
    if (!slice_is(fill, " ")) {
        return value_raise(call->room, "a fill character is not implemented");
    }
    return string_pad(call->room, text, width, (enum pad_side)call->builtin->variant, &padded) &&
           call_gives(call, value_string(padded));
}

bool filter_format(const struct builtin_call *call)
{
    const struct call_arguments *arguments = call->arguments;
    struct slice format;
    if (!call_text(call, &format)) {
        return false;
    }
    if (arguments->named_count > 0 && arguments->named_count < arguments->count) {
        return value_raise(call->room,
                           "can't handle positional and keyword arguments at the same time");
    }
    struct value operand = {.kind = VALUE_TUPLE};
    if (arguments->named_count > 0) {
        struct value_dict *dict = value_dict_new(call->room, arguments->count);
        for (uint32_t i = 0; dict != NULL && i < arguments->count; i++) {
            dict->members[i] =
                (struct value_member){value_string(arguments->names[i]), arguments->values[i]};
        }
        operand = (struct value){.kind = VALUE_DICT, .dict = dict};
    } else {
        struct value_list *list = value_list_new(call->room, arguments->count);
        for (uint32_t i = 0; list != NULL && i < arguments->count; i++) {
            list->items[i] = arguments->values[i];
        }
        operand.list = list;
    }
    return call->room->status == STATUS_OK &&
           value_format_percent(call->room, format, &operand, call->out);
}

// What is written before a line: a string, or as many blanks.
struct indentation {
    struct slice text;
    uint64_t blanks;
};

static void add_indentation(struct text *out, const struct indentation *indentation)
{
    text_add(out, indentation->text);
    string_add_repeated(out, " ", indentation->blanks);
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

bool filter_indent(const struct builtin_call *call)
{
    struct slice string;
    struct indentation indentation = {0};
    int64_t width = 4;
    if (!argument_string(call->room, call->subject, &string)) {
        return false;
    }
    if (call->given[0] != NULL && call->given[0]->kind == VALUE_STRING) {
        indentation.text = call->given[0]->string;
    } else if (!call_integer(call, 0, 4, &width)) {
        return false;
    } else {
        indentation.blanks = width > 0 ? (uint64_t)width : 0;
    }
    struct text text = value_text_open(call->room);
    if (call_is_true(call, 1)) {
        add_indentation(&text, &indentation);
    }
    indent_lines(&text, string, &indentation, call_is_true(call, 2));
    return value_text_end(call->room, &text, call->out);
}

bool filter_truncate(const struct builtin_call *call)
{
    struct slice string;
    struct slice end = slice_str("...");
    int64_t length = 255;
    int64_t leeway = 5;
    if (!argument_string(call->room, call->subject, &string) ||
        !call_integer(call, 0, 255, &length) || !call_string(call, 2, &end) ||
        (call_has(call, 3) && !call_integer(call, 3, 5, &leeway)) ||
        !call_takes_steps(call, 1 + string.size / 64)) {
        return false;
    }
    int64_t end_length = (int64_t)value_string_length(end);
    if (length < end_length || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX) {
        return value_raise(call->room, "expected length >= %d, and leeway >= 0", (int)end_length);
    }
    if ((int64_t)value_string_length(string) <= length + leeway) {
        return call_gives(call, *call->subject);
    }
    struct slice kept = value_string_part(string, 0, (size_t)(length - end_length));
    size_t blank = call_is_true(call, 1) ? PLACE_NONE : last_place_of(kept, slice_str(" "));
    kept.size = blank != PLACE_NONE ? blank : kept.size;
    struct text text = value_text_open(call->room);
    text_add(&text, kept);
    text_add(&text, end);
    return value_text_end(call->room, &text, call->out);
}

static bool is_unreserved(uint8_t byte)
{
    return (byte < 0x80 && value_text_is_alphabetic(byte)) || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("_.-~/", byte) != NULL);
}

bool filter_urlencode(const struct builtin_call *call)
{
    static const char digits[] = "0123456789ABCDEF";
    if (call->subject->kind != VALUE_STRING) {
        return value_raise(call->room, "urlencode of '%s' is not implemented",
                           value_type_name(call->subject));
    }
    struct slice string = call->subject->string;
    struct text text = value_text_open(call->room);
    for (size_t i = 0; i < string.size && !text.overflow; i++) {
        uint8_t byte = string.bytes[i];
        char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
        text_add(&text, is_unreserved(byte) ? slice_of(&byte, 1) : slice_of(escape, 3));
    }
    return value_text_end(call->room, &text, call->out);
}

bool filter_wordcount(const struct builtin_call *call)
{
    struct slice text;
    if (!call_text(call, &text) || !call_takes_steps(call, 1 + text.size / 16)) {
        return false;
    }
    int64_t count = 0;
    bool inside = false;
    unsigned size = 0;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t code_point = utf8_read(text.bytes + at, &size);
        bool is_word = code_point == '_' || value_text_is_alphabetic(code_point) ||
                       value_text_is_numeric(code_point);
        count += is_word && !inside;
        inside = is_word;
    }
    return call_gives(call, value_int(count));
}

// (item separator, key separator), either of which may be empty.
static bool read_separators(struct value_room *room, const struct value *given,
                            struct value_json_style *style)
{
    bool is_pair = (given->kind == VALUE_TUPLE || given->kind == VALUE_LIST) &&
                   given->list->count == 2 && given->list->items[0].kind == VALUE_STRING &&
                   given->list->items[1].kind == VALUE_STRING;
    if (!is_pair) {
        return value_raise(room, "separators of tojson are two strings");
    }
    struct slice item = given->list->items[0].string;
    struct slice key = given->list->items[1].string;
    style->item_separator = item.size > 0 ? item : slice_str("");
    style->key_separator = key.size > 0 ? key : slice_str("");
    return true;
}

// json.dumps as transformers calls it.
bool filter_tojson(const struct builtin_call *call)
{
    struct value_json_style style = {
        .indent = -1,
        .ensure_ascii = call_is_true(call, 0),
        .sort_keys = call_is_true(call, 3),
    };
    int64_t indent = 0;
    if (call_has(call, 2) && !read_separators(call->room, call->given[2], &style)) {
        return false;
    }
    if (call_has(call, 1)) {
        if (!call_integer(call, 1, 0, &indent)) {
            return false;
        }
        // Below zero there are line breaks all the same.
        style.indent = indent < 0 ? 0 : indent > INT32_MAX ? INT32_MAX : (int32_t)indent;
    }
    struct text text = value_text_open(call->room);
    return value_to_json(call->room, call->subject, &style, &text) &&
           value_text_end(call->room, &text, call->out);
}

// Transformers has no such filter either.  Templates name it in branches that are rarely run, which Jinja
// allows.
bool filter_from_json(const struct builtin_call *call)
{
    return value_raise(call->room, "No filter named 'from_json' found.");
}
