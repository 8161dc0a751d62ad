// SPDX-License-Identifier: Apache-2.0
//
// "..." % values and str.format().  Both come down to fields: a text, its width and its alignment.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// More than any prompt needs, and little enough for buffers here.
enum { width_max = 4096, precision_max = 100 };

struct format_field {
    uint8_t type;
    bool left;   // blanks after it
    bool middle; // blanks on both sides; str.format only
    bool zeros;
    bool alternate;
    uint8_t sign; // '+', ' ' or 0: before numbers that are not negative
    uint32_t width;
    int32_t precision; // below 0: none
    struct slice fill; // one character
};

// Sign or prefix, then zeros, then the rest.
static void add_padded(struct text *out, const struct format_field *field, struct slice head,
                       struct slice body)
{
    uint64_t length = value_string_length(head) + value_string_length(body);
    uint64_t missing = field->width > length ? field->width - length : 0;
    uint64_t before = field->left ? 0 : missing;
    before = field->middle ? missing / 2 : before;
    bool inside = field->zeros && !field->left && !field->middle;

    string_add_repeated(out, field->fill, inside ? 0 : before);
    text_add(out, head);
    string_add_repeated(out, slice_str("0"), inside ? before : 0);
    text_add(out, body);
    string_add_repeated(out, field->fill, missing - before);
}

static void add_text_field(struct text *out, const struct format_field *field, struct slice text)
{
    ASSERT(field->fill.size > 0);
    struct format_field plain = *field;
    plain.zeros = false;
    if (field->precision >= 0 && (size_t)field->precision < value_string_length(text)) {
        text = value_string_part(text, 0, (size_t)field->precision);
    }
    add_padded(out, &plain, slice_of(NULL, 0), text);
}

