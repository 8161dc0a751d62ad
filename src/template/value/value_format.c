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

struct format_field {
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
static void add_padded(struct text *out, const struct format_field *field, struct slice head,
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

// At least `precision` digits of a base, in `digits`.
static struct slice write_digits(uint64_t number, unsigned base, int precision,
                                 char digits[precision_max + 64])
{
    size_t at = precision_max + 64;
    size_t end = at;
    while (number > 0 || end - at < (size_t)precision) {
        ASSERT(at > 0);
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    }
    return slice_of(digits + at, end - at);
}

// Types in capitals write letters so.
static void raise_letters(char *letters, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bool is_small = letters[i] >= 'a' && letters[i] <= 'z';
        letters[i] = (char)(letters[i] - (is_small ? 'a' - 'A' : 0));
    }
}

static bool add_integer(struct value_room *room, const struct format_field *field, int64_t number,
                        struct text *out)
{
    char digits[precision_max + 64];
    uint8_t type = field->type;
    uint64_t magnitude = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : 10;
    const char *prefix = type == 'x' ? "0x" : type == 'X' ? "0X" : type == 'o' ? "0o" : "";
    // Where C writes nothing for a zero without digits, Python writes 0.
    int precision = field->precision < 1 ? 1 : field->precision;
    struct slice written = write_digits(magnitude, base, precision, digits);
    if (type == 'X') {
        raise_letters(digits + sizeof(digits) - written.size, written.size);
    }
    add_number_field(out, field, number < 0, field->alternate ? prefix : "", written);
    return value_step(room, 1);
}

static bool add_float_field(struct value_room *room, const struct format_field *field,
                            double number, struct text *out)
{
    char digits[512];
    int precision = field->precision < 0 ? 6 : field->precision;
    int size = 0;
    if (field->alternate) {
        return value_raise(room, "the format '#' of a float is not implemented");
    }
    switch (ascii_lower(field->type)) {
    case 'f':
        size = snprintf(digits, sizeof(digits), "%.*f", precision, fabs(number));
        break;
    case 'e':
        size = snprintf(digits, sizeof(digits), "%.*e", precision, fabs(number));
        break;
    default:
        size = snprintf(digits, sizeof(digits), "%.*g", precision, fabs(number));
        break;
    }
    ASSERT(size > 0 && (size_t)size < sizeof(digits));
    if (ascii_lower(field->type) != field->type) {
        raise_letters(digits, (size_t)size);
    }
    // A nan has no sign in Python.
    add_number_field(out, field, signbit(number) && !isnan(number), "",
                     slice_of(digits, (size_t)size));
    return value_step(room, 1);
}

static bool refuse_number(struct value_room *room, const struct format_field *field,
                          const struct value *value)
{
    bool large = value->kind == VALUE_BIG_INT || value->kind == VALUE_FLOAT;
    return value_raise(room,
                       large ? "%%%c format: a %s like this is not implemented"
                             : "%%%c format: a number is required, not %s",
                       field->type, value_type_name(value));
}

// %d and its like.
static bool add_as_integer(struct value_room *room, const struct format_field *field,
                           const struct value *value, struct text *out)
{
    if (value_is_whole(value)) {
        return add_integer(room, field, value_whole(value), out);
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

static bool add_as_float(struct value_room *room, const struct format_field *field,
                         const struct value *value, struct text *out)
{
    if (value_is_whole(value)) {
        return add_float_field(room, field, (double)value_whole(value), out);
    }
    return value->kind == VALUE_FLOAT ? add_float_field(room, field, value->number, out)
                                      : refuse_number(room, field, value);
}

// str() or repr(), in the arena behind what is being written, for a moment.
static bool add_as_text(struct value_room *room, const struct format_field *field,
                        const struct value *value, bool repr, struct text *out)
{
    ASSERT(out->size <= out->capacity);
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
    struct slice printed = text_slice(&rest);
    if (field->precision < 0 && field->width <= value_string_length(printed)) {
        out->size += rest.size;
        return true;
    }
    // Aside, at the far end, while the field is written.
    memmove(out->bytes + out->capacity - printed.size, printed.bytes, printed.size);
    out->capacity -= printed.size;
    add_text_field(out, field, slice_of(out->bytes + out->capacity, printed.size));
    out->capacity += printed.size;
    return true;
}

static bool add_as_character(struct value_room *room, const struct format_field *field,
                             const struct value *value, struct text *out)
{
    uint8_t bytes[4];
    struct slice character = {0};
    if (value->kind == VALUE_STRING && value_string_length(value->string) == 1) {
        character = value->string;
    } else if (value_is_whole(value) && value_whole(value) >= 0 && value_whole(value) < 0x110000 &&
               (value_whole(value) < 0xd800 || value_whole(value) > 0xdfff)) {
        character = slice_of(bytes, utf8_write((uint32_t)value_whole(value), bytes));
    } else {
        return value_raise(room, "%%c requires int or char");
    }
    struct format_field plain = *field;
    plain.precision = -1;
    add_text_field(out, &plain, character);
    return true;
}

static bool add_format_field(struct value_room *room, const struct format_field *field,
                             const struct value *value, struct text *out)
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

static uint8_t scan_peek(const struct scan *scan)
{
    ASSERT_SLOW(scan->at <= scan->format.size);
    return scan->at < scan->format.size ? scan->format.bytes[scan->at] : '\0';
}

static bool scan_count(struct scan *scan, uint32_t limit, uint32_t *out)
{
    uint32_t count = 0;
    while (scan_peek(scan) >= '0' && scan_peek(scan) <= '9') {
        count = count * 10 + (scan_peek(scan) - '0');
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
           (scan_peek(scan) == '\0' || strchr(marks, scan_peek(scan)) == NULL)) {
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
    const struct value *mapping; // for %(name)s; or NULL
};

// Functions that find an argument return NULL, with the failure noted, when it is missing.
static const struct value *next_argument(struct scan *scan, struct operand *operand)
{
    ASSERT(operand->next <= operand->count);
    if (operand->next == operand->count) {
        (void)value_raise(scan->room, "not enough arguments for format string");
        return NULL;
    }
    return &operand->values[operand->next++];
}

// A number, or * for the next argument.
static bool read_measure(struct scan *scan, struct operand *operand, uint32_t limit, int64_t *out)
{
    if (scan_peek(scan) == '*') {
        scan->at++;
        const struct value *argument = next_argument(scan, operand);
        if (argument == NULL) {
            return false;
        }
        if (!value_is_whole(argument)) {
            return value_raise(scan->room, "* wants int");
        }
        *out = value_whole(argument);
        if (*out > limit || *out < -(int64_t)limit) {
            return value_fail(scan->room, STATUS_TOO_LARGE, "a width of a format is too large");
        }
        return true;
    }
    uint32_t count = 0;
    if (!scan_count(scan, limit, &count)) {
        return false;
    }
    *out = count;
    return true;
}

static const struct value *scan_name(struct scan *scan, struct operand *operand)
{
    ASSERT(scan_peek(scan) == '(');
    size_t begin = ++scan->at;
    // Python lets parentheses nest in names; templates do not use that.
    while (scan->at < scan->format.size && scan_peek(scan) != ')') {
        if (scan_peek(scan) == '(') {
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

static bool scan_flags(struct scan *scan, struct operand *operand, struct format_field *field)
{
    for (;; scan->at++) {
        switch (scan_peek(scan)) {
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
    if (scan_peek(scan) == '.') {
        scan->at++;
        if (!read_measure(scan, operand, precision_max, &measure)) {
            return false;
        }
        field->precision = (int32_t)(measure < 0 ? 0 : measure);
    }
    if (scan_peek(scan) == 'h' || scan_peek(scan) == 'l' || scan_peek(scan) == 'L') {
        scan->at++;
    }
    return true;
}

static bool format_one(struct scan *scan, struct operand *operand)
{
    ASSERT(scan_peek(scan) == '%');
    const struct value *value = NULL;
    struct format_field field = {.precision = -1, .fill = slice_str(" ")};
    scan->at++;
    bool named = scan_peek(scan) == '(';
    if (named && (value = scan_name(scan, operand)) == NULL) {
        return false;
    }
    if (!scan_flags(scan, operand, &field)) {
        return false;
    }
    if (scan->at == scan->format.size) {
        return value_raise(scan->room, "incomplete format");
    }
    field.type = scan_peek(scan);
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
    return add_format_field(scan->room, &field, value, scan->out);
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
    return value_text_end(room, &text, out);
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
    ASSERT(braces->arguments->named_count <= braces->arguments->count);
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

static const struct value *find_braces_argument(struct scan *scan, struct braces *braces,
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
static bool read_specification(struct scan *scan, struct format_field *field, bool *aligned)
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
    *aligned = is_alignment(align);
    if (*aligned) {
        field->left = align == '<';
        field->middle = align == '^';
        scan->at++;
    }
    if (scan_peek(scan) == '+' || scan_peek(scan) == '-' || scan_peek(scan) == ' ') {
        field->sign = scan_peek(scan) == '-' ? 0 : scan_peek(scan);
        scan->at++;
    }
    if (scan_peek(scan) == '0') {
        // Before a width only, and for numbers only; with an alignment it is the fill.
        field->zeros = true;
        scan->at++;
    }
    uint32_t precision = 0;
    if (!scan_count(scan, width_max, &field->width)) {
        return false;
    }
    if (scan_peek(scan) == '.') {
        scan->at++;
        if (!scan_count(scan, precision_max, &precision)) {
            return false;
        }
        field->precision = (int32_t)precision;
    }
    if (scan_peek(scan) != '}' && scan->at < scan->format.size) {
        field->type = scan_peek(scan);
        scan->at++;
    }
    return true;
}

static bool add_specified(struct scan *scan, const struct value *value, struct format_field *field,
                          bool aligned)
{
    bool string = value->kind == VALUE_STRING;
    bool whole_number = value_is_whole(value) || value->kind == VALUE_BIG_INT;
    bool known =
        (string && (field->type == 0 || field->type == 's') && field->sign == 0 && !field->zeros) ||
        (whole_number && (field->type == 0 || field->type == 'd') && field->precision < 0) ||
        ((value_is_whole(value) || value->kind == VALUE_FLOAT) && field->type == 'f');
    if (!known || (field->zeros && aligned)) {
        return value_raise(scan->room, "this format of a value of type %s is not implemented",
                           value_type_name(value));
    }
    // Strings lean to the left, numbers to the right.
    field->left = aligned ? field->left : string;
    field->type = field->type != 0 ? field->type : (string ? 's' : 'd');
    return add_format_field(scan->room, field, value, scan->out);
}

static bool format_braces_one(struct scan *scan, struct braces *braces)
{
    size_t begin = scan->at;
    while (scan->at < scan->format.size && strchr("!:{}", scan_peek(scan)) == NULL) {
        scan->at++;
    }
    struct slice name = slice_of(scan->format.bytes + begin, scan->at - begin);
    const struct value *value = find_braces_argument(scan, braces, name);
    if (value == NULL) {
        return false;
    }
    struct format_field field = {.precision = -1, .fill = slice_str(" ")};
    if (scan_peek(scan) == '!') {
        scan->at++;
        bool repr = scan_peek(scan) == 'r';
        if (!repr && scan_peek(scan) != 's') {
            return value_raise(scan->room, "this conversion is not implemented");
        }
        scan->at++;
        if (scan_peek(scan) != '}') {
            return value_raise(scan->room, "a format after a conversion is not implemented");
        }
        scan->at++;
        return add_as_text(scan->room, &field, value, repr, scan->out);
    }
    bool specified = scan_peek(scan) == ':' && scan->at + 1 < scan->format.size &&
                     scan->format.bytes[scan->at + 1] != '}';
    bool aligned = false;
    scan->at += scan_peek(scan) == ':';
    if (specified && !read_specification(scan, &field, &aligned)) {
        return false;
    }
    if (scan_peek(scan) != '}') {
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
        uint8_t brace = scan_peek(&scan);
        scan.at++;
        if (scan_peek(&scan) == brace) {
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
    return value_text_end(room, &text, out);
}
