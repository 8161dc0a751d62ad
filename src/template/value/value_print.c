// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/utf8.h"
#include "template/value/value.h"
#include "template/value/value_internal.h"
#include "template/value/value_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct text value_text_open(struct value_room *room)
{
    ASSERT_SLOW(room->arena->used <= room->arena->size);
    struct arena *arena = room->arena;
    return text_over(arena->bytes + arena->used, arena->size - arena->used);
}

bool value_text_take(struct value_room *room, const struct text *text, struct slice *out)
{
    ASSERT_SLOW(text->bytes ==
                room->arena->bytes + room->arena->used); // nothing was taken meanwhile
    // What fits into the rest may not fit after rounding; then the last few bytes are refused.
    if (text->overflow || arena_take(room->arena, text->size) == NULL) {
        return value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
    }
    *out = text_slice(text);
    return value_step(room, 1 + text->size / 64);
}

bool value_text_end(struct value_room *room, const struct text *text, struct value *out)
{
    struct slice written;
    if (!value_text_take(room, text, &written)) {
        return false;
    }
    *out = value_string(written);
    return true;
}

// Digits and a decimal exponent: d.ddd * 10^exponent.
struct decimal {
    char digits[20];
    int count;
    int exponent;
    bool negative;
};

// The last digit, which is no 9 where this matters, up by one.
static void raise_last_digit(char *text)
{
    char *last = strchr(text, 'e') - 1;
    if (*last < '9') {
        (*last)++;
    }
}

static bool try_digits(double number, int digits, struct decimal *out)
{
    ASSERT(digits >= 1 && digits <= DBL_DECIMAL_DIG);
    char text[40];
    (void)snprintf(text, sizeof(text), "%.*e", digits - 1, fabs(number));
    // At a power of two the numbers above are twice as far away as those below.  So the nearest decimal may
    // be below and too far, and the next one above near enough.
    if (strtod(text, NULL) < fabs(number)) {
        raise_last_digit(text);
    }
    if (strtod(text, NULL) != fabs(number)) {
        return false;
    }
    const char *at = text;
    *out = (struct decimal){.negative = signbit(number)};
    for (; *at != 'e'; at++) {
        if (*at != '.') {
            out->digits[out->count++] = *at;
        }
    }
    while (out->count > 1 && out->digits[out->count - 1] == '0') {
        out->count--;
    }
    out->exponent = (int)strtol(at + 1, NULL, 10);
    return true;
}

// Digits of a decimal that survives the way through a double like this one and back: 10^digits is below
// 2^(bits - 1), with the bits that the number has.  Those below the normal ones have fewer.
static int surviving_digits(double number)
{
    ASSERT(isfinite(number));
    int exponent;
    (void)frexp(number, &exponent);
    int bits = exponent - (DBL_MIN_EXP - DBL_MANT_DIG);
    int digits = bits < DBL_MANT_DIG ? (bits - 1) * 301 / 1000 : DBL_DIG;
    return digits > 1 ? digits : 1;
}

// If as many digits are enough as survive they are the shortest once zeros are off.
static struct decimal shortest(double number)
{
    struct decimal decimal = {0};
    int digits = surviving_digits(number);
    while (digits < DBL_DECIMAL_DIG && !try_digits(number, digits, &decimal)) {
        digits++;
    }
    if (digits == DBL_DECIMAL_DIG) {
        (void)try_digits(number, digits, &decimal);
    }
    return decimal;
}

static void add_zeros(struct text *out, int count)
{
    ASSERT(count >= 0);
    for (int i = 0; i < count; i++) {
        text_add_str(out, "0");
    }
}

void value_print_float(double number, struct text *out)
{
    if (isnan(number)) {
        text_add_str(out, "nan");
        return;
    }
    if (isinf(number)) {
        text_add_str(out, number < 0 ? "-inf" : "inf");
        return;
    }
    struct decimal decimal = shortest(number);
    ASSERT(decimal.count >= 1 && decimal.count <= DBL_DECIMAL_DIG);
    int count = decimal.count;
    int point = decimal.exponent + 1; // digits before it
    text_add_str(out, decimal.negative ? "-" : "");
    if (decimal.exponent < -4 || decimal.exponent >= 16) {
        text_add(out, slice_of(decimal.digits, 1));
        text_add_str(out, count > 1 ? "." : "");
        text_add(out, slice_of(decimal.digits + 1, (size_t)count - 1));
        text_add_format(out, "e%c%02d", decimal.exponent < 0 ? '-' : '+', abs(decimal.exponent));
    } else if (point <= 0) {
        text_add_str(out, "0.");
        add_zeros(out, -point);
        text_add(out, slice_of(decimal.digits, (size_t)count));
    } else if (point >= count) {
        text_add(out, slice_of(decimal.digits, (size_t)count));
        add_zeros(out, point - count);
        text_add_str(out, ".0");
    } else {
        text_add(out, slice_of(decimal.digits, (size_t)point));
        text_add_str(out, ".");
        text_add(out, slice_of(decimal.digits + point, (size_t)(count - point)));
    }
}