static void add_number_field(struct text *out, const struct format_field *field, bool negative,
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

static void add_integer(const struct format_field *field, int64_t number, struct text *out)
{
    char digits[precision_max + 64];
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    const char *prefix = "";
    int size = 0;
    // C writes nothing for a zero with a precision of 0; Python writes 0.
    int precision = field->precision < 1 ? 1 : field->precision;
    switch (field->type) {
    case 'x':
        prefix = "0x";
        size = snprintf(digits, sizeof(digits), "%.*" PRIx64, precision, magnitude);
        break;
    case 'X':
        prefix = "0X";
        size = snprintf(digits, sizeof(digits), "%.*" PRIX64, precision, magnitude);
        break;
    case 'o':
        prefix = "0o";
        size = snprintf(digits, sizeof(digits), "%.*" PRIo64, precision, magnitude);
        break;
    default:
        size = snprintf(digits, sizeof(digits), "%.*" PRIu64, precision, magnitude);
        break;
    }
    ASSERT(size > 0 && (size_t)size < sizeof(digits));
    add_number_field(out, field, number < 0, field->alternate ? prefix : "",
                     slice_of(digits, (size_t)size));
}

static void refuse_number(struct value_room *room, const struct format_field *field,
                          const struct value *value)
{
    bool large = value->kind == VALUE_BIG_INT || value->kind == VALUE_FLOAT;
    (void)value_raise(room,
                      large ? "%%%c format: a %s like this is not implemented"
                            : "%%%c format: a number is required, not %s",
                      field->type, value_type_name(value));
}

// %d and its like.
static void add_as_integer(struct value_room *room, const struct format_field *field,
                           const struct value *value, struct text *out)
{
    bool is_float = value->kind == VALUE_FLOAT;
    bool is_decimal = field->type == 'd';
    if (value_is_whole(value)) {
        add_integer(field, value_whole(value), out);
    } else if (is_decimal && is_float && fabs(value->number) < 0x1p63) {
        add_integer(field, (int64_t)value->number, out);
    } else if (is_decimal && field->precision < 0 &&
               (value->kind == VALUE_BIG_INT || (is_float && isfinite(value->number)))) {
        char digits[320];
        struct slice text = value->string;
        if (is_float) {
            text =
                slice_of(digits, (size_t)snprintf(digits, sizeof(digits), "%.0f", value->number));
        }
        bool negative = text.bytes[0] == '-';
        add_number_field(out, field, negative, "", string_after(text, negative));
    } else {
        refuse_number(room, field, value);
    }
}

static int print_float(char digits[512], uint8_t type, int precision, double number)
{
    switch (type) {
    case 'f':
        return snprintf(digits, 512, "%.*f", precision, number);
    case 'F':
        return snprintf(digits, 512, "%.*F", precision, number);
    case 'e':
        return snprintf(digits, 512, "%.*e", precision, number);
    case 'E':
        return snprintf(digits, 512, "%.*E", precision, number);
    case 'g':
        return snprintf(digits, 512, "%.*g", precision, number);
    default:
        return snprintf(digits, 512, "%.*G", precision, number);
    }
}

static void add_as_float(struct value_room *room, const struct format_field *field,
                         const struct value *value, struct text *out)
{
    if (!value_is_whole(value) && value->kind != VALUE_FLOAT) {
        refuse_number(room, field, value);
        return;
    }
    if (field->alternate) {
        (void)value_raise(room, "the format '#' of a float is not implemented");
    }
    double number = value->kind == VALUE_FLOAT ? value->number : (double)value_whole(value);
    char digits[512];
    int size =
        print_float(digits, field->type, field->precision < 0 ? 6 : field->precision, fabs(number));
    ASSERT(size > 0 && (size_t)size < sizeof(digits));
    // A nan has no sign in Python.
    add_number_field(out, field, signbit(number) && !isnan(number), "",
                     slice_of(digits, (size_t)size));
}

// str() or repr(), for a moment in the arena behind the text that is being written.
static void add_as_text(struct value_room *room, const struct format_field *field,
                        const struct value *value, bool repr, struct text *out)
{
    ASSERT(out->size <= out->capacity);
    if (!repr && value->kind == VALUE_STRING) {
        add_text_field(out, field, value->string);
        return;
    }
    struct text rest = text_over(out->bytes + out->size, out->capacity - out->size);
    if (repr) {
        value_print_repr(value, &rest);
    } else {
        value_print(value, &rest);
    }
    if (rest.overflow) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the formatted value cannot be printed");
        return;
    }
    struct slice printed = text_slice(&rest);
    if (field->precision < 0 && field->width <= value_string_length(printed)) {
        out->size += rest.size;
        return;
    }
    // Aside, at the far end, while the field is written.
    memmove(out->bytes + out->capacity - printed.size, printed.bytes, printed.size);
    out->capacity -= printed.size;
    add_text_field(out, field, slice_of(out->bytes + out->capacity, printed.size));
    out->capacity += printed.size;
}

static void add_as_character(struct value_room *room, const struct format_field *field,
                             const struct value *value, struct text *out)
{
    uint8_t bytes[4];
    int64_t code_point = value_is_whole(value) ? value_whole(value) : -1;
    struct slice character = {0};
    if (value->kind == VALUE_STRING && value_string_length(value->string) == 1) {
        character = value->string;
    } else if (code_point >= 0 && code_point < 0x110000 &&
               (code_point < 0xd800 || code_point > 0xdfff)) {
        character = slice_of(bytes, utf8_write((uint32_t)code_point, bytes));
    } else {
        (void)value_raise(room, "%%c requires int or char");
    }
    struct format_field plain = *field;
    plain.precision = -1;
    add_text_field(out, &plain, character);
}

static void add_format_field(struct value_room *room, const struct format_field *field,
                             const struct value *value, struct text *out)
{
    switch (field->type) {
    case 's':
    case 'r':
        add_as_text(room, field, value, field->type == 'r', out);
        return;
    case 'd':
    case 'x':
    case 'X':
    case 'o':
        add_as_integer(room, field, value, out);
        return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        add_as_float(room, field, value, out);
        return;
    case 'c':
        add_as_character(room, field, value, out);
        return;
    default:
        (void)value_raise(room, "the format '%c' is not implemented",
                          field->type >= ' ' && field->type < 0x7f ? field->type : '?');
        return;
    }
}

