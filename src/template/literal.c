// SPDX-License-Identifier: Apache-2.0

#include "template/literal.h"

#include "base/base.h"
#include "base/utf8.h"

#include <stdlib.h>

// By letter, the bytes that \n and its like stand for; 0 for others.
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

// From after the backslash; `*code_point` is the character.  NULL: the escape is broken.
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

// The base of "0x1f" and the like; 0: no prefix.
static unsigned prefix_base(struct slice text)
{
    if (text.size < 3 || text.bytes[0] != '0') {
        return 0;
    }
    uint8_t letter = ascii_lower(text.bytes[1]);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

static unsigned digit_value(uint8_t byte)
{
    uint8_t lower = ascii_lower(byte);
    if (byte >= '0' && byte <= '9') {
        return (unsigned)(byte - '0');
    }
    return lower >= 'a' && lower <= 'z' ? (unsigned)(lower - 'a' + 10) : 99;
}

enum status literal_integer(struct slice text, unsigned base, uint8_t *bytes, struct value *out)
{
    ASSERT(bytes != NULL && (base == 0 || (base >= 2 && base <= 36)));
    size_t at = text.size > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+');
    bool is_negative = at > 0 && text.bytes[0] == '-';
    unsigned prefixed = prefix_base(slice_of(text.bytes + at, text.size - at));
    bool follows_digit = prefixed != 0 && (base == 0 || base == prefixed);
    base = follows_digit ? prefixed : base == 0 ? 10 : base;
    at += follows_digit ? 2 : 0;

    uint64_t number = 0;
    bool fits = true;
    size_t size = 0;
    for (; at < text.size; at++) {
        // Underscores stand between digits, or after a prefix.
        bool is_underscore = text.bytes[at] == '_';
        unsigned digit = digit_value(text.bytes[at]);
        if (is_underscore ? !follows_digit : digit >= base) {
            return STATUS_MALFORMED;
        }
        follows_digit = !is_underscore;
        if (is_underscore || (size == 0 && digit == 0)) {
            continue;
        }
        if (size == 0 && is_negative) {
            bytes[size++] = '-';
        }
        bytes[size++] = text.bytes[at];
        fits = fits && !__builtin_mul_overflow(number, base, &number) &&
               !__builtin_add_overflow(number, digit, &number);
    }
    if (!follows_digit) {
        return STATUS_MALFORMED;
    }
    fits = fits && number <= (uint64_t)INT64_MAX + is_negative;
    *out = fits ? value_int((int64_t)(is_negative ? 0 - number : number))
                : (struct value){.kind = VALUE_BIG_INT, .string = slice_of(bytes, size)};
    return fits || base == 10 ? STATUS_OK : STATUS_TOO_LARGE;
}

bool literal_float(struct slice text, struct value *out)
{
    ASSERT(text.size > 0);
    char digits[64];
    if (text.size >= sizeof(digits)) {
        return false;
    }
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        digits[size] = (char)text.bytes[i];
        size += text.bytes[i] != '_';
    }
    digits[size] = '\0';
    *out = value_float(strtod(digits, NULL));
    return true;
}