static void add_escaped(uint32_t code_point, struct text *out)
{
    ASSERT(code_point <= 0x10ffff);
    static const char characters[] = "\t\n\r\\'";
    static const char letters[] = "tnr\\'";
    const char *found =
        code_point > 0 && code_point < 0x80 ? strchr(characters, (int)code_point) : NULL;
    if (found != NULL) {
        char text[2] = {'\\', letters[found - characters]};
        text_add(out, slice_of(text, sizeof(text)));
    } else if (code_point <= 0xff) {
        text_add_format(out, "\\x%02x", code_point);
    } else if (code_point <= 0xffff) {
        text_add_format(out, "\\u%04x", code_point);
    } else {
        text_add_format(out, "\\U%08x", code_point);
    }
}

static void repr_string(struct slice string, struct text *out)
{
    bool single = string.size > 0 && memchr(string.bytes, '\'', string.size) != NULL;
    bool other = string.size > 0 && memchr(string.bytes, '"', string.size) != NULL;
    const char *quote = single && !other ? "\"" : "'";

    text_add_str(out, quote);
    size_t plain = 0; // begin of what has not been written and needs no escape
    for (size_t at = 0; at < string.size && !out->overflow;) {
        uint8_t byte = string.bytes[at];
        if (byte >= ' ' && byte < 0x7f && byte != '\\' && byte != '\'') {
            at++;
            continue;
        }
        unsigned size = 0;
        uint32_t code_point = utf8_read(string.bytes + at, &size);
        if (code_point == '\\' || (code_point == '\'' && *quote == '\'') ||
            !value_text_is_printable(code_point)) {
            text_add(out, slice_of(string.bytes + plain, at - plain));
            add_escaped(code_point, out);
            plain = at + size;
        }
        at += size;
    }
    if (string.size > plain) {
        text_add(out, slice_of(string.bytes + plain, string.size - plain));
    }
    text_add_str(out, quote);
}

static void repr(const struct value *value, struct text *out, unsigned depth);

static void repr_list(const struct value_list *list, bool tuple, struct text *out, unsigned depth)
{
    text_add_str(out, tuple ? "(" : "[");
    for (uint32_t i = 0; i < list->count && !out->overflow; i++) {
        text_add_str(out, i > 0 ? ", " : "");
        repr(&list->items[i], out, depth);
    }
    text_add_str(out, tuple && list->count == 1 ? "," : "");
    text_add_str(out, tuple ? ")" : "]");
}

static void repr_members(const struct value_member *members, uint32_t count, struct text *out,
                         unsigned depth)
{
    text_add_str(out, "{");
    for (uint32_t i = 0; i < count && !out->overflow; i++) {
        text_add_str(out, i > 0 ? ", " : "");
        repr(&members[i].key, out, depth);
        text_add_str(out, ": ");
        repr(&members[i].value, out, depth);
    }
    text_add_str(out, "}");
}

static void repr_container(const struct value *value, struct text *out, unsigned depth)
{
    if (depth >= value_depth_max) {
        out->overflow = true;
        return;
    }
    switch (value->kind) {
    case VALUE_DICT:
        repr_members(value->dict->members, value->dict->count, out, depth + 1);
        return;
    case VALUE_NAMESPACE:
        text_add_str(out, "<Namespace ");
        repr_members(value->space->members, value->space->count, out, depth + 1);
        text_add_str(out, ">");
        return;
    case VALUE_VIEW:
        text_add_str(out, value->view->name);
        text_add_str(out, "(");
        repr_list(value->view->list, false, out, depth + 1);
        text_add_str(out, ")");
        return;
    default:
        repr_list(value->list, value->kind == VALUE_TUPLE, out, depth + 1);
        return;
    }
}

static void repr(const struct value *value, struct text *out, unsigned depth)
{
    switch (value->kind) {
    case VALUE_UNDEFINED:
        text_add_str(out, "Undefined");
        return;
    case VALUE_NONE:
        text_add_str(out, "None");
        return;
    case VALUE_BOOL:
        text_add_str(out, value->boolean ? "True" : "False");
        return;
    case VALUE_INT:
        text_add_format(out, "%lld", (long long)value->integer);
        return;
    case VALUE_BIG_INT:
        text_add(out, value->string);
        return;
    case VALUE_FLOAT:
        value_print_float(value->number, out);
        return;
    case VALUE_STRING:
        text_add_str(out, value->markup ? "Markup(" : "");
        repr_string(value->string, out);
        text_add_str(out, value->markup ? ")" : "");
        return;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_NAMESPACE:
    case VALUE_VIEW:
        repr_container(value, out, depth);
        return;
    case VALUE_CALLABLE:
    case VALUE_GENERATOR:
        // Python prints where it lies in memory.
        out->overflow = true;
        return;
    }
}

void value_print_repr(const struct value *value, struct text *out)
{
    repr(value, out, 0);
}

void value_print(const struct value *value, struct text *out)
{
    if (value->kind == VALUE_STRING) {
        text_add(out, value->string);
    } else if (value->kind != VALUE_UNDEFINED) {
        repr(value, out, 0);
    }
}

bool value_to_string(struct value_room *room, const struct value *value, struct slice *out)
{
    if (value->kind == VALUE_STRING) {
        *out = value->string;
        return true;
    }
    struct text text = value_text_open(room);
    value_print(value, &text);
    return value_text_take(room, &text, out);
}
