// SPDX-License-Identifier: Apache-2.0
//
// "..." % values and str.format().  Both come down to a field: what is written, how wide, and on which side
// the blanks are.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"

#include <math.h>
#include <stdio.h>

// More than any prompt needs, and little enough for buffers here.
enum { width_max = 4096, precision_max = 100 };

struct field {
    uint8_t type;
    bool left;   // blanks after it
    bool middle; // blanks on both sides; str.format only
    bool zeros;
    bool alternate;
    uint8_t sign; // '+', ' ' or 0: what is before numbers that are not negative
    uint32_t width;
    int32_t precision; // below 0: none
    struct slice fill; // one character
};

// A field that is ready: sign or prefix, then zeros, then the rest.
static void add_padded(struct text *out, const struct field *field, struct slice head,
                       struct slice body)
{
    uint64_t length = value_string_length(head) + value_string_length(body);
    uint64_t missing = field->width > length ? field->width - length : 0;
    uint64_t before = field->left ? 0 : missing;
    before = field->middle ? missing / 2 : before;
    bool inside = field->zeros && !field->left && !field->middle;
    struct slice zero = slice_str("0");

    for (uint64_t i = 0; i < before && !inside; i++) {
        text_add(out, field->fill);
    }
    text_add(out, head);
    for (uint64_t i = 0; i < before && inside; i++) {
        text_add(out, zero);
    }
    text_add(out, body);
    for (uint64_t i = before; i < missing; i++) {
        text_add(out, field->fill);
    }
}

static void add_text_field(struct text *out, const struct field *field, struct slice text)
{
    struct field plain = *field;
    plain.zeros = false;
    if (field->precision >= 0 && (size_t)field->precision < value_string_length(text)) {
        text = value_string_part(text, 0, (size_t)field->precision);
    }
    add_padded(out, &plain, slice_of(NULL, 0), text);
}

static void add_number_field(struct text *out, const struct field *field, bool negative,
                             const char *prefix, struct slice digits)
{
    char head[8];
    struct text text = text_over(head, sizeof(head));
    if (negative) {
        text_add_str(&text, "-");
    } else if (field->sign != 0) {
        text_add(&text, slice_of(&field->sign, 1));
    }
    text_add_str(&text, prefix);
    add_padded(out, field, text_slice(&text), digits);
}

static bool add_integer(struct value_room *room, const struct field *field, int64_t number,
                        struct text *out)
{
    char digits[precision_max + 80];
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    const char *prefix = "";
    int precision = field->precision < 0 ? 1 : field->precision;
    int size = 0;
    switch (field->type) {
    case 'x':
        size = snprintf(digits, sizeof(digits), "%.*llx", precision, (unsigned long long)magnitude);
        prefix = field->alternate ? "0x" : "";
        break;
    case 'X':
        size = snprintf(digits, sizeof(digits), "%.*llX", precision, (unsigned long long)magnitude);
        prefix = field->alternate ? "0X" : "";
        break;
    case 'o':
        size = snprintf(digits, sizeof(digits), "%.*llo", precision, (unsigned long long)magnitude);
        prefix = field->alternate ? "0o" : "";
        break;
    default:
        size = snprintf(digits, sizeof(digits), "%.*llu", precision, (unsigned long long)magnitude);
        break;
    }
    // C writes nothing for a zero without digits, Python a 0.
    struct slice text = size > 0 ? slice_of(digits, (size_t)size) : slice_str("0");
    add_number_field(out, field, number < 0, prefix, text);
    return value_step(room, 1);
}

