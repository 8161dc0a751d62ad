// SPDX-License-Identifier: Apache-2.0

#include "base/utf8.h"

// The first byte at or after `at` that is not ASCII, or `end`.
static const uint8_t *ascii_end(const uint8_t *at, const uint8_t *end)
{
    const uint64_t tops = 0x8080808080808080;

    while (end - at >= 32) {
        uint64_t words[4];
        memcpy(words, at, sizeof(words));
        if (((words[0] | words[1] | words[2] | words[3]) & tops) != 0) {
            break;
        }
        at += 32;
    }
    while (at < end && *at < 0x80) {
        at++;
    }
    return at;
}

static bool is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

// One character of two to four bytes; 0 when it is none.  The bounds on the second byte keep out
// overlong forms, surrogates and what lies above U+10FFFF; RFC 3629, section 4.
static inline unsigned valid_size(const uint8_t *at, size_t left)
{
    uint8_t lead = at[0];

    if (lead >= 0xe0 && lead <= 0xef) {
        uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
        uint8_t high = lead == 0xed ? 0x9f : 0xbf;
        return left >= 3 && at[1] >= low && at[1] <= high && is_tail(at[2]) ? 3 : 0;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return left >= 2 && is_tail(at[1]) ? 2 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
        return left >= 4 && at[1] >= low && at[1] <= high && is_tail(at[2]) && is_tail(at[3]) ? 4
                                                                                              : 0;
    }
    return 0;
}

bool utf8_is_valid(struct slice text)
{
    const uint8_t *at = text.bytes;
    const uint8_t *end = text.size > 0 ? text.bytes + text.size : text.bytes;

    for (;;) {
        at = ascii_end(at, end);
        if (at == end) {
            return true;
        }
        // Scripts that are not Latin come in runs.
        while (at < end && *at >= 0x80) {
            unsigned size = valid_size(at, (size_t)(end - at));
            if (size == 0) {
                return false;
            }
            at += size;
        }
    }
}

struct slice utf8_tamed(struct slice text, uint8_t *space)
{
    if (utf8_is_valid(text)) {
        return text;
    }
    for (size_t i = 0; i < text.size;) {
        unsigned size = text.bytes[i] < 0x80 ? 1 : valid_size(text.bytes + i, text.size - i);
        if (size == 0) {
            space[i++] = '?';
        } else {
            memcpy(space + i, text.bytes + i, size);
            i += size;
        }
    }
    return slice_of(space, text.size);
}