// Reads a format, from `at` on.
struct scan {
    struct value_room *room;
    struct slice format;
    size_t at;
    struct text *out;
};

static uint8_t scan_peek(const struct scan *scan)
{
    ASSERT_SLOW(scan->at <= scan->format.size);
    return scan->at < scan->format.size ? scan->format.bytes[scan->at] : '\0';
}

static bool scan_skip(struct scan *scan, uint8_t byte)
{
    bool found = scan->at < scan->format.size && scan_peek(scan) == byte;
    scan->at += found;
    return found;
}

static uint32_t scan_count(struct scan *scan, uint32_t limit)
{
    uint32_t count = 0;
    while (scan_peek(scan) >= '0' && scan_peek(scan) <= '9') {
        count = count * 10 + (scan_peek(scan) - '0');
        scan->at++;
        if (count > limit) {
            return value_fail(scan->room, STATUS_TOO_LARGE, "a width of a format is too large");
        }
    }
    return count;
}

// The bytes up to the next of the marks, or to the end.
static struct slice scan_until(struct scan *scan, const char *marks)
{
    size_t begin = scan->at;
    while (scan->at < scan->format.size &&
           (scan_peek(scan) == '\0' || strchr(marks, scan_peek(scan)) == NULL)) {
        scan->at++;
    }
    return slice_of(scan->format.bytes + begin, scan->at - begin);
}

// Copies the text before the next of the marks; false at the end, and after a failure.
static bool scan_copy(struct scan *scan, const char *marks)
{
    text_add(scan->out, scan_until(scan, marks));
    return scan->at < scan->format.size && value_step(scan->room, 1);
}

// Functions that find an argument return this one, with the failure noted, when it is missing.
static const struct value *refuse_argument(struct scan *scan, const char *why)
{
    static const struct value missing = {.kind = VALUE_NONE};
    (void)value_raise(scan->room, "%s", why);
    return &missing;
}

// The right side of %.
struct operand {
    const struct value *values;
    uint32_t count;
    uint32_t next;
    const struct value *mapping; // for %(name)s; or NULL
};

static const struct value *next_argument(struct scan *scan, struct operand *operand)
{
    ASSERT(operand->next <= operand->count);
    return operand->next < operand->count
               ? &operand->values[operand->next++]
               : refuse_argument(scan, "not enough arguments for format string");
}

// A number, or * for the next argument.
static int64_t scan_measure(struct scan *scan, struct operand *operand, uint32_t limit)
{
    if (!scan_skip(scan, '*')) {
        return scan_count(scan, limit);
    }
    const struct value *argument = next_argument(scan, operand);
    if (!value_is_whole(argument)) {
        return value_raise(scan->room, "* wants int");
    }
    int64_t measure = value_whole(argument);
    if (measure > limit || measure < -(int64_t)limit) {
        return value_fail(scan->room, STATUS_TOO_LARGE, "a width of a format is too large");
    }
    return measure;
}

static const struct value *scan_name(struct scan *scan, struct operand *operand)
{
    // Python lets parentheses nest in names; templates do not use that.
    struct slice name = scan_until(scan, "()");
    if (scan_peek(scan) == '(') {
        return refuse_argument(scan, "'(' in a name is not implemented");
    }
    if (!scan_skip(scan, ')')) {
        return refuse_argument(scan, "incomplete format key");
    }
    if (operand->mapping == NULL || operand->mapping->kind != VALUE_DICT) {
        return refuse_argument(scan, "format requires a mapping");
    }
    // From here on fields without a name have nothing left.
    operand->next = operand->count;
    const struct value *found = value_dict_get(operand->mapping->dict, name);
    return found != NULL ? found : refuse_argument(scan, "a key of the format is missing");
}

static void scan_flags(struct scan *scan, struct format_field *field)
{
    for (;; scan->at++) {
        switch (scan_peek(scan)) {
        case '-':
            field->left = true;
            break;
        case '+':
            field->sign = '+';
            break;
        case ' ':
            field->sign = field->sign == 0 ? ' ' : field->sign;
            break;
        case '#':
            field->alternate = true;
            break;
        case '0':
            field->zeros = true;
            break;
        default:
            return;
        }
    }
}