static bool add_float(struct value_room *room, const struct field *field, double number,
                      struct text *out)
{
    char digits[512];
    int precision = field->precision < 0 ? 6 : field->precision;
    int size = 0;
    if (field->alternate) {
        return value_raise(room, "the format '#' of a float is not implemented");
    }
    double magnitude = fabs(number);
    switch (field->type) {
    case 'f':
    case 'F':
        size = snprintf(digits, sizeof(digits), "%.*f", precision, magnitude);
        break;
    case 'e':
        size = snprintf(digits, sizeof(digits), "%.*e", precision, magnitude);
        break;
    case 'E':
        size = snprintf(digits, sizeof(digits), "%.*E", precision, magnitude);
        break;
    case 'g':
        size = snprintf(digits, sizeof(digits), "%.*g", precision, magnitude);
        break;
    default:
        size = snprintf(digits, sizeof(digits), "%.*G", precision, magnitude);
        break;
    }
    if (field->type == 'F' && !isfinite(number)) {
        size = snprintf(digits, sizeof(digits), isnan(number) ? "NAN" : "INF");
    }
    // A nan has no sign in Python.
    add_number_field(out, field, signbit(number) && !isnan(number), "",
                     slice_of(digits, (size_t)size));
    return value_step(room, 1);
}

static bool is_whole(const struct value *value)
{
    return value->kind == VALUE_INT || value->kind == VALUE_BOOL;
}

static int64_t whole(const struct value *value)
{
    return value->kind == VALUE_BOOL ? value->boolean : value->integer;
}

static bool refuse_number(struct value_room *room, const struct field *field,
                          const struct value *value)
{
    bool large = value->kind == VALUE_BIG_INT || value->kind == VALUE_FLOAT;
    return value_raise(room,
                       large ? "%%%c format: a %s like this is not implemented"
                             : "%%%c format: a number is required, not %s",
                       field->type, value_type_name(value));
}

// %d and its like.
static bool add_as_integer(struct value_room *room, const struct field *field,
                           const struct value *value, struct text *out)
{
    if (is_whole(value)) {
        return add_integer(room, field, whole(value), out);
    }
    bool decimal = field->type == 'd';
    if (decimal && value->kind == VALUE_BIG_INT && field->precision < 0) {
        bool negative = value->string.bytes[0] == '-';
        add_number_field(out, field, negative, "",
                         slice_of(value->string.bytes + negative, value->string.size - negative));
        return true;
    }
    if (decimal && value->kind == VALUE_FLOAT && fabs(value->number) < 0x1p63) {
        return add_integer(room, field, (int64_t)value->number, out);
    }
    if (decimal && value->kind == VALUE_FLOAT && isfinite(value->number) && field->precision < 0) {
        char digits[320];
        int size = snprintf(digits, sizeof(digits), "%.0f", fabs(value->number));
        add_number_field(out, field, value->number < 0, "", slice_of(digits, (size_t)size));
        return true;
    }
    return refuse_number(room, field, value);
}

static bool add_as_float(struct value_room *room, const struct field *field,
                         const struct value *value, struct text *out)
{
    if (is_whole(value)) {
        return add_float(room, field, (double)whole(value), out);
    }
    return value->kind == VALUE_FLOAT ? add_float(room, field, value->number, out)
                                      : refuse_number(room, field, value);
}

// str() or repr(), in the arena behind what is being written, for a moment.
static bool add_as_text(struct value_room *room, const struct field *field,
                        const struct value *value, bool repr, struct text *out)
{
    if (!repr && value->kind == VALUE_STRING) {
        add_text_field(out, field, value->string);
        return true;
    }
    struct text rest = text_over(out->bytes + out->size, out->capacity - out->size);
    if (repr) {
        value_print_repr(value, &rest);
    } else {
        value_print(value, &rest);
    }
    if (rest.overflow) {
        return value_fail(room, STATUS_TOO_LARGE, "what is formatted cannot be printed");
    }
    size_t length = value_string_length(text_slice(&rest));
    if (field->width <= length && field->precision < 0) {
        out->size += rest.size;
        return true;
    }
    struct slice printed = text_slice(&rest);
    if (field->precision >= 0 && (size_t)field->precision < length) {
        printed = value_string_part(printed, 0, (size_t)field->precision);
        length = (size_t)field->precision;
    }
    uint64_t missing = field->width > length ? field->width - length : 0;
    uint64_t before = field->left ? 0 : field->middle ? missing / 2 : missing;
    size_t shift = before * field->fill.size;
    if (shift > out->capacity - out->size || printed.size > out->capacity - out->size - shift) {
        out->overflow = true;
        return true;
    }
    memmove(out->bytes + out->size + shift, printed.bytes, printed.size);
    for (uint64_t i = 0; i < before; i++) {
        text_add(out, field->fill);
    }
    out->size += printed.size;
    for (uint64_t i = before; i < missing; i++) {
        text_add(out, field->fill);
    }
    return true;
}

