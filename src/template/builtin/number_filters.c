// SPDX-License-Identifier: Apache-2.0
//
// Filters that give numbers: int and float read strings as Python's constructors do.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Python reads digits of all scripts; we read our own, and refuse what has others.
static bool refuse_foreign_digits(struct value_room *room, struct slice text)
{
    unsigned size = 0;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t code_point = utf8_read(text.bytes + at, &size);
        if (code_point >= 0x80 && value_text_is_digit(code_point)) {
            return value_raise(room, "numbers in digits other than 0 to 9 are not implemented");
        }
    }
    return true;
}

// Where all is ASCII Python strips C's white space only, which is less than its own.
static struct slice strip_number(struct slice text)
{
    struct slice chars = slice_str("\t\n\v\f\r ");
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] >= 0x80) {
            chars = slice_of(NULL, 0);
        }
    }
    return string_strip(text, chars, STRIP_LEFT | STRIP_RIGHT);
}

// Longer numbers are refused: every double has fewer digits.
enum { number_size_max = 400 };

static bool is_number_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

// Digits without the underscores that may stand between two of them; false when they stand elsewhere.
static bool copy_number(struct slice text, char *out, size_t *size)
{
    *size = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.bytes[i];
        if (byte == '_') {
            if (i == 0 || i + 1 == text.size || !is_number_digit(text.bytes[i - 1]) ||
                !is_number_digit(text.bytes[i + 1])) {
                return false;
            }
            continue;
        }
        if (byte == 0 || byte >= 0x80) {
            return false;
        }
        out[(*size)++] = (char)byte;
    }
    out[*size] = '\0';
    return true;
}

// float(text): *found says whether it is one.
static bool number_read_float(struct value_room *room, struct slice text, bool *found, double *out)
{
    text = strip_number(text);
    *found = false;
    if (!refuse_foreign_digits(room, text)) {
        return false;
    }
    if (text.size > number_size_max) {
        return value_fail(room, STATUS_TOO_LARGE, "a number is too long");
    }
    char copy[number_size_max + 1];
    size_t size = 0;
    if (text.size == 0 || !copy_number(text, copy, &size)) {
        return true;
    }
    // C knows hexadecimal floats and nan(...), which Python does not.
    for (size_t i = 0; i < size; i++) {
        if (copy[i] == 'x' || copy[i] == 'X' || copy[i] == '(' || copy[i] == ' ') {
            return true;
        }
    }
    char *end = NULL;
    double number = strtod(copy, &end);
    *found = end == copy + size && (copy[0] > ' ');
    *out = number;
    return true;
}

static bool whole_of_float(struct value_room *room, double number, struct value *out)
{
    ASSERT(isfinite(number));
    if (fabs(number) < 0x1p63) {
        *out = value_int((int64_t)number);
        return true;
    }
    char digits[320];
    int size = snprintf(digits, sizeof(digits), "%.0f", number);
    uint8_t *bytes = value_bytes_new(room, (size_t)size);
    if (bytes == NULL) {
        return false;
    }
    memcpy(bytes, digits, (size_t)size);
    // -2^63 is the one that fits after all.
    if (number == -0x1p63) {
        *out = value_int(INT64_MIN);
    } else {
        *out = (struct value){.kind = VALUE_BIG_INT, .string = slice_of(bytes, (size_t)size)};
    }
    return true;
}

struct integer_text {
    bool negative;
    unsigned base;
    struct slice digits; // without sign, prefix and underscores
};

// "0x1f" and the like, where the base allows it.
static void take_prefix(struct integer_text *text)
{
    static const struct {
        uint8_t letter;
        unsigned base;
    } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    struct slice digits = text->digits;
    for (size_t i = 0; i < ARRAY_COUNT(prefixes) && digits.size > 2; i++) {
        bool has = digits.bytes[0] == '0' && ascii_lower(digits.bytes[1]) == prefixes[i].letter;
        if (has && (text->base == 0 || text->base == prefixes[i].base)) {
            text->base = prefixes[i].base;
            text->digits = slice_of(digits.bytes + 2, digits.size - 2);
            return;
        }
    }
}