// From after the '%'.
static void format_percent_field(struct scan *scan, struct operand *operand)
{
    struct format_field field = {.precision = -1, .fill = slice_str(" ")};
    const struct value *value = scan_skip(scan, '(') ? scan_name(scan, operand) : NULL;
    scan_flags(scan, &field);
    int64_t width = scan_measure(scan, operand, width_max);
    field.left = field.left || width < 0;
    field.width = (uint32_t)(width < 0 ? -width : width);
    if (scan_skip(scan, '.')) {
        int64_t precision = scan_measure(scan, operand, precision_max);
        field.precision = (int32_t)(precision < 0 ? 0 : precision);
    }
    (void)(scan_skip(scan, 'h') || scan_skip(scan, 'l') || scan_skip(scan, 'L'));
    if (scan->at == scan->format.size) {
        (void)value_raise(scan->room, "incomplete format");
        return;
    }
    field.type = scan_peek(scan);
    scan->at++;
    if (field.type == '%') {
        text_add_str(scan->out, "%");
        return;
    }
    field.type = field.type == 'i' || field.type == 'u' ? 'd' : field.type;
    value = value != NULL ? value : next_argument(scan, operand);
    add_format_field(scan->room, &field, value, scan->out);
}

struct value value_format_percent(struct value_room *room, struct slice format,
                                  const struct value *operand)
{
    bool is_tuple = operand->kind == VALUE_TUPLE;
    // Python tests whether it can be indexed, and lists can; then arguments may be left over.
    bool is_mapping = operand->kind == VALUE_DICT || operand->kind == VALUE_LIST ||
                      operand->kind == VALUE_UNDEFINED;
    struct operand arguments = {
        .values = is_tuple ? operand->list->items : operand,
        .count = is_tuple ? operand->list->count : 1,
        .mapping = is_mapping ? operand : NULL,
    };
    struct text text = value_text_open(room);
    struct scan scan = {.room = room, .format = format, .out = &text};
    while (scan_copy(&scan, "%")) {
        scan.at++;
        format_percent_field(&scan, &arguments);
    }
    if (arguments.next < arguments.count && arguments.mapping == NULL) {
        (void)value_raise(room, "not all arguments converted during string formatting");
    }
    return value_text_end(room, &text);
}

// str.format(): {} and {0} and {name}, !r and !s, and the plain part of Python's format language.
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
            return refuse_argument(scan, "a number of a field is too large");
        }
    }
    if (braces->counted && braces->numbered) {
        return refuse_argument(scan, "cannot switch between automatic and manual field numbering");
    }
    if (index >= positional_count(braces->arguments)) {
        (void)value_raise(scan->room, "Replacement index %u out of range for positional args tuple",
                          (unsigned)index);
        return refuse_argument(scan, "");
    }
    return &braces->arguments->values[index];
}

static const struct value *find_braces_argument(struct scan *scan, struct braces *braces,
                                                struct slice name)
{
    bool digits = true;
    for (size_t i = 0; i < name.size; i++) {
        digits = digits && name.bytes[i] >= '0' && name.bytes[i] <= '9';
        if (name.bytes[i] == '.' || name.bytes[i] == '[') {
            return refuse_argument(scan,
                                   "attributes and indices in format fields are not implemented");
        }
    }
    if (digits) {
        return find_positional(scan, braces, name);
    }
    const struct value *found = call_named(braces->arguments, name);
    return found != NULL ? found : refuse_argument(scan, "a name of the format is missing");
}

static bool is_alignment(uint8_t byte)
{
    return byte == '<' || byte == '>' || byte == '^';
}