static bool add_as_character(struct value_room *room, const struct field *field,
                             const struct value *value, struct text *out)
{
    uint8_t bytes[4];
    struct slice character = {0};
    if (value->kind == VALUE_STRING && value_string_length(value->string) == 1) {
        character = value->string;
    } else if (is_whole(value) && whole(value) >= 0 && whole(value) < 0x110000 &&
               (whole(value) < 0xd800 || whole(value) > 0xdfff)) {
        character = slice_of(bytes, utf8_write((uint32_t)whole(value), bytes));
    } else {
        return value_raise(room, "%%c requires int or char");
    }
    struct field plain = *field;
    plain.precision = -1;
    add_text_field(out, &plain, character);
    return true;
}

static bool add_field(struct value_room *room, const struct field *field, const struct value *value,
                      struct text *out)
{
    switch (field->type) {
    case 's':
    case 'r':
        return add_as_text(room, field, value, field->type == 'r', out);
    case 'd':
    case 'x':
    case 'X':
    case 'o':
        return add_as_integer(room, field, value, out);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return add_as_float(room, field, value, out);
    case 'c':
        return add_as_character(room, field, value, out);
    default:
        return value_raise(room, "the format '%c' is not implemented",
                           field->type >= ' ' && field->type < 0x7f ? field->type : '?');
    }
}

// Reading a format, from `at` on.
struct scan {
    struct value_room *room;
    struct slice format;
    size_t at;
    struct text *out;
};

static uint8_t peek(const struct scan *scan)
{
    return scan->at < scan->format.size ? scan->format.bytes[scan->at] : '\0';
}

static bool read_count(struct scan *scan, uint32_t limit, uint32_t *out)
{
    uint32_t count = 0;
    while (peek(scan) >= '0' && peek(scan) <= '9') {
        count = count * 10 + (peek(scan) - '0');
        scan->at++;
        if (count > limit) {
            return value_fail(scan->room, STATUS_TOO_LARGE, "a width of a format is too large");
        }
    }
    *out = count;
    return true;
}

// Copies up to the next of the marks; false at the end.
static bool copy_until(struct scan *scan, const char *marks)
{
    size_t begin = scan->at;
    while (scan->at < scan->format.size &&
           (peek(scan) == '\0' || strchr(marks, peek(scan)) == NULL)) {
        scan->at++;
    }
    text_add(scan->out, slice_of(scan->format.bytes + begin, scan->at - begin));
    return scan->at < scan->format.size;
}

// What % takes its arguments from.
struct operand {
    const struct value *values;
    uint32_t count;
    uint32_t next;
    const struct value *mapping; // for %(name)s; NULL: there is none
};

// Those that find an argument return NULL, with the failure noted, when there is none.
static const struct value *next_argument(struct scan *scan, struct operand *operand)
{
    if (operand->next == operand->count) {
        (void)value_raise(scan->room, "not enough arguments for format string");
        return NULL;
    }
    return &operand->values[operand->next++];
}

