// SPDX-License-Identifier: Apache-2.0

#include "template/literal.h"

#include "base/base.h"
#include "base/utf8.h"

#include <stdlib.h>

// By letter, what \n and its like stand for; 0 for others.
static const uint8_t letters[128] = {
    ['\\'] = '\\', ['\''] = '\'', ['"'] = '"',  ['a'] = '\a', ['b'] = '\b',
    ['f'] = '\f',  ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t', ['v'] = '\v',
};

// The digits of \x41, \u0041, \U00000041.
static const uint8_t *literal_hex(const uint8_t *at, const uint8_t *end, unsigned count,
                                  uint32_t *out)
{
    if ((size_t)(end - at) < count) {
        return NULL;
    }
    uint32_t value = 0;
    for (unsigned i = 0; i < count; i++) {
        int digit = ascii_hex_value(at[i]);
        if (digit < 0) {
            return NULL;
        }
        value = value << 4 | (uint32_t)digit;
    }
    *out = value;
    return at + count;
}

static const uint8_t *literal_octal(const uint8_t *at, const uint8_t *end, uint32_t *out)
{
    uint32_t value = 0;
    const uint8_t *begin = at;
    while (at < end && at - begin < 3 && *at >= '0' && *at <= '7') {
        value = value << 3 | (uint32_t)(*at++ - '0');
    }
    *out = value;
    return at;
}

// From after the backslash; `*code_point` is what it stands for.  NULL when it is broken.
static const uint8_t *read_numbered(const uint8_t *at, const uint8_t *end, uint32_t *code_point)
{
    ASSERT(at < end);
    if (*at >= '0' && *at <= '7') {
        return literal_octal(at, end, code_point);
    }
    at = literal_hex(at + 1, end, *at == 'x' ? 2 : *at == 'u' ? 4 : 8, code_point);
    bool is_scalar =
        at != NULL && *code_point <= 0x10ffff && (*code_point < 0xd800 || *code_point > 0xdfff);
    return is_scalar ? at : NULL;
}

bool literal_string(struct slice text, uint8_t *bytes, struct slice *out)
{
    ASSERT(bytes != NULL);
    const uint8_t *at = text.bytes;
    const uint8_t *end = text.bytes + text.size;
    uint8_t *to = bytes;

    while (at < end) {
        if (*at != '\\' || at + 1 == end) {
            *to++ = *at++;
            continue;
        }
        uint8_t letter = at[1];
        if (letter < sizeof(letters) && letters[letter] != 0) {
            *to++ = letters[letter];
            at += 2;
        } else if (letter == '\n') {
            at += 2;
        } else if (letter == 'x' || letter == 'u' || letter == 'U' ||
                   (letter >= '0' && letter <= '7')) {
            uint32_t code_point;
            at = read_numbered(at + 1, end, &code_point);
            if (at == NULL) {
                return false;
            }
            to += utf8_write(code_point, to);
        } else if (letter == 'N') {
            return false;
        } else {
            *to++ = *at++;
        }
    }
    *out = slice_of(bytes, (size_t)(to - bytes));
    return true;
}

static size_t without_underscores(struct slice text, uint8_t *bytes)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] != '_') {
            bytes[size++] = text.bytes[i];
        }
    }
    return size;
}

bool literal_integer(struct slice text, uint8_t *bytes, struct value *out)
{
    ASSERT(text.size > 0 && bytes != NULL);
    size_t size = without_underscores(text, bytes);
    uint8_t letter = size > 2 ? ascii_lower(bytes[1]) : 0;
    uint64_t base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    uint64_t value = 0;

    for (size_t i = base == 10 ? 0 : 2; i < size; i++) {
        uint64_t digit = (uint64_t)ascii_hex_value(bytes[i]);
        if (value > ((uint64_t)INT64_MAX - digit) / base) {
            *out = (struct value){.kind = VALUE_BIG_INT, .string = slice_of(bytes, size)};
            return base == 10;
        }
        value = value * base + digit;
    }
    *out = value_int((int64_t)value);
    return true;
}

bool literal_float(struct slice text, struct value *out)
{
    ASSERT(text.size > 0);
    char digits[64];
    if (text.size >= sizeof(digits)) {
        return false;
    }
    digits[without_underscores(text, (uint8_t *)digits)] = '\0';
    *out = value_float(strtod(digits, NULL));
    return true;
}
