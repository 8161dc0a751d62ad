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

bool utf8_is_valid(struct slice text)
{
    const uint8_t *at = text.bytes;
    const uint8_t *end = slice_end(text);

    for (;;) {
        at = ascii_end(at, end);
        if (at == end) {
            return true;
        }
        // Scripts that are not Latin come in runs.
        while (at < end && *at >= 0x80) {
            unsigned size = utf8_valid_size(at, (size_t)(end - at));
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
        unsigned size = text.bytes[i] < 0x80 ? 1 : utf8_valid_size(text.bytes + i, text.size - i);
        if (size == 0) {
            space[i++] = '?';
        } else {
            memcpy(space + i, text.bytes + i, size);
            i += size;
        }
    }
    return slice_of(space, text.size);
}