// A number, or * for the next argument.
static bool read_measure(struct scan *scan, struct operand *operand, uint32_t limit, int64_t *out)
{
    if (peek(scan) == '*') {
        scan->at++;
        const struct value *argument = next_argument(scan, operand);
        if (argument == NULL) {
            return false;
        }
        if (!is_whole(argument)) {
            return value_raise(scan->room, "* wants int");
        }
        *out = whole(argument);
        if (*out > limit || *out < -(int64_t)limit) {
            return value_fail(scan->room, STATUS_TOO_LARGE, "a width of a format is too large");
        }
        return true;
    }
    uint32_t count = 0;
    if (!read_count(scan, limit, &count)) {
        return false;
    }
    *out = count;
    return true;
}

static const struct value *read_name(struct scan *scan, struct operand *operand)
{
    size_t begin = ++scan->at;
    // Parentheses nest in names, which nobody uses; then the name is not found.
    while (scan->at < scan->format.size && peek(scan) != ')') {
        if (peek(scan) == '(') {
            (void)value_raise(scan->room, "'(' in a name is not implemented");
            return NULL;
        }
        scan->at++;
    }
    if (scan->at == scan->format.size) {
        (void)value_raise(scan->room, "incomplete format key");
        return NULL;
    }
    struct slice name = slice_of(scan->format.bytes + begin, scan->at - begin);
    scan->at++;
    if (operand->mapping == NULL || operand->mapping->kind != VALUE_DICT) {
        (void)value_raise(scan->room, "format requires a mapping");
        return NULL;
    }
    // From here on fields without a name have nothing left.
    operand->next = operand->count;
    const struct value *found = value_dict_get(operand->mapping->dict, name);
    if (found == NULL) {
        (void)value_raise(scan->room, "a key of the format is missing");
    }
    return found;
}

static bool read_flags(struct scan *scan, struct operand *operand, struct field *field)
{
    for (;; scan->at++) {
        switch (peek(scan)) {
        case '-':
            field->left = true;
            continue;
        case '+':
            field->sign = '+';
            continue;
        case ' ':
            field->sign = field->sign == 0 ? ' ' : field->sign;
            continue;
        case '#':
            field->alternate = true;
            continue;
        case '0':
            field->zeros = true;
            continue;
        default:
            break;
        }
        break;
    }
    int64_t measure = 0;
    if (!read_measure(scan, operand, width_max, &measure)) {
        return false;
    }
    field->left = field->left || measure < 0;
    field->width = (uint32_t)(measure < 0 ? -measure : measure);
    if (peek(scan) == '.') {
        scan->at++;
        if (!read_measure(scan, operand, precision_max, &measure)) {
            return false;
        }
        field->precision = (int32_t)(measure < 0 ? 0 : measure);
    }
    if (peek(scan) == 'h' || peek(scan) == 'l' || peek(scan) == 'L') {
        scan->at++;
    }
    return true;
}

static bool format_one(struct scan *scan, struct operand *operand)
{
    const struct value *value = NULL;
    struct field field = {.precision = -1, .fill = slice_str(" ")};
    scan->at++;
    bool named = peek(scan) == '(';
    if (named && (value = read_name(scan, operand)) == NULL) {
        return false;
    }
    if (!read_flags(scan, operand, &field)) {
        return false;
    }
    if (scan->at == scan->format.size) {
        return value_raise(scan->room, "incomplete format");
    }
    field.type = peek(scan);
    scan->at++;
    if (field.type == '%') {
        text_add_str(scan->out, "%");
        return true;
    }
    if (field.type == 'i' || field.type == 'u') {
        field.type = 'd';
    }
    if (!named && (value = next_argument(scan, operand)) == NULL) {
        return false;
    }
    return add_field(scan->room, &field, value, scan->out);
}

// Python looks whether it can be indexed, and lists can; then arguments may be left over.
static bool is_mapping_enough(const struct value *operand)
{
    return operand->kind == VALUE_DICT || operand->kind == VALUE_LIST ||
           operand->kind == VALUE_UNDEFINED;
}

