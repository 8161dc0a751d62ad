// SPDX-License-Identifier: Apache-2.0
//
// utf8.h -- code points in bytes that are known to be UTF-8.
//
// Validate once, with utf8_is_valid or json.h; the other functions do not check again.  To show
// text from outside, use utf8_tamed.
#pragma once

#include "base/slice.h"

// Strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
bool utf8_is_valid(struct slice text);

// The text itself if it is valid; else a copy in `space`, which has as many bytes, with a `?` for
// each invalid byte.
struct slice utf8_tamed(struct slice text, uint8_t *space);

static inline bool utf8_is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

// Bytes of the character at `at`; 0 when it is ASCII or invalid.  The bounds on the second byte
// keep out overlong forms, surrogates and code points above U+10FFFF; RFC 3629, section 4.
static inline unsigned utf8_valid_size(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0];

    if (lead >= 0xe0 && lead <= 0xef) {
        uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : 0xbf;
        return left >= 3 && at[1] >= low && at[1] <= high && utf8_is_tail(at[2]) ? 3 : 0;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return left >= 2 && utf8_is_tail(at[1]) ? 2 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
        bool is_valid = left >= 4 && at[1] >= low && at[1] <= high && utf8_is_tail(at[2]) &&
                        utf8_is_tail(at[3]);
        return is_valid ? 4 : 0;
    }
    return 0;
}

// Bytes of the character whose first byte this is.
static inline unsigned utf8_size_of_lead(uint8_t lead)
{
    return 1 + (lead >= 0xc0) + (lead >= 0xe0) + (lead >= 0xf0);
}

// The character at `at`, whose bytes are all there; *size is how many.
static inline uint32_t utf8_read(const uint8_t *at, unsigned *size)
{
    uint32_t lead = at[0];
    if (lead < 0x80) {
        *size = 1;
        return lead;
    }
    if (lead < 0xe0) {
        *size = 2;
        return (lead & 0x1f) << 6 | (at[1] & 0x3f);
    }
    if (lead < 0xf0) {
        *size = 3;
        return (lead & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
    }
    *size = 4;
    return (lead & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12 | (uint32_t)(at[2] & 0x3f) << 6 |
           (at[3] & 0x3f);
}

// At most four bytes; returns how many.  `code_point` is a scalar value.
static inline unsigned utf8_write(uint32_t code_point, uint8_t *out)
{
    if (code_point < 0x80) {
        out[0] = (uint8_t)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (uint8_t)(0xc0 | code_point >> 6);
        out[1] = (uint8_t)(0x80 | (code_point & 0x3f));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code_point >> 12);
        out[1] = (uint8_t)(0x80 | (code_point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code_point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code_point >> 18);
    out[1] = (uint8_t)(0x80 | (code_point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code_point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code_point & 0x3f));
    return 4;
}

// The start of `text`, at most `size` bytes of it, without a part of a character at its end.
static inline struct slice utf8_cut(struct slice text, size_t size)
{
    if (text.size <= size) {
        return text;
    }
    while (size > 0 && utf8_is_tail(text.bytes[size])) {
        size--;
    }
    return slice_of(text.bytes, size);
}

// The first byte of the character before `at`, which is not the first of `begin`.
static inline const uint8_t *utf8_back(const uint8_t *begin, const uint8_t *at)
{
    do {
        at--;
    } while (at > begin && utf8_is_tail(*at));
    return at;
}
