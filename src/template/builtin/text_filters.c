// SPDX-License-Identifier: Apache-2.0
//
// Filters that return strings, and those that read them.  As in Jinja, values of other kinds count
// as their str().

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

// lower, upper and capitalize as filters, these and title as methods.
bool text_case(const struct builtin_call *call)
{
    enum value_text_case to = (enum value_text_case)call->builtin->variant;
    return call_gives_text(call, value_text_to_case(call->room, call_text(call), to));
}

// Jinja cuts words at [-\s({\[<].
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
    struct slice rest = call_text(call);
    (void)value_step(call->room, 1 + rest.size / 16);
    struct text text = value_text_open(call->room);
    while (rest.size > 0 && !text.overflow) {
        size_t size = run_size(rest);
        unsigned first = utf8_size_of_lead(rest.bytes[0]);
        value_text_add_case(slice_of(rest.bytes, first), VALUE_TEXT_UPPER, &text);
        value_text_add_case(slice_of(rest.bytes + first, size - first), VALUE_TEXT_LOWER, &text);
        rest = string_after(rest, size);
    }
    return call_gives(call, value_text_end(call->room, &text));
}

// string, and safe as its variant.
bool filter_string(const struct builtin_call *call)
{
    bool is_good = call_gives_text(call, call_text(call));
    call->out->markup |= call->builtin->variant != 0;
    return is_good;
}

// The filter trim and the methods strip, lstrip and rstrip.
bool text_strip(const struct builtin_call *call)
{
    struct slice text = call_text(call);
    struct slice set = {0};
    if (call_has(call, 0)) {
        set = call_string(call, 0, "");
        set = set.size > 0 ? set : slice_str(""); // strips nothing
    }
    struct slice stripped = string_strip(text, set, call->builtin->variant);
    (void)value_step(call->room, 1 + (text.size - stripped.size) * (1 + set.size / 8) / 16);
    return call_gives_text(call, stripped);
}

// The filter takes any values, the method strings.
bool text_replace(const struct builtin_call *call)
{
    bool is_filter = call->builtin->variant != 0;
    struct slice text = call_text(call);
    struct slice pair[2];
    for (uint32_t i = 0; i < 2; i++) {
        pair[i] =
            is_filter ? value_to_string(call->room, call->given[i]) : call_string(call, i, "");
    }
    int64_t count = is_filter && !call_has(call, 2) ? -1 : call_integer(call, 2, -1);
    return call_gives(call, value_string(string_replace(call->room, text, pair, count)));
}

// The filter center and the methods center, ljust and rjust, which take a fill character.
bool text_pad(const struct builtin_call *call)
{
    struct slice text = call_text(call);
    int64_t width = call_integer(call, 0, 80);
    if (!slice_is(call_string(call, 1, " "), " ")) {
        return value_raise(call->room, "a fill character is not implemented");
    }
    enum pad_side side = (enum pad_side)call->builtin->variant;
    return call_gives(call, value_string(string_pad(call->room, text, width, side)));
}

bool filter_format(const struct builtin_call *call)
{
    const struct call_arguments *arguments = call->arguments;
    struct slice format = call_text(call);
    if (arguments->named_count > 0 && arguments->named_count < arguments->count) {
        return value_raise(call->room,
                           "can't handle positional and keyword arguments at the same time");
    }
    struct value operand =
        value_of_tuple(value_list_copy(call->room, arguments->values, arguments->count));
    if (arguments->named_count > 0) {
        struct value_dict *dict = value_dict_new(call->room, arguments->count);
        for (uint32_t i = 0; dict != NULL && i < arguments->count; i++) {
            dict->members[i] =
                (struct value_member){value_string(arguments->names[i]), arguments->values[i]};
        }
        operand = value_of_dict(dict);
    }
    return call->room->status == STATUS_OK &&
           call_gives(call, value_format_percent(call->room, format, &operand));
}

// Before a line: a string, or a number of blanks.
struct indentation {
    struct slice text;
    uint64_t blanks;
};

static void add_indentation(struct text *out, const struct indentation *indentation)
{
    text_add(out, indentation->text);
    string_add_repeated(out, slice_str(" "), indentation->blanks);
}

// Jinja adds a newline and takes lines after: so a string that ends with one has an empty last
// line, and all ends of lines become newlines.
static void indent_lines(struct text *out, struct slice rest, const struct indentation *indentation,
                         bool blank)
{
    bool open = true;
    for (bool first = true; open && !out->overflow; first = false) {
        struct string_line line = {0};
        (void)string_next_line(&rest, &line);
        open = line.whole.size > line.line.size;
        text_add_str(out, first ? "" : "\n");
        if (!first && (blank || line.line.size > 0)) {
            add_indentation(out, indentation);
        }
        text_add(out, line.line);
    }
}

bool filter_indent(const struct builtin_call *call)
{
    struct slice string = argument_string(call->room, call->subject);
    struct indentation indentation = {0};
    if (call->given[0] != NULL && call->given[0]->kind == VALUE_STRING) {
        indentation.text = call->given[0]->string;
    } else {
        int64_t width = call_integer(call, 0, 4);
        indentation.blanks = width > 0 ? (uint64_t)width : 0;
    }
    struct text text = value_text_open(call->room);
    if (call_is_true(call, 1)) {
        add_indentation(&text, &indentation);
    }
    indent_lines(&text, string, &indentation, call_is_true(call, 2));
    return call_gives(call, value_text_end(call->room, &text));
}

bool filter_truncate(const struct builtin_call *call)
{
    struct slice string = argument_string(call->room, call->subject);
    int64_t length = call_integer(call, 0, 255);
    struct slice end = call_string(call, 2, "...");
    int64_t leeway = call_has(call, 3) ? call_integer(call, 3, 5) : 5;
    (void)value_step(call->room, 1 + string.size / 64);
    int64_t end_length = (int64_t)value_string_length(end);
    if (length < end_length || leeway < 0 || length > INT32_MAX || leeway > INT32_MAX) {
        return value_raise(call->room, "expected length >= %d, and leeway >= 0", (int)end_length);
    }
    if ((int64_t)value_string_length(string) <= length + leeway) {
        return call_gives(call, *call->subject);
    }
    struct slice kept = value_string_part(string, 0, (size_t)(length - end_length));
    size_t blank = call_is_true(call, 1) ? PLACE_NONE : place_of(kept, slice_str(" "), true);
    kept.size = blank != PLACE_NONE ? blank : kept.size;
    struct text text = value_text_open(call->room);
    text_add(&text, kept);
    text_add(&text, end);
    return call_gives(call, value_text_end(call->room, &text));
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
    return call_gives(call, value_text_end(call->room, &text));
}

bool filter_wordcount(const struct builtin_call *call)
{
    struct slice text = call_text(call);
    (void)value_step(call->room, 1 + text.size / 16);
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
    if (call_has(call, 2) && !read_separators(call->room, call->given[2], &style)) {
        return false;
    }
    if (call_has(call, 1)) {
        int64_t indent = call_integer(call, 1, 0);
        // Below zero there are line breaks all the same.
        style.indent = indent < 0 ? 0 : indent > INT32_MAX ? INT32_MAX : (int32_t)indent;
    }
    struct text text = value_text_open(call->room);
    (void)value_to_json(call->room, call->subject, &style, &text);
    return call_gives(call, value_text_end(call->room, &text));
}

// Transformers does not have this filter either, but Jinja lets templates name it in branches that
// are not run.
bool filter_from_json(const struct builtin_call *call)
{
    return value_raise(call->room, "No filter named 'from_json' found.");
}
