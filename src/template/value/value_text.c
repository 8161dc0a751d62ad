// SPDX-License-Identifier: Apache-2.0

#include "template/value/value_text.h"

#include "base/base.h"
#include "base/utf8.h"
#include "template/value/value_internal.h"

// Every row of a table begins with its range of code points.
struct character_range {
    uint32_t first;
    uint32_t last;
};

// Every `step`th code point from first to last moves by `distance`.
struct case_run {
    struct character_range range;
    uint32_t step;
    int32_t distance;
};

// One character that becomes two or three; 0: no third.
struct case_several {
    struct character_range range;
    uint32_t characters[3];
};

#include "case_tables.def"

// A sorted table of any of these rows.
struct case_table {
    const void *rows;
    size_t count;
    size_t row_size;
};
#define CASE_TABLE(name) ((struct case_table){name, ARRAY_COUNT(name), sizeof((name)[0])})
#define IS_IN(code_point, name) (case_table_find(CASE_TABLE(name), code_point) != NULL)

// The row whose range includes the code point, or NULL.
static const void *case_table_find(struct case_table table, uint32_t code_point)
{
    size_t low = 0;
    size_t high = table.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct character_range *range =
            (const void *)((const char *)table.rows + middle * table.row_size);
        if (range->last < code_point) {
            low = middle + 1;
        } else if (range->first > code_point) {
            high = middle;
        } else {
            return range;
        }
    }
    return NULL;
}

static bool is_ascii_letter(uint32_t code_point)
{
    return (code_point | 0x20) >= 'a' && (code_point | 0x20) <= 'z';
}

bool value_text_is_space(uint32_t code_point)
{
    if (code_point < 0x80) {
        return code_point == ' ' || (code_point >= '\t' && code_point <= '\r') ||
               (code_point >= 0x1c && code_point <= 0x1f);
    }
    switch (code_point) {
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000:
        return true;
    default:
        return code_point >= 0x2000 && code_point <= 0x200a;
    }
}

bool value_text_is_printable(uint32_t code_point)
{
    return code_point < 0x7f ? code_point >= ' ' : !IS_IN(code_point, unprintable);
}

bool value_text_is_alphabetic(uint32_t code_point)
{
    return code_point < 0x80 ? is_ascii_letter(code_point) : IS_IN(code_point, alphabetic);
}

bool value_text_is_digit(uint32_t code_point)
{
    return code_point < 0x80 ? code_point >= '0' && code_point <= '9' : IS_IN(code_point, digit);
}

bool value_text_is_numeric(uint32_t code_point)
{
    return code_point < 0x80 ? code_point >= '0' && code_point <= '9'
                             : IS_IN(code_point, numeric) || IS_IN(code_point, digit);
}

static bool is_upper(uint32_t code_point)
{
    return code_point < 0x80 ? code_point >= 'A' && code_point <= 'Z'
                             : IS_IN(code_point, uppercase);
}

static bool is_lower(uint32_t code_point)
{
    return code_point < 0x80 ? code_point >= 'a' && code_point <= 'z'
                             : IS_IN(code_point, lowercase);
}

static bool is_cased(uint32_t code_point)
{
    return is_lower(code_point) || is_upper(code_point) || IS_IN(code_point, titlecase);
}

// At least one character has the wanted case, and no character has another.
static bool has_case(struct slice string, bool upper)
{
    bool found = false;
    unsigned size = 0;
    for (size_t at = 0; at < string.size; at += size) {
        uint32_t code_point = utf8_read(string.bytes + at, &size);
        if (upper ? is_upper(code_point) : is_lower(code_point)) {
            found = true;
        } else if (is_cased(code_point)) {
            return false;
        }
    }
    return found;
}

bool value_text_is_upper(struct slice string)
{
    return has_case(string, true);
}

bool value_text_is_lower(struct slice string)
{
    return has_case(string, false);
}

size_t value_text_space_before(struct slice string)
{
    unsigned size = 0;
    size_t at = 0;
    while (at < string.size && string.bytes[at] == ' ') {
        at++;
    }
    while (at < string.size && value_text_is_space(utf8_read(string.bytes + at, &size))) {
        at += size;
    }
    return at;
}

size_t value_text_space_after(struct slice string)
{
    if (string.size == 0) {
        return 0;
    }
    const uint8_t *end = string.bytes + string.size;
    const uint8_t *at = end;
    while (at > string.bytes && at[-1] == ' ') {
        at--;
    }
    while (at > string.bytes) {
        unsigned size = 0;
        const uint8_t *before = utf8_back(string.bytes, at);
        if (!value_text_is_space(utf8_read(before, &size))) {
            break;
        }
        at = before;
    }
    return (size_t)(end - at);
}

static void add_character(uint32_t code_point, struct text *out)
{
    ASSERT(code_point <= 0x10ffff);
    uint8_t bytes[4];
    text_add(out, slice_of(bytes, utf8_write(code_point, bytes)));
}

