// SPDX-License-Identifier: Apache-2.0
//
// split_internal.h -- shared by the scanners: characters, runs of them, white space, contractions.
//
// A scanner is one function: from the first byte of a piece to the byte behind it, character by
// character.  It sees little of a text: most ASCII goes through split_window_internal.h.
#pragma once

#include "base/utf8.h"
#include "tokenizer/split/char_class.h"
#include "tokenizer/split/split.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

// The end of the piece that begins at `at`, which is below `end`, the end of the gap.
typedef const uint8_t *split_piece_fn(const uint8_t *at, const uint8_t *end);

// A whole batch, as split_pieces.
typedef uint32_t split_batch_fn(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity);
split_batch_fn split_gpt2, split_digits_gpt2, split_llama3, split_qwen2, split_qwen35, split_cl100k,
    split_cl100k_tiktoken, split_o200k, split_tekken, split_kimi, split_dsv3;

// Always inlined: the rules of a kind, which are arguments, are constants in each caller.
#define SPLIT_INLINE static inline __attribute__((always_inline))

struct split_char {
    unsigned classes; // 0 at the end of the gap
    unsigned size;
    uint32_t point;
};

SPLIT_INLINE struct split_char split_char_at(const uint8_t *at, const uint8_t *end)
{
    struct split_char character = {0};
    if (at >= end) {
        return character;
    }
    if (*at < 0x80) {
        return (struct split_char){
            .classes = char_class_table[0][*at], .size = 1, .point = *at}; // page 0 is the first
    }
    character.point = utf8_read(at, &character.size);
    character.classes = char_class(character.point);
    return character;
}

SPLIT_INLINE bool split_is_newline(uint32_t point)
{
    return point == '\n' || point == '\r';
}

SPLIT_INLINE bool split_is_letter(uint8_t byte)
{
    return (uint8_t)((byte | 0x20) - 'a') < 26;
}

// Which of 16 bytes are ASCII letters.
SPLIT_INLINE unsigned split_letters_at(const uint8_t *at)
{
#ifdef __SSE2__
    // As signed numbers, bytes from 0x80 up are below every letter.
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    return (unsigned)_mm_movemask_epi8(
        _mm_and_si128(_mm_cmpgt_epi8(folded, _mm_set1_epi8('a' - 1)),
                      _mm_cmplt_epi8(folded, _mm_set1_epi8('z' + 1))));
#else
    unsigned letters = 0;
    for (unsigned i = 0; i < 16; i++) {
        letters |= (unsigned)split_is_letter(at[i]) << i;
    }
    return letters;
#endif
}

// The first byte that is not an ASCII letter.
SPLIT_INLINE const uint8_t *split_ascii_letters_end(const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 16) {
        unsigned count = (unsigned)__builtin_ctz(~split_letters_at(at));
        at += count;
        if (count < 16) {
            return at;
        }
    }
    while (at < end && split_is_letter(*at)) {
        at++;
    }
    return at;
}

// The end of a run of characters that are of `classes` and not of `but_not`.
SPLIT_INLINE const uint8_t *split_run_end(const uint8_t *at, const uint8_t *end, unsigned classes,
                                          unsigned but_not)
{
    while (at < end) {
        struct split_char character = split_char_at(at, end);
        if ((character.classes & classes) == 0 || (character.classes & but_not) != 0) {
            break;
        }
        at += character.size;
    }
    return at;
}

// The end of a run of characters that are not of these classes.
SPLIT_INLINE const uint8_t *split_other_end(const uint8_t *at, const uint8_t *end, unsigned classes)
{
    while (at < end) {
        struct split_char character = split_char_at(at, end);
        if ((character.classes & classes) != 0) {
            break;
        }
        at += character.size;
    }
    return at;
}

// The end of a run of letters of these classes, which include all of ASCII's.
SPLIT_INLINE const uint8_t *split_letters_end(const uint8_t *at, const uint8_t *end,
                                              unsigned classes)
{
    for (;;) {
        at = split_ascii_letters_end(at, end);
        if (at == end || *at < 0x80) {
            return at;
        }
        do {
            struct split_char character = split_char_at(at, end);
            if ((character.classes & classes) == 0) {
                return at;
            }
            at += character.size;
        } while (at < end && *at >= 0x80);
    }
}

SPLIT_INLINE const uint8_t *split_newlines_end(const uint8_t *at, const uint8_t *end)
{
    while (at < end && split_is_newline(*at)) {
        at++;
    }
    return at;
}

// At most `most` characters of the classes.
SPLIT_INLINE const uint8_t *split_some_end(const uint8_t *at, const uint8_t *end, unsigned classes,
                                           unsigned most)
{
    for (unsigned i = 0; i < most && at < end; i++) {
        struct split_char character = split_char_at(at, end);
        if ((character.classes & classes) == 0) {
            break;
        }
        at += character.size;
    }
    return at;
}

struct split_white {
    const uint8_t *end;
    const uint8_t *line_end; // behind the last CR or LF; NULL: it has none
};

SPLIT_INLINE struct split_white split_white_at(const uint8_t *at, const uint8_t *end)
{
    struct split_white white = {0};
    while (at < end) {
        struct split_char character = split_char_at(at, end);
        if ((character.classes & CHAR_WS) == 0) {
            break;
        }
        at += character.size;
        if (split_is_newline(character.point)) {
            white.line_end = at;
        }
    }
    white.end = at;
    return white;
}

// A run before a visible character leaves its last character to that, unless it is the only one.
SPLIT_INLINE const uint8_t *split_white_but_one(const uint8_t *at, const uint8_t *white_end)
{
    const uint8_t *last = utf8_back(at, white_end);
    return last > at ? last : white_end;
}

// Bytes of the contraction behind an apostrophe, which is not counted; 0: not a contraction.
// Patterns that ignore case take U+017F, a long s, for an s.
SPLIT_INLINE unsigned split_contraction(const uint8_t *at, const uint8_t *end, bool ignores_case)
{
    if (at >= end) {
        return 0;
    }
    uint8_t first = ignores_case ? ascii_lower(at[0]) : at[0];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
        return 1;
    }
    if (end - at < 2) {
        return 0;
    }
    uint8_t second = ignores_case ? ascii_lower(at[1]) : at[1];
    bool is_two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                  (first == 'l' && second == 'l');
    bool is_long_s = ignores_case && at[0] == 0xc5 && at[1] == 0xbf;
    return is_two || is_long_s ? 2 : 0;
}
