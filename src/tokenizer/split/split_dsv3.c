// SPDX-License-Identifier: Apache-2.0
//
// The three patterns of DeepSeek V3, each on the pieces of the one before:
//
//     \p{N}{1,3}
//     [\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+
//     [ASCII punctuation][A-Za-z]+ | [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+ | ?[\p{P}\p{S}]+[\r\n]* |
//         white space
//
// The first two cut the gap into stretches of three kinds: numbers, Chinese and Japanese, all
// others.  The third works within a stretch: a character of another kind ends it, as the end of the
// gap does.  It does not match everywhere: text between two matches is a piece too.

#include "tokenizer/split/split_window_internal.h"

enum { WORD = CHAR_L | CHAR_M, MARK = CHAR_P | CHAR_S };

static inline bool is_east_asian(uint32_t point)
{
    return point - 0x4e00 <= 0x9fa5 - 0x4e00 || point - 0x3040 <= 0x30ff - 0x3040;
}

// The character at `at`; empty when it is of another stretch.
SPLIT_INLINE struct split_char stretch_char_at(const uint8_t *at, const uint8_t *end,
                                               bool east_asian)
{
    struct split_char character = split_char_at(at, end);
    bool is_within =
        is_east_asian(character.point) == east_asian && (character.classes & CHAR_N) == 0;
    return is_within ? character : (struct split_char){0};
}

SPLIT_INLINE const uint8_t *stretch_run_end(const uint8_t *at, const uint8_t *end, bool east_asian,
                                            unsigned classes)
{
    for (;;) {
        struct split_char character = stretch_char_at(at, end, east_asian);
        if ((character.classes & classes) == 0) {
            return at;
        }
        at += character.size;
    }
}

SPLIT_INLINE const uint8_t *stretch_word_end(const uint8_t *at, const uint8_t *end, bool east_asian)
{
    for (;;) {
        at = east_asian ? at : split_ascii_letters_end(at, end);
        if (at == end || *at < 0x80) {
            return at;
        }
        const uint8_t *stop = stretch_run_end(at, end, east_asian, WORD);
        if (stop == at) {
            return at;
        }
        at = stop;
    }
}

// White space is not east Asian.
static const uint8_t *stretch_white_end(const uint8_t *at, const uint8_t *end)
{
    struct split_white white = split_white_at(at, end);
    if (white.line_end != NULL) {
        return white.line_end;
    }
    bool is_last = stretch_char_at(white.end, end, false).size == 0;
    return is_last ? white.end : split_white_but_one(at, white.end);
}

// Characters that no rule matches, up to one that a rule does, be it as the one before a word.
SPLIT_INLINE const uint8_t *unmatched_end(const uint8_t *at, const uint8_t *end, bool east_asian)
{
    for (;;) {
        struct split_char first = stretch_char_at(at, end, east_asian);
        if (first.size == 0 || (first.classes & (WORD | MARK | CHAR_WS)) != 0 ||
            (stretch_char_at(at + first.size, end, east_asian).classes & WORD) != 0) {
            return at;
        }
        at += first.size;
    }
}

SPLIT_INLINE const uint8_t *stretch_piece_end(const uint8_t *at, const uint8_t *end,
                                              bool east_asian)
{
    struct split_char first = stretch_char_at(at, end, east_asian);
    const uint8_t *next = at + first.size;
    bool is_ascii_mark = first.point < 0x80 && (first.classes & MARK) != 0;
    if (is_ascii_mark && next < end && split_is_letter(*next)) {
        return split_ascii_letters_end(next, end);
    }
    if ((first.classes & WORD) != 0) {
        return stretch_word_end(next, end, east_asian);
    }
    struct split_char second = stretch_char_at(next, end, east_asian);
    if ((second.classes & WORD) != 0 && (first.classes & MARK) == 0 &&
        !split_is_newline(first.point)) {
        return stretch_word_end(next + second.size, end, east_asian);
    }
    if ((first.classes & MARK) != 0 || (first.point == ' ' && (second.classes & MARK) != 0)) {
        next = stretch_run_end(next, end, east_asian, MARK);
        return east_asian ? next : split_newlines_end(next, end); // lines end in other stretches
    }
    if ((first.classes & CHAR_WS) != 0) {
        return stretch_white_end(at, end);
    }
    return unmatched_end(at + first.size, end, east_asian);
}

static const uint8_t *dsv3_piece_end(const uint8_t *at, const uint8_t *end)
{
    struct split_char first = split_char_at(at, end);
    if ((first.classes & CHAR_N) != 0) {
        return split_some_end(at + first.size, end, CHAR_N, 2);
    }
    return is_east_asian(first.point) ? stretch_piece_end(at, end, true)
                                      : stretch_piece_end(at, end, false);
}

uint32_t split_dsv3(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const struct split_ascii ascii = {
        .numbers = SPLIT_NUMBERS_BY_3,
        .signs_open_words = true,
        .numbers_end_texts = true,
        .has_lines = true,
    };
    return split_batch(dsv3_piece_end, &ascii, gap, at, ends, capacity);
}