bool value_format_percent(struct value_room *room, struct slice format, const struct value *operand,
                          struct value *out)
{
    bool tuple = operand->kind == VALUE_TUPLE;
    struct operand arguments = {
        .values = tuple ? operand->list->items : operand,
        .count = tuple ? operand->list->count : 1,
        .mapping = is_mapping_enough(operand) ? operand : NULL,
    };
    struct text text = value_text_open(room);
    struct scan scan = {.room = room, .format = format, .out = &text};
    while (copy_until(&scan, "%")) {
        if (!value_step(room, 1) || !format_one(&scan, &arguments)) {
            return false;
        }
    }
    if (arguments.next < arguments.count && arguments.mapping == NULL) {
        return value_raise(room, "not all arguments converted during string formatting");
    }
    struct slice written;
    if (!value_text_take(room, &text, &written)) {
        return false;
    }
    *out = value_string(written);
    return true;
}

// str.format(): {} and {0} and {name}, !r and !s, and the plain part of the language of formats.
struct braces {
    const struct call_arguments *arguments;
    uint32_t next;
    bool counted;  // {} was used
    bool numbered; // {0} was used
};

static const struct value *find_positional(struct scan *scan, struct braces *braces,
                                           struct slice name)
{
    uint64_t index = braces->next;
    if (name.size == 0) {
        braces->next++;
        braces->counted = true;
    } else {
        braces->numbered = true;
        if (!slice_parse_u64(name, &index)) {
            (void)value_raise(scan->room, "a number of a field is too large");
            return NULL;
        }
    }
    if (braces->counted && braces->numbered) {
        (void)value_raise(scan->room, "cannot switch between automatic and manual field numbering");
        return NULL;
    }
    const struct call_arguments *arguments = braces->arguments;
    if (index >= arguments->count - arguments->named_count) {
        (void)value_raise(scan->room, "Replacement index %u out of range for positional args tuple",
                          (unsigned)index);
        return NULL;
    }
    return &arguments->values[index];
}

static const struct value *find_argument(struct scan *scan, struct braces *braces,
                                         struct slice name)
{
    bool digits = true;
    for (size_t i = 0; i < name.size; i++) {
        digits = digits && name.bytes[i] >= '0' && name.bytes[i] <= '9';
        if (name.bytes[i] == '.' || name.bytes[i] == '[') {
            (void)value_raise(scan->room,
                              "attributes and indices in format fields are not implemented");
            return NULL;
        }
    }
    if (digits) {
        return find_positional(scan, braces, name);
    }
    const struct call_arguments *arguments = braces->arguments;
    uint32_t placed = arguments->count - arguments->named_count;
    for (uint32_t i = 0; i < arguments->named_count; i++) {
        if (slice_equal(arguments->names[i], name)) {
            return &arguments->values[placed + i];
        }
    }
    (void)value_raise(scan->room, "a name of the format is missing");
    return NULL;
}

static bool is_alignment(uint8_t byte)
{
    return byte == '<' || byte == '>' || byte == '^';
}

// [[fill]align][sign][0][width][.precision][type]
static bool read_specification(struct scan *scan, struct field *field, bool *aligned)
{
    unsigned size = scan->at < scan->format.size ? utf8_size_of_lead(peek(scan)) : 0;
    size_t behind = scan->at + size;
    bool filled = size > 0 && peek(scan) != '{' && peek(scan) != '}' &&
                  behind < scan->format.size && is_alignment(scan->format.bytes[behind]);
    if (filled) {
        field->fill = slice_of(scan->format.bytes + scan->at, size);
        scan->at = behind;
    }
    uint8_t align = peek(scan);
    *aligned = is_alignment(align);
    if (*aligned) {
        field->left = align == '<';
        field->middle = align == '^';
        scan->at++;
    }
    if (peek(scan) == '+' || peek(scan) == '-' || peek(scan) == ' ') {
        field->sign = peek(scan) == '-' ? 0 : peek(scan);
        scan->at++;
    }
    if (peek(scan) == '0') {
        // Before a width only, and for numbers only; with an alignment it is the fill.
        field->zeros = true;
        scan->at++;
    }
    uint32_t precision = 0;
    if (!read_count(scan, width_max, &field->width)) {
        return false;
    }
    if (peek(scan) == '.') {
        scan->at++;
        if (!read_count(scan, precision_max, &precision)) {
            return false;
        }
        field->precision = (int32_t)precision;
    }
    if (peek(scan) != '}' && scan->at < scan->format.size) {
        field->type = peek(scan);
        scan->at++;
    }
    return true;
}

