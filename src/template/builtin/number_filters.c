// SPDX-License-Identifier: Apache-2.0
//
// Filters that return numbers: int and float read strings as Python's constructors do.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/literal.h"
#include "template/value/value_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Longer numbers are refused: every double has fewer digits.
enum { number_size_max = 400 };

// The text of a number without white space: where all is ASCII, Python strips C's white space only.
// Python reads the digits of all scripts; we refuse those beyond 0 to 9.
static struct slice number_text(struct value_room *room, struct slice text)
{
    struct slice chars = slice_str("\t\n\v\f\r ");
    unsigned size = 0;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t code_point = utf8_read(text.bytes + at, &size);
        if (code_point >= 0x80) {
            chars = slice_of(NULL, 0);
        }
        if (code_point >= 0x80 && value_text_is_digit(code_point)) {
            (void)value_raise(room, "numbers in digits other than 0 to 9 are not implemented");
        }
    }
    text = string_strip(text, chars, STRIP_BOTH);
    if (text.size > number_size_max) {
        (void)value_fail(room, STATUS_TOO_LARGE, "a number is too long");
        return slice_str("");
    }
    return text;
}

static bool is_number_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

// float(text); false: the text is not a float.
static bool number_read_float(struct slice text, double *out)
{
    ASSERT(text.size <= number_size_max);
    char copy[number_size_max + 1];
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.bytes[i];
        bool is_joint = byte == '_' && i > 0 && i + 1 < text.size &&
                        is_number_digit(text.bytes[i - 1]) && is_number_digit(text.bytes[i + 1]);
        // C knows hexadecimal floats and nan(...), which Python does not.
        if (!is_joint && (byte <= ' ' || byte >= 0x80 || strchr("xX(_", byte) != NULL)) {
            return false;
        }
        copy[size] = (char)byte;
        size += !is_joint;
    }
    copy[size] = '\0';
    char *end = NULL;
    *out = strtod(copy, &end);
    return size > 0 && end == copy + size;
}

// A number whose digits lie on the stack.
static bool call_gives_integer(const struct builtin_call *call, struct value number)
{
    if (number.kind == VALUE_BIG_INT) {
        uint8_t *bytes = value_bytes_new(call->room, number.string.size);
        if (bytes != NULL) {
            memcpy(bytes, number.string.bytes, number.string.size);
        }
        number.string.bytes = bytes;
    }
    return call_gives(call, number);
}

static bool call_gives_truncated(const struct builtin_call *call, double number)
{
    ASSERT(isfinite(number));
    char digits[320];
    int size = snprintf(digits, sizeof(digits), "%.0f", trunc(number));
    return call_gives_integer(call, value_read_integer(slice_of(digits, (size_t)size)));
}

// With base 0, Python refuses leading zeros of a decimal number, except for zero itself.
static bool has_leading_zero(struct slice text)
{
    struct slice digits = string_strip(text, slice_str("+-"), STRIP_LEFT);
    return digits.size > 1 && digits.bytes[0] == '0' &&
           string_strip(digits, slice_str("0_"), STRIP_LEFT).size > 0 &&
           (is_number_digit(digits.bytes[1]) || digits.bytes[1] == '_');
}

static struct value given_or(const struct builtin_call *call, struct value otherwise)
{
    return call->given[0] != NULL ? *call->given[0] : otherwise;
}

static bool int_of_string(const struct builtin_call *call, struct slice string)
{
    int64_t base = call_integer(call, 1, 10);
    struct slice text = number_text(call->room, string);
    uint8_t digits[number_size_max];
    double number = 0;
    struct value read = value_none();
    // Other bases raise a ValueError, which the filter takes as: not an integer.
    bool is_base = base == 0 || (base >= 2 && base <= 36);
    enum status status = is_base && !(base == 0 && has_leading_zero(text))
                             ? literal_integer(text, (unsigned)base, digits, &read)
                             : STATUS_MALFORMED;
    if (status == STATUS_TOO_LARGE) {
        return value_fail(call->room, status, "an integer is too large");
    }
    if (status == STATUS_OK) {
        return call_gives_integer(call, read);
    }
    // "42.23" is 42.
    return number_read_float(text, &number) && isfinite(number)
               ? call_gives_truncated(call, number)
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
            return call_gives_truncated(call, subject->number);
        }
        break;
    case VALUE_UNDEFINED:
        return value_refuse(call->room, subject, "undefined");
    default:
        break;
    }
    return call_gives(call, given_or(call, value_int(0)));
}

static bool float_of_big(const struct builtin_call *call, struct slice digits)
{
    double number =
        digits.size <= number_size_max ? value_read_float(call->room, digits) : INFINITY;
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
        found = number_read_float(number_text(call->room, subject->string), &number);
        break;
    case VALUE_BOOL:
    case VALUE_INT:
        return call_gives(call, value_float((double)value_whole(subject)));
    case VALUE_FLOAT:
        return call_gives(call, *subject);
    case VALUE_BIG_INT:
        return float_of_big(call, subject->string);
    case VALUE_UNDEFINED:
        return value_refuse(call->room, subject, "undefined");
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
    int64_t precision = call_integer(call, 0, 0);
    struct slice method = call_string(call, 1, "common");
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
    double lost; // the sum of rounding errors, by Neumaier's method
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
    const struct value_list *list = value_iterate(call->room, call->subject);
    struct total total = {0};
    bool is_good = call->given[1] == NULL || total_add(&total, call->room, call->given[1]);
    for (uint32_t i = 0; is_good && i < list->count; i++) {
        struct value item = builtin_attribute(call->room, &list->items[i], call->given[0], NULL);
        is_good = total_add(&total, call->room, &item);
    }
    if (total.is_float && isfinite(total.number) && total.number + total.lost != total.number) {
        return value_raise(call->room, "this sum of floats depends on the version of Python");
    }
    return call_gives(call, total.is_float ? value_float(total.number) : value_int(total.whole));
}
