// SPDX-License-Identifier: Apache-2.0
//
// space_mark.h -- "▁" (U+2581), which SentencePiece writes for a space.
#pragma once

#include "base/slice.h"

enum { space_mark = 0x2581, space_mark_size = 3 };
#define SPACE_MARK "\xe2\x96\x81"

static inline bool space_mark_at(struct slice text, size_t at)
{
    return text.size - at >= space_mark_size &&
           memcmp(text.bytes + at, SPACE_MARK, space_mark_size) == 0;
}

// Writes the text with a space for each mark.  Returns how many bytes.
static inline size_t space_marks_undo(struct slice text, uint8_t *out)
{
    size_t size = 0;
    for (size_t at = 0; at < text.size;) {
        bool is_mark = space_mark_at(text, at);
        out[size++] = is_mark ? ' ' : text.bytes[at];
        at += is_mark ? space_mark_size : 1;
    }
    return size;
}

// Writes the text with a mark for each space, and one before it if `is_first`: up to
// space_mark_size times as many bytes.  Returns how many.
static inline size_t space_marks_write(struct slice text, bool is_first, uint8_t *out)
{
    size_t size = 0;
    if (is_first) {
        memcpy(out, SPACE_MARK, space_mark_size);
        size = space_mark_size;
    }
    for (size_t at = 0; at < text.size; at++) {
        if (text.bytes[at] == ' ') {
            memcpy(out + size, SPACE_MARK, space_mark_size);
            size += space_mark_size;
        } else {
            out[size++] = text.bytes[at];
        }
    }
    return size;
}