static bool add_specified(struct scan *scan, const struct value *value, struct field *field,
                          bool aligned)
{
    bool string = value->kind == VALUE_STRING;
    bool whole_number = is_whole(value) || value->kind == VALUE_BIG_INT;
    bool known =
        (string && (field->type == 0 || field->type == 's') && field->sign == 0 && !field->zeros) ||
        (whole_number && (field->type == 0 || field->type == 'd') && field->precision < 0) ||
        ((is_whole(value) || value->kind == VALUE_FLOAT) && field->type == 'f');
    if (!known || (field->zeros && aligned)) {
        return value_raise(scan->room, "this format of a value of type %s is not implemented",
                           value_type_name(value));
    }
    // Strings lean to the left, numbers to the right.
    field->left = aligned ? field->left : string;
    field->type = field->type != 0 ? field->type : (string ? 's' : 'd');
    return add_field(scan->room, field, value, scan->out);
}

static bool format_braces_one(struct scan *scan, struct braces *braces)
{
    size_t begin = scan->at;
    while (scan->at < scan->format.size && strchr("!:{}", peek(scan)) == NULL) {
        scan->at++;
    }
    struct slice name = slice_of(scan->format.bytes + begin, scan->at - begin);
    const struct value *value = find_argument(scan, braces, name);
    if (value == NULL) {
        return false;
    }
    struct field field = {.precision = -1, .fill = slice_str(" ")};
    if (peek(scan) == '!') {
        scan->at++;
        bool repr = peek(scan) == 'r';
        if (!repr && peek(scan) != 's') {
            return value_raise(scan->room, "this conversion is not implemented");
        }
        scan->at++;
        if (peek(scan) != '}') {
            return value_raise(scan->room, "a format after a conversion is not implemented");
        }
        scan->at++;
        return add_as_text(scan->room, &field, value, repr, scan->out);
    }
    bool specified = peek(scan) == ':' && scan->at + 1 < scan->format.size &&
                     scan->format.bytes[scan->at + 1] != '}';
    bool aligned = false;
    scan->at += peek(scan) == ':';
    if (specified && !read_specification(scan, &field, &aligned)) {
        return false;
    }
    if (peek(scan) != '}') {
        return value_raise(scan->room, "a field of the format has no end, or is not implemented");
    }
    scan->at++;
    return specified ? add_specified(scan, value, &field, aligned)
                     : add_as_text(scan->room, &field, value, false, scan->out);
}

bool value_format_braces(struct value_room *room, struct slice format,
                         const struct call_arguments *arguments, struct value *out)
{
    struct text text = value_text_open(room);
    struct scan scan = {.room = room, .format = format, .out = &text};
    struct braces braces = {.arguments = arguments};
    while (copy_until(&scan, "{}")) {
        uint8_t brace = peek(&scan);
        scan.at++;
        if (peek(&scan) == brace) {
            text_add(&text, slice_of(&brace, 1));
            scan.at++;
            continue;
        }
        if (brace == '}') {
            return value_raise(room, "Single '}' encountered in format string");
        }
        if (!value_step(room, 1) || !format_braces_one(&scan, &braces)) {
            return false;
        }
    }
    struct slice written;
    if (!value_text_take(room, &text, &written)) {
        return false;
    }
    *out = value_string(written);
    return true;
}