// [[fill]align][sign][0][width][.precision][type]; returns whether it is aligned.
static bool scan_specification(struct scan *scan, struct format_field *field)
{
    unsigned size = scan->at < scan->format.size ? utf8_size_of_lead(scan_peek(scan)) : 0;
    size_t behind = scan->at + size;
    bool filled = size > 0 && scan_peek(scan) != '{' && scan_peek(scan) != '}' &&
                  behind < scan->format.size && is_alignment(scan->format.bytes[behind]);
    if (filled) {
        field->fill = slice_of(scan->format.bytes + scan->at, size);
        scan->at = behind;
    }
    uint8_t align = scan_peek(scan);
    bool aligned = is_alignment(align);
    field->left = align == '<';
    field->middle = align == '^';
    scan->at += aligned;
    uint8_t sign = scan_peek(scan);
    if (sign == '+' || sign == '-' || sign == ' ') {
        field->sign = sign == '-' ? 0 : sign;
        scan->at++;
    }
    // Before a width only, and for numbers only; with an alignment it is the fill.
    field->zeros = scan_skip(scan, '0');
    field->width = scan_count(scan, width_max);
    if (scan_skip(scan, '.')) {
        field->precision = (int32_t)scan_count(scan, precision_max);
    }
    if (scan_peek(scan) != '}' && scan->at < scan->format.size) {
        field->type = scan_peek(scan);
        scan->at++;
    }
    return aligned;
}

static void add_specified(struct scan *scan, const struct value *value, struct format_field *field,
                          bool aligned)
{
    bool string = value->kind == VALUE_STRING;
    bool whole_number = value_is_whole(value) || value->kind == VALUE_BIG_INT;
    bool known =
        (string && (field->type == 0 || field->type == 's') && field->sign == 0 && !field->zeros) ||
        (whole_number && (field->type == 0 || field->type == 'd') && field->precision < 0) ||
        ((value_is_whole(value) || value->kind == VALUE_FLOAT) && field->type == 'f');
    if (!known || (field->zeros && aligned)) {
        (void)value_raise(scan->room, "this format of a value of type %s is not implemented",
                          value_type_name(value));
        return;
    }
    // Strings are aligned left, numbers right.
    field->left = aligned ? field->left : string;
    field->type = field->type != 0 ? field->type : (string ? 's' : 'd');
    add_format_field(scan->room, field, value, scan->out);
}

// From after the '{'.
static void format_braces_field(struct scan *scan, struct braces *braces)
{
    struct format_field field = {.precision = -1, .fill = slice_str(" ")};
    struct slice name = scan_until(scan, "!:{}");
    const struct value *value = find_braces_argument(scan, braces, name);
    if (scan_skip(scan, '!')) {
        bool repr = scan_skip(scan, 'r');
        if (!repr && !scan_skip(scan, 's')) {
            (void)value_raise(scan->room, "this conversion is not implemented");
        } else if (!scan_skip(scan, '}')) {
            (void)value_raise(scan->room, "a format after a conversion is not implemented");
        }
        add_as_text(scan->room, &field, value, repr, scan->out);
        return;
    }
    bool specified = scan_skip(scan, ':') && scan->at < scan->format.size && scan_peek(scan) != '}';
    bool aligned = specified && scan_specification(scan, &field);
    if (!scan_skip(scan, '}')) {
        (void)value_raise(scan->room, "a field of the format has no end, or is not implemented");
    } else if (specified) {
        add_specified(scan, value, &field, aligned);
    } else {
        add_as_text(scan->room, &field, value, false, scan->out);
    }
}

struct value value_format_braces(struct value_room *room, struct slice format,
                                 const struct call_arguments *arguments)
{
    struct text text = value_text_open(room);
    struct scan scan = {.room = room, .format = format, .out = &text};
    struct braces braces = {.arguments = arguments};
    while (scan_copy(&scan, "{}")) {
        uint8_t brace = scan_peek(&scan);
        scan.at++;
        if (scan_skip(&scan, brace)) {
            text_add(&text, slice_of(&brace, 1));
        } else if (brace == '}') {
            (void)value_raise(room, "Single '}' encountered in format string");
        } else {
            format_braces_field(&scan, &braces);
        }
    }
    return value_text_end(room, &text);
}