// False when neither table has the character.
static bool add_mapped(uint32_t code_point, struct case_table runs, struct case_table several,
                       struct text *out)
{
    // East Asian scripts, most of the non-Latin text in prompts, have no case.
    if (code_point >= 0x2d30 && code_point < 0xa640) {
        return false;
    }
    const struct case_run *run = case_table_find(runs, code_point);
    if (run != NULL && (code_point - run->range.first) % run->step == 0) {
        add_character((uint32_t)((int64_t)code_point + run->distance), out);
        return true;
    }
    const struct case_several *row = case_table_find(several, code_point);
    for (size_t i = 0; row != NULL && i < ARRAY_COUNT(row->characters); i++) {
        if (row->characters[i] != 0) {
            add_character(row->characters[i], out);
        }
    }
    return row != NULL;
}
#define ADD_MAPPED(code_point, name, out)                                                          \
    add_mapped(code_point, CASE_TABLE(name##_runs), CASE_TABLE(name##_several), out)

// Whether a sigma ends a word: the nearest characters that are not ignorable are a letter before
// it, and none after it.
static bool is_final(struct slice string, size_t at, size_t size)
{
    ASSERT(at + size <= string.size);
    const uint8_t *begin = string.bytes;
    const uint8_t *before = begin + at;
    unsigned width = 0;
    uint32_t code_point = 0;
    do {
        if (before == begin) {
            return false;
        }
        before = utf8_back(begin, before);
        code_point = utf8_read(before, &width);
    } while (IS_IN(code_point, ignorable));
    if (!is_cased(code_point)) {
        return false;
    }
    for (size_t after = at + size; after < string.size; after += width) {
        code_point = utf8_read(begin + after, &width);
        if (!IS_IN(code_point, ignorable)) {
            return !is_cased(code_point);
        }
    }
    return true;
}

static void add_lower(struct slice string, size_t at, struct text *out)
{
    enum { capital_sigma = 0x3a3, final_sigma = 0x3c2 };
    unsigned size = 0;
    uint32_t code_point = utf8_read(string.bytes + at, &size);
    if (code_point == capital_sigma && is_final(string, at, size)) {
        add_character(final_sigma, out);
    } else if (!ADD_MAPPED(code_point, lower, out)) {
        text_add(out, slice_of(string.bytes + at, size));
    }
}

static void add_upper(struct slice character, uint32_t code_point, bool title, struct text *out)
{
    if (title && ADD_MAPPED(code_point, title, out)) {
        return;
    }
    if (!ADD_MAPPED(code_point, upper, out)) {
        text_add(out, character);
    }
}

// The number of bytes from `at` on that are ASCII; their case needs no table.
static size_t ascii_size(struct slice string, size_t at)
{
    ASSERT_SLOW(at <= string.size);
    size_t end = at;
    for (; string.size - end >= 8; end += 8) {
        uint64_t word;
        memcpy(&word, string.bytes + end, sizeof(word));
        if ((word & 0x8080808080808080) != 0) {
            break;
        }
    }
    while (end < string.size && string.bytes[end] < 0x80) {
        end++;
    }
    return end - at;
}

static void add_ascii(struct slice bytes, bool upper, struct text *out)
{
    size_t start = out->size;
    text_add(out, bytes);
    if (out->overflow) {
        return;
    }
    uint8_t first = upper ? 'a' : 'A';
    uint8_t *written = out->bytes + start;
    for (size_t i = 0; i < bytes.size; i++) {
        uint8_t letter = (uint8_t)(written[i] - first) < 26;
        written[i] ^= (uint8_t)(letter << 5);
    }
}

static void add_one_case(struct slice string, bool upper, struct text *out)
{
    for (size_t at = 0; at < string.size && !out->overflow;) {
        size_t plain = ascii_size(string, at);
        if (plain > 0) {
            add_ascii(slice_of(string.bytes + at, plain), upper, out);
            at += plain;
            continue;
        }
        unsigned size = 0;
        uint32_t code_point = utf8_read(string.bytes + at, &size);
        if (upper) {
            add_upper(slice_of(string.bytes + at, size), code_point, false, out);
        } else {
            add_lower(string, at, out);
        }
        at += size;
    }
}

// title() changes each letter after a character without case, capitalize() the first character.
static void add_title(struct slice string, bool first_only, struct text *out)
{
    bool begins = true;
    unsigned size = 0;
    for (size_t at = 0; at < string.size && !out->overflow; at += size) {
        uint32_t code_point = utf8_read(string.bytes + at, &size);
        if (begins) {
            add_upper(slice_of(string.bytes + at, size), code_point, true, out);
        } else {
            add_lower(string, at, out);
        }
        begins = !first_only && !is_cased(code_point);
    }
}

void value_text_add_case(struct slice string, enum value_text_case to, struct text *out)
{
    switch (to) {
    case VALUE_TEXT_LOWER:
    case VALUE_TEXT_UPPER:
        add_one_case(string, to == VALUE_TEXT_UPPER, out);
        return;
    case VALUE_TEXT_TITLE:
    case VALUE_TEXT_CAPITALIZE:
        add_title(string, to == VALUE_TEXT_CAPITALIZE, out);
        return;
    }
}

struct slice value_text_to_case(struct value_room *room, struct slice string,
                                enum value_text_case to)
{
    // Paid before: looking characters up is the cost, not writing them.
    if (!value_step(room, 1 + string.size / 16)) {
        return slice_str("");
    }
    struct text text = value_text_open(room);
    value_text_add_case(string, to, &text);
    return value_text_take(room, &text);
}
