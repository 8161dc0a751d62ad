// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"

#include "base/base.h"
#include "base/decimal.h"

#include <stdio.h>

static const char hex_digits[] = "0123456789abcdef";

void text_add_u64(struct text *text, uint64_t number)
{
    uint8_t digits[decimal_room];

    if (!text->overflow && text->capacity - text->size >= decimal_room) {
        text->size = (size_t)(decimal_put(text->bytes + text->size, number) - text->bytes);
        return;
    }
    text_add(text, slice_of(digits, (size_t)(decimal_put(digits, number) - digits)));
}

void text_add_hex(struct text *text, uint64_t number)
{
    uint8_t digits[16];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (uint8_t)hex_digits[number & 15];
        number >>= 4;
    } while (number > 0);
    text_add(text, slice_of(digits + at, sizeof(digits) - at));
}

static void text_add_escape(struct text *text, uint8_t byte)
{
    char escape[7];

    switch (byte) {
    case '"':
        text_add_str(text, "\\\"");
        return;
    case '\\':
        text_add_str(text, "\\\\");
        return;
    case '\n':
        text_add_str(text, "\\n");
        return;
    default:
        snprintf(escape, sizeof(escape), "\\u%04x", byte);
        text_add_str(text, escape);
    }
}

void text_add_escaped(struct text *text, struct slice string)
{
    size_t begin = 0;
    for (size_t i = 0; i < string.size; i++) {
        uint8_t byte = string.bytes[i];
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
            text_add(text, slice_of(string.bytes + begin, i - begin));
            text_add_escape(text, byte);
            begin = i + 1;
        }
    }
    text_add(text, slice_of(string.bytes + begin, string.size - begin));
}

void text_add_json(struct text *text, struct slice string)
{
    text_add_str(text, "\"");
    text_add_escaped(text, string);
    text_add_str(text, "\"");
}

void text_add_vformat(struct text *text, const char *format, va_list args)
{
    if (text->overflow) {
        return;
    }
    size_t left = text->capacity - text->size;
    int size = vsnprintf((char *)text->bytes + text->size, left, format, args);
    if (size < 0 || (size_t)size >= left) {
        text->overflow = true; // the terminating NUL needs a place too
        return;
    }
    text->size += (size_t)size;
}

void text_add_format(struct text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_add_vformat(text, format, args);
    va_end(args);
}

bool slice_parse_u64(struct slice digits, uint64_t *out)
{
    uint64_t number = 0;

    if (digits.size == 0) {
        return false;
    }
    for (size_t i = 0; i < digits.size; i++) {
        uint8_t digit = (uint8_t)(digits.bytes[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, digit, &number)) {
            return false;
        }
    }
    *out = number;
    return true;
}
