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

struct slice value_text_take(struct value_room *room, const struct text *text)
{
    ASSERT_SLOW(text->bytes ==
                room->arena->bytes + room->arena->used); // nothing was taken meanwhile
    // A text that fits into the rest may not fit after rounding; then it is refused as well.
    if (text->overflow || arena_take(room->arena, text->size) == NULL) {
        (void)value_fail(room, STATUS_TOO_LARGE, "the template takes too much memory");
        return slice_str("");
    }
    (void)value_step(room, 1 + text->size / 64);
    return text_slice(text);
}

struct value value_text_end(struct value_room *room, const struct text *text)
{
    return value_string(value_text_take(room, text));
}

// Digits and a decimal exponent: d.ddd * 10^exponent.
struct decimal {
    char digits[20];
    int count;
    int exponent;
    bool negative;
};

// Whether so many digits read back as the number.
static bool try_digits(double number, int digits, struct decimal *out)
{
    ASSERT(digits >= 1 && digits <= DBL_DECIMAL_DIG);
    char text[40];
    (void)snprintf(text, sizeof(text), "%.*e", digits - 1, fabs(number));
    // At a power of two the numbers above are twice as far away as those below.  So the nearest
    // decimal may be below and too far, and the next one above near enough.
    char *last = strchr(text, 'e') - 1;
    if (strtod(text, NULL) < fabs(number) && *last < '9') {
        (*last)++;
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

// Every decimal of DBL_DIG digits survives the way through a normal double and back: if so many
// are enough, they are the shortest once zeros are off.
static struct decimal shortest(double number)
{
    ASSERT(isfinite(number));
    struct decimal decimal = {0};
    int digits = fabs(number) < DBL_MIN ? 1 : DBL_DIG;
    while (digits <= DBL_DECIMAL_DIG && !try_digits(number, digits, &decimal)) {
        digits++;
    }
    return decimal;
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
        text_add_format(out, "0.%.*s", -point, "0000");
        text_add(out, slice_of(decimal.digits, (size_t)count));
    } else if (point >= count) {
        text_add(out, slice_of(decimal.digits, (size_t)count));
        text_add_format(out, "%.*s.0", point - count, "0000000000000000");
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
    size_t plain = 0; // where the bytes begin that need no escape and are not written yet
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

static void repr_dict(const struct value_dict *dict, struct text *out, unsigned depth)
{
    text_add_str(out, "{");
    for (uint32_t i = 0; i < dict->count && !out->overflow; i++) {
        text_add_str(out, i > 0 ? ", " : "");
        repr(&dict->members[i].key, out, depth);
        text_add_str(out, ": ");
        repr(&dict->members[i].value, out, depth);
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
        repr_dict(value->dict, out, depth + 1);
        return;
    case VALUE_NAMESPACE:
        text_add_str(out, "<Namespace ");
        repr_dict(value->space->dict, out, depth + 1);
        text_add_str(out, ">");
        return;
    case VALUE_VIEW:
        text_add_format(out, "%s(", value_type_name(value));
        repr_list(value->list, false, out, depth + 1);
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
        // Python prints its address.
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

struct slice value_to_string(struct value_room *room, const struct value *value)
{
    if (value->kind == VALUE_STRING) {
        return value->string;
    }
    struct text text = value_text_open(room);
    value_print(value, &text);
    return value_text_take(room, &text);
}
