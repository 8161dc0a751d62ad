// SPDX-License-Identifier: Apache-2.0
//
// Shared by filters and methods of strings.  Prompts are long: memchr and memmem search, and parts
// that do not change are not copied.

#include "base/base.h"
#include "base/utf8.h"
#include "template/builtin/builtins_internal.h"
#include "template/value/value_text.h"

static size_t first_place_of(struct slice string, struct slice part)
{
    ASSERT(part.size > 0);
    // memchr is several times as fast as memmem, as long as the first byte is rare.
    enum { tries = 8 };
    const uint8_t *at = string.bytes;
    size_t left = string.size;
    for (int i = 0; i < tries && left >= part.size; i++) {
        const uint8_t *found = memchr(at, part.bytes[0], left - part.size + 1);
        if (found == NULL) {
            return PLACE_NONE;
        }
        if (memcmp(found, part.bytes, part.size) == 0) {
            return (size_t)(found - string.bytes);
        }
        left -= (size_t)(found + 1 - at);
        at = found + 1;
    }
    const uint8_t *found = left >= part.size ? memmem(at, left, part.bytes, part.size) : NULL;
    return found != NULL ? (size_t)(found - string.bytes) : PLACE_NONE;
}

size_t place_of(struct slice string, struct slice part, bool last)
{
    if (part.size == 0) {
        return last ? string.size : 0;
    }
    if (!last) {
        return first_place_of(string, part);
    }
    size_t end = string.size;
    while (end >= part.size) {
        // The first byte of the part, searched from behind at memory speed.
        const uint8_t *found = memrchr(string.bytes, part.bytes[0], end - part.size + 1);
        if (found == NULL) {
            return PLACE_NONE;
        }
        size_t at = (size_t)(found - string.bytes);
        if (memcmp(found, part.bytes, part.size) == 0) {
            return at;
        }
        end = at + part.size - 1;
    }
    return PLACE_NONE;
}

// Between all characters, before the first and after the last.
static void replace_nothing(struct slice string, struct slice to, int64_t count, struct text *out)
{
    size_t at = 0;
    for (; count != 0 && at < string.size && !out->overflow; count--) {
        unsigned size = utf8_size_of_lead(string.bytes[at]);
        text_add(out, to);
        text_add(out, slice_of(string.bytes + at, size));
        at += size;
    }
    if (count != 0) {
        text_add(out, to);
    }
    text_add(out, string_after(string, at));
}

struct slice string_replace(struct value_room *room, struct slice string,
                            const struct slice pair[2], int64_t count)
{
    bool is_searched = value_step(room, 1 + string.size / 64) && count != 0;
    size_t place = is_searched ? place_of(string, pair[0], false) : PLACE_NONE;
    if (place == PLACE_NONE || (pair[0].size == 0 && pair[1].size == 0)) {
        return string;
    }
    struct text text = value_text_open(room);
    if (pair[0].size == 0) {
        replace_nothing(string, pair[1], count, &text);
        return value_text_take(room, &text);
    }
    struct slice rest = string;
    for (; count != 0 && place != PLACE_NONE && !text.overflow; count--) {
        text_add(&text, slice_of(rest.bytes, place));
        text_add(&text, pair[1]);
        rest = string_after(rest, place + pair[0].size);
        place = place_of(rest, pair[0], false);
    }
    text_add(&text, rest);
    return value_text_take(room, &text);
}

static bool has_character(struct slice chars, const uint8_t *character, unsigned size)
{
    return memmem(chars.bytes, chars.size, character, size) != NULL;
}

struct slice string_strip(struct slice string, struct slice chars, unsigned sides)
{
    ASSERT((sides & ~(unsigned)STRIP_BOTH) == 0);
    if (chars.bytes == NULL) {
        size_t before = (sides & STRIP_LEFT) != 0 ? value_text_space_before(string) : 0;
        struct slice rest = string_after(string, before);
        size_t after = (sides & STRIP_RIGHT) != 0 ? value_text_space_after(rest) : 0;
        return slice_of(rest.bytes, rest.size - after);
    }
    // A character's bytes occur in UTF-8 only as that character.
    while ((sides & STRIP_LEFT) != 0 && string.size > 0) {
        unsigned size = utf8_size_of_lead(string.bytes[0]);
        if (!has_character(chars, string.bytes, size)) {
            break;
        }
        string = string_after(string, size);
    }
    while ((sides & STRIP_RIGHT) != 0 && string.size > 0) {
        const uint8_t *last = utf8_back(string.bytes, string.bytes + string.size);
        size_t before = (size_t)(last - string.bytes);
        if (!has_character(chars, last, (unsigned)(string.size - before))) {
            break;
        }
        string.size = before;
    }
    return string;
}

void string_add_repeated(struct text *out, struct slice part, uint64_t count)
{
    for (uint64_t i = 0; i < count && !out->overflow; i++) {
        text_add(out, part);
    }
}

struct slice string_pad(struct value_room *room, struct slice string, int64_t width,
                        enum pad_side side)
{
    size_t length = value_string_length(string);
    if (width <= 0 || (uint64_t)width <= length) {
        (void)value_step(room, 1 + string.size / 64);
        return string;
    }
    uint64_t missing = (uint64_t)width - length;
    // An odd blank is before the string when the width is odd, and after it otherwise.
    uint64_t before = missing / 2 + (missing & (uint64_t)width & 1);
    if (side != PAD_BOTH) {
        before = side == PAD_BEFORE ? missing : 0;
    }
    struct text text = value_text_open(room);
    string_add_repeated(&text, slice_str(" "), before);
    text_add(&text, string);
    string_add_repeated(&text, slice_str(" "), missing - before);
    return value_text_take(room, &text);
}

// Bytes of the line's end at `at`; 0: the line goes on.
static size_t line_end_size(struct slice rest, size_t at)
{
    ASSERT_SLOW(at < rest.size);
    uint8_t byte = rest.bytes[at];
    if (byte == '\r') {
        return at + 1 < rest.size && rest.bytes[at + 1] == '\n' ? 2 : 1;
    }
    if ((byte >= '\n' && byte <= '\f') || (byte >= 0x1c && byte <= 0x1e)) {
        return 1;
    }
    if (byte == 0xc2 && rest.bytes[at + 1] == 0x85) {
        return 2;
    }
    bool separator = byte == 0xe2 && rest.bytes[at + 1] == 0x80 &&
                     (rest.bytes[at + 2] == 0xa8 || rest.bytes[at + 2] == 0xa9);
    return separator ? 3 : 0;
}

bool string_next_line(struct slice *rest, struct string_line *out)
{
    if (rest->size == 0) {
        return false;
    }
    size_t at = 0;
    size_t end = 0;
    while (at < rest->size && end == 0) {
        uint8_t byte = rest->bytes[at];
        // Nearly no byte can begin the end of a line.
        end = byte > 0x1e && byte != 0xc2 && byte != 0xe2 ? 0 : line_end_size(*rest, at);
        at += end == 0;
    }
    *out = (struct string_line){
        .line = slice_of(rest->bytes, at),
        .whole = slice_of(rest->bytes, at + end),
    };
    *rest = string_after(*rest, at + end);
    return true;
}