static int digit_value(uint8_t byte)
{
    uint8_t lower = ascii_lower(byte);
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Underscores stand between digits, or after a prefix.
static bool digits_are_valid(struct slice digits, unsigned base, bool prefixed)
{
    bool digit = prefixed;
    for (size_t i = 0; i < digits.size; i++) {
        bool underscore = digits.bytes[i] == '_';
        if (underscore ? !digit : digit_value(digits.bytes[i]) >= (int)base) {
            return false;
        }
        digit = !underscore;
    }
    return digits.size > 0 && digit;
}

static bool sum_digits(struct value_room *room, const struct integer_text *text, struct value *out)
{
    ASSERT(text->base >= 2 && text->base <= 36 && text->digits.size > 0);
    uint64_t number = 0;
    bool fits = true;
    for (size_t i = 0; i < text->digits.size && fits; i++) {
        if (text->digits.bytes[i] != '_') {
            unsigned digit = (unsigned)digit_value(text->digits.bytes[i]);
            fits = !__builtin_mul_overflow(number, text->base, &number) &&
                   !__builtin_add_overflow(number, digit, &number);
        }
    }
    if (fits && number <= (uint64_t)INT64_MAX + text->negative) {
        *out = value_int((int64_t)(text->negative ? 0 - number : number));
        return true;
    }
    if (text->base != 10) {
        return value_fail(room, STATUS_TOO_LARGE, "an integer is too large");
    }
    uint8_t *bytes = value_bytes_new(room, text->digits.size + 1);
    if (bytes == NULL) {
        return false;
    }
    size_t size = 0;
    for (size_t i = 0; i < text->digits.size; i++) {
        uint8_t byte = text->digits.bytes[i];
        if (size == 0 && (byte == '0' || byte == '_')) {
            continue;
        }
        if (size == 0 && text->negative) {
            bytes[size++] = '-';
        }
        if (byte != '_') {
            bytes[size++] = byte;
        }
    }
    *out = (struct value){.kind = VALUE_BIG_INT, .string = slice_of(bytes, size)};
    return true;
}

// int(text, base): *found says whether it is one.
static bool number_read_integer(struct value_room *room, struct slice text, int64_t base,
                                bool *found, struct value *out)
{
    *found = false;
    text = strip_number(text);
    if (!refuse_foreign_digits(room, text)) {
        return false;
    }
    if (base != 0 && (base < 2 || base > 36)) {
        return true; // a ValueError, which the filter takes as: no integer
    }
    if (text.size > number_size_max) {
        return value_fail(room, STATUS_TOO_LARGE, "a number is too long");
    }
    struct integer_text parsed = {.base = (unsigned)base, .digits = text};
    if (text.size > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+')) {
        parsed.negative = text.bytes[0] == '-';
        parsed.digits = slice_of(text.bytes + 1, text.size - 1);
    }
    size_t before = parsed.digits.size;
    take_prefix(&parsed);
    bool prefixed = parsed.digits.size < before;
    if (parsed.base == 0) {
        // Without a prefix it is decimal, and no zeros are before it, but for zero itself.
        parsed.base = 10;
        for (size_t i = 1; i < parsed.digits.size && parsed.digits.bytes[0] == '0'; i++) {
            if (parsed.digits.bytes[i] != '0' && parsed.digits.bytes[i] != '_') {
                return true;
            }
        }
    }
    if (!digits_are_valid(parsed.digits, parsed.base, prefixed)) {
        return true;
    }
    *found = true;
    return sum_digits(room, &parsed, out);
}

static struct value given_or(const struct builtin_call *call, struct value otherwise)
{
    return call->given[0] != NULL ? *call->given[0] : otherwise;
}

static bool int_of_string(const struct builtin_call *call, struct slice text)
{
    bool found = false;
    double number = 0;
    int64_t base = 10;
    if (!call_integer(call, 1, 10, &base) ||
        !number_read_integer(call->room, text, base, &found, call->out)) {
        return false;
    }
    if (found) {
        return true;
    }
    // "42.23" is 42.
    if (!number_read_float(call->room, text, &found, &number)) {
        return false;
    }
    return found && isfinite(number) ? whole_of_float(call->room, number, call->out)
                                     : call_gives(call, given_or(call, value_int(0)));
}

bool filter_int(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    switch (subject->kind) {
    case VALUE_STRING:
        return int_of_string(call, subject->string);
    case VALUE_BOOL:
    case VALUE_INT:
        return call_gives(call, value_int(value_whole(subject)));
    case VALUE_BIG_INT:
        return call_gives(call, *subject);
    case VALUE_FLOAT:
        if (isinf(subject->number)) {
            return value_raise(call->room, "cannot convert float infinity to integer");
        }
        if (!isnan(subject->number)) {
            return whole_of_float(call->room, subject->number, call->out);
        }
        break;
    case VALUE_UNDEFINED:
        return value_raise_undefined(call->room, subject);
    default:
        break;
    }
    return call_gives(call, given_or(call, value_int(0)));
}

static bool float_of_big(const struct builtin_call *call, struct slice digits)
{
    char copy[number_size_max + 1];
    double number = INFINITY;
    if (digits.size <= number_size_max) {
        memcpy(copy, digits.bytes, digits.size);
        copy[digits.size] = '\0';
        number = strtod(copy, NULL);
    }
    return isinf(number) ? value_raise(call->room, "int too large to convert to float")
                         : call_gives(call, value_float(number));
}

bool filter_float(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    bool found = false;
    double number = 0;
    switch (subject->kind) {
    case VALUE_STRING:
        if (!number_read_float(call->room, subject->string, &found, &number)) {
            return false;
        }
        break;
    case VALUE_BOOL:
    case VALUE_INT:
        return call_gives(call, value_float((double)value_whole(subject)));
    case VALUE_FLOAT:
        return call_gives(call, *subject);
    case VALUE_BIG_INT:
        return float_of_big(call, subject->string);
    case VALUE_UNDEFINED:
        return value_raise_undefined(call->room, subject);
    default:
        break;
    }
    return call_gives(call, found ? value_float(number) : given_or(call, value_float(0)));
}

bool filter_abs(const struct builtin_call *call)
{
    struct value number = *call->subject;
    switch (number.kind) {
    case VALUE_BOOL:
    case VALUE_INT:
        number = value_int(value_whole(&number));
        if (number.integer == INT64_MIN) {
            return value_fail(call->room, STATUS_TOO_LARGE, "an integer is too large");
        }
        number.integer = number.integer < 0 ? -number.integer : number.integer;
        return call_gives(call, number);
    case VALUE_BIG_INT:
        number.string = string_after(number.string, number.string.bytes[0] == '-');
        return call_gives(call, number);
    case VALUE_FLOAT:
        return call_gives(call, value_float(fabs(number.number)));
    default:
        return value_raise(call->room, "bad operand type for abs(): '%s'",
                           value_type_name(call->subject));
    }
}

// Python rounds the decimal that a float is, exactly; so does printf.
static double round_float(double number, int precision)
{
    char digits[400];
    if (!isfinite(number)) {
        return number;
    }
    (void)snprintf(digits, sizeof(digits), "%.*f", precision, number);
    return strtod(digits, NULL);
}

// The methods ceil and floor.
static bool round_to_side(const struct builtin_call *call, int64_t precision, bool up)
{
    const struct value *number = call->subject;
    if (number->kind != VALUE_FLOAT) {
        return call_gives(call, value_float((double)value_whole(number)));
    }
    // Powers of ten up to this one are exact.
    double scale = pow(10, (double)precision);
    double scaled = number->number * scale;
    if (!isfinite(scaled)) {
        return value_raise(call->room, "cannot convert float infinity to integer");
    }
    // A whole number has no negative zero.
    double side = up ? ceil(scaled) : floor(scaled);
    return call_gives(call, value_float((side == 0 ? 0 : side) / scale));
}

bool filter_round(const struct builtin_call *call)
{
    const struct value *subject = call->subject;
    struct slice method = slice_str("common");
    int64_t precision = 0;
    if (!call_integer(call, 0, 0, &precision) || !call_string(call, 1, &method)) {
        return false;
    }
    bool is_common = slice_is(method, "common");
    if (!is_common && !slice_is(method, "ceil") && !slice_is(method, "floor")) {
        return value_raise(call->room, "method must be common, ceil or floor");
    }
    if (subject->kind == VALUE_BIG_INT) {
        return value_fail(call->room, STATUS_TOO_LARGE, "an integer is too large");
    }
    if (!value_is_whole(subject) && subject->kind != VALUE_FLOAT) {
        return value_raise(call->room, "type %s doesn't define __round__ method",
                           value_type_name(subject));
    }
    if (precision < 0 || precision > 22) {
        return value_raise(call->room, "round to %d digits is not implemented",
                           (int)(precision < 0 ? -1 : 23));
    }
    if (!is_common) {
        return round_to_side(call, precision, slice_is(method, "ceil"));
    }
    return call_gives(call, value_is_whole(subject)
                                ? value_int(value_whole(subject))
                                : value_float(round_float(subject->number, (int)precision)));
}

// Python's sum of floats got more exact with 3.12; where that makes a difference it is refused.
struct total {
    bool is_float;
    int64_t whole;
    double number;
    double lost; // what rounding took away, by Neumaier's method
};

static void total_add_float(struct total *total, double number)
{
    double sum = total->number + number;
    double larger = fabs(total->number) >= fabs(number) ? total->number : number;
    double smaller = fabs(total->number) >= fabs(number) ? number : total->number;
    total->lost += (larger - sum) + smaller;
    total->number = sum;
}

static bool total_add(struct total *total, struct value_room *room, const struct value *item)
{
    if (item->kind == VALUE_BIG_INT) {
        return value_fail(room, STATUS_TOO_LARGE, "an integer is too large");
    }
    if (item->kind != VALUE_FLOAT && !value_is_whole(item)) {
        return value_raise(room, "unsupported operand type(s) for +: 'int' and '%s'",
                           value_type_name(item));
    }
    if (item->kind == VALUE_FLOAT && !total->is_float) {
        total->is_float = true;
        total->number = (double)total->whole;
    }
    if (total->is_float) {
        total_add_float(total,
                        item->kind == VALUE_FLOAT ? item->number : (double)value_whole(item));
        return true;
    }
    return !__builtin_add_overflow(total->whole, value_whole(item), &total->whole) ||
           value_fail(room, STATUS_TOO_LARGE, "an integer is too large");
}

bool filter_sum(const struct builtin_call *call)
{
    const struct value_list *list = NULL;
    struct total total = {0};
    if (!value_iterate(call->room, call->subject, &list) ||
        (call->given[1] != NULL && !total_add(&total, call->room, call->given[1]))) {
        return false;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        struct value item;
        if (!builtin_attribute(call->room, &list->items[i], call->given[0], NULL, &item) ||
            !total_add(&total, call->room, &item)) {
            return false;
        }
    }
    if (total.is_float && isfinite(total.number) && total.number + total.lost != total.number) {
        return value_raise(call->room, "this sum of floats depends on the version of Python");
    }
    return call_gives(call, total.is_float ? value_float(total.number) : value_int(total.whole));
}
