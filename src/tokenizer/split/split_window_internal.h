// SPDX-License-Identifier: Apache-2.0
//
// split_window_internal.h -- the pieces of up to 64 bytes of ASCII at once.
//
// In ASCII, the kind of a character, those of its neighbours and the ends of runs decide where
// pieces begin.  So 64 bytes become one word of bits for each kind of character, a few shifts and
// masks turn those into a word of beginnings, and its bits are read off: no branch depends on the
// text.
//
//     text      f o o ( x ) ;  \n     r e t
//     letter    1 1 1 . 1 . .  .  . . 1 1 1
//     begins    1 . . 1 . 1 .  .  1 1 . . .
//
// A window begins where a piece does.  It ends early at a character that needs a closer look.  Its
// last piece, whose end may lie outside, is left to the next window.  A piece that fills its window
// goes the slow way (split_piece_fn), which knows every rule and is the only way on processors
// without SSE2.
#pragma once

#include "tokenizer/split/split_internal.h"

// The differences between kinds in ASCII.
struct split_ascii {
    enum {
        SPLIT_CONTRACTIONS_NONE,
        SPLIT_CONTRACTIONS_SMALL,   // alone, in lower case
        SPLIT_CONTRACTIONS_ALONE,   // in any case
        SPLIT_CONTRACTIONS_OF_WORDS // a part of the word before it
    } contractions;
    enum { SPLIT_NUMBERS_WHOLE, SPLIT_NUMBERS_BY_3, SPLIT_NUMBERS_BY_1 } numbers;
    bool splits_case;      // a capital behind a small letter begins a piece
    bool signs_open_words; // a word may begin with one sign or tab, not only with a space
    bool space_opens_numbers;
    bool numbers_end_texts; // white space before a number leaves no character to it
    bool has_lines;         // rules for line ends differ from those for white space
    bool has_slashes;       // slashes continue a run of signs and line ends
    bool controls_are_signs;
};

#ifdef __SSE2__

// Bit i is about byte i.
struct split_window {
    uint64_t letter;
    uint64_t upper;
    uint64_t digit;
    uint64_t space; // ' '
    uint64_t white;
    uint64_t newline;
    uint64_t apostrophe;
    uint64_t slash;
    uint64_t control;
};

SPLIT_INLINE uint64_t split_bits(__m128i bytes, unsigned place)
{
    return (uint64_t)(uint32_t)_mm_movemask_epi8(bytes) << place;
}

// The bytes from `first` to `last`, which are ASCII.
SPLIT_INLINE __m128i split_between(__m128i bytes, char first, char last)
{
    return _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8((char)(first - 1))),
                         _mm_cmplt_epi8(bytes, _mm_set1_epi8((char)(last + 1))));
}

SPLIT_INLINE struct split_window split_window_at(const uint8_t *at, const struct split_ascii *ascii)
{
    struct split_window window = {0};
    for (unsigned place = 0; place < 64; place += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + place));
        __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        __m128i space = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' '));
        __m128i white = _mm_or_si128(space, split_between(bytes, '\t', '\r'));
        window.letter |= split_bits(split_between(folded, 'a', 'z'), place);
        window.digit |= split_bits(split_between(bytes, '0', '9'), place);
        window.space |= split_bits(space, place);
        window.white |= split_bits(white, place);
        if (ascii->has_lines) {
            __m128i newline = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')),
                                           _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\r')));
            window.newline |= split_bits(newline, place);
        }
        if (ascii->contractions != SPLIT_CONTRACTIONS_NONE) {
            window.apostrophe |= split_bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\'')), place);
        }
        if (ascii->splits_case) {
            window.upper |= split_bits(split_between(bytes, 'A', 'Z'), place);
        }
        if (ascii->has_slashes) {
            window.slash |= split_bits(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('/')), place);
        }
        if (!ascii->controls_are_signs) {
            __m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8(' '));
            __m128i delete = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
            window.control |= split_bits(_mm_or_si128(_mm_andnot_si128(white, low), delete), place);
        }
    }
    return window;
}

// How many leading bytes are ASCII, of 64.
SPLIT_INLINE unsigned split_ascii_count(const uint8_t *at)
{
    uint64_t high = 0;
    for (unsigned place = 0; place < 64; place += 16) {
        high |= split_bits(_mm_loadu_si128((const __m128i *)(const void *)(at + place)), place);
    }
    return high == 0 ? 64 : (unsigned)__builtin_ctzll(high);
}

SPLIT_INLINE uint64_t split_below(unsigned count)
{
    return count >= 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
}

SPLIT_INLINE unsigned split_lower_of(unsigned count, uint64_t bits)
{
    unsigned lowest = bits == 0 ? 64 : (unsigned)__builtin_ctzll(bits);
    return lowest < count ? lowest : count;
}

// Where numbers begin, and where they go on in a new piece.
SPLIT_INLINE uint64_t split_number_begins(const struct split_window *window,
                                          const struct split_ascii *ascii)
{
    uint64_t digit = window->digit;
    uint64_t begins = digit & ~(digit << 1);
    if (ascii->numbers == SPLIT_NUMBERS_BY_1) {
        return digit;
    }
    if (ascii->numbers == SPLIT_NUMBERS_BY_3) {
        uint64_t fourth = digit & digit << 1 & digit << 2 & digit << 3;
        for (uint64_t next = begins << 3 & fourth; next != 0; next = next << 3 & fourth) {
            begins |= next;
        }
    }
    return ascii->space_opens_numbers ? begins & ~(window->space << 1) : begins;
}

// Contractions are rare enough to be looked at one by one.
SPLIT_INLINE uint64_t split_contracted(uint64_t begins, uint64_t candidates, uint64_t letter,
                                       struct slice rest, const struct split_ascii *ascii)
{
    bool is_of_word = ascii->contractions == SPLIT_CONTRACTIONS_OF_WORDS;
    unsigned done = 0; // behind a contraction, a second one does not follow a word
    while (candidates != 0) {
        unsigned place = (unsigned)__builtin_ctzll(candidates);
        candidates &= candidates - 1;
        unsigned size = split_contraction(rest.bytes + place + 1, rest.bytes + rest.size,
                                          ascii->contractions != SPLIT_CONTRACTIONS_SMALL);
        if (size == 0 || (is_of_word && place == done)) {
            continue;
        }
        unsigned first = is_of_word ? place : place + 1;
        done = place + 1 + size;
        begins &= ~(split_below(done) & ~split_below(first));
        begins |= letter & ~split_below(done) & split_below(done + 1);
    }
    return begins;
}

// Beginnings of words, numbers and runs of signs, with the character before that belongs to each.
SPLIT_INLINE uint64_t split_visible_begins(const struct split_window *window, uint64_t valid,
                                           struct slice rest, const struct split_ascii *ascii)
{
    uint64_t letter = window->letter;
    uint64_t sign = valid & ~(letter | window->digit | window->white);
    uint64_t sign_begins = sign & ~(sign << 1) & ~(window->space << 1);
    uint64_t opening = window->space;
    if (ascii->signs_open_words) {
        // A run of signs is one piece: only a single sign can open a word.
        opening = (window->white & ~window->newline) | sign_begins;
    }
    uint64_t begins = letter & ~(letter << 1) & ~(opening << 1);
    if (ascii->splits_case) {
        begins |= window->upper & (letter & ~window->upper) << 1;
    }
    begins |= sign_begins | split_number_begins(window, ascii);
    if (ascii->contractions == SPLIT_CONTRACTIONS_NONE) {
        return begins;
    }
    uint64_t candidates = window->apostrophe & letter >> 1;
    candidates &= ascii->contractions == SPLIT_CONTRACTIONS_OF_WORDS ? letter << 1 : sign_begins;
    return candidates == 0 ? begins : split_contracted(begins, candidates, letter, rest, ascii);
}

// Beginnings in white space: its first character, the first behind a line end, and the last one,
// which goes with the next piece or is one alone.
SPLIT_INLINE uint64_t split_white_begins(const struct split_window *window, uint64_t valid,
                                         const struct split_ascii *ascii)
{
    uint64_t white = window->white;
    uint64_t blank = white & ~window->newline;
    uint64_t sign = valid & ~(window->letter | window->digit | white);
    uint64_t first = white & ~(white << 1) & ~(window->newline & sign << 1);
    uint64_t last = blank & ~(white >> 1);
    if (ascii->numbers_end_texts) {
        last &= ~(window->digit >> 1);
    }
    return first | last | (blank & window->newline << 1);
}

// Where pieces begin, as bits, without the first piece; 0: no piece ends for certain.  Reads 64
// bytes.
SPLIT_INLINE uint64_t split_begins(const uint8_t *at, const uint8_t *end,
                                   const struct split_ascii *ascii)
{
    uint32_t count = split_ascii_count(at);
    if (count < 16) {
        return 0; // the slow way is faster
    }
    struct split_window window = split_window_at(at, ascii);
    count = split_lower_of(count, window.control);
    if (count == 0) {
        return 0;
    }
    if (ascii->contractions == SPLIT_CONTRACTIONS_OF_WORDS) {
        // Bytes behind the window decide whether an apostrophe at its end belongs to the word
        // before.
        count -= (uint32_t)(window.apostrophe >> (count - 1) & 1);
    }
    uint64_t valid = split_below(count);
    uint64_t begins =
        split_visible_begins(&window, valid, slice_of(at, (size_t)(end - at)), ascii) |
        split_white_begins(&window, valid, ascii);
    if (ascii->has_lines) {
        // Blanks between two line ends belong to both, unless the first belongs to a sign.  Adding
        // the first bit of a run to it carries to the bit behind it.
        uint64_t blank = window.white & ~window.newline;
        uint64_t behind = (blank + (blank & window.newline << 1)) & ~blank;
        count = split_lower_of(count, behind & window.newline);
    }
    if (ascii->has_slashes) {
        count = split_lower_of(count, window.slash & window.newline << 1);
    }
    // Of white space that reaches the end of the window only the beginning is certain.
    valid = split_below(count);
    uint64_t visible = valid & ~window.white;
    unsigned known = visible == 0 ? 0 : 64 - (unsigned)__builtin_clzll(visible);
    uint64_t certain = split_below(known) | (window.white & ~(window.white << 1));
    return begins & valid & certain & ~(uint64_t)1;
}

#else

SPLIT_INLINE uint64_t split_begins(const uint8_t *at, const uint8_t *end,
                                   const struct split_ascii *ascii)
{
    (void)at, (void)end, (void)ascii;
    return 0;
}

#endif

// A whole batch, as split_pieces.
SPLIT_INLINE uint32_t split_batch(split_piece_fn *piece_end, const struct split_ascii *ascii,
                                  struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const uint8_t *end = gap.bytes + gap.size;
    const uint8_t *piece = gap.bytes + *at;
    uint32_t count = 0;
    while (count < capacity && piece < end) {
        uint64_t begins = end - piece < 64 ? 0 : split_begins(piece, end, ascii);
        uint32_t window = (uint32_t)(piece - gap.bytes);
        if (begins == 0) {
            piece = piece_end(piece, end);
            ends[count++] = (uint32_t)(piece - gap.bytes);
            continue;
        }
        for (; begins != 0 && count < capacity; begins &= begins - 1) {
            ends[count++] = window + (uint32_t)__builtin_ctzll(begins);
        }
        piece = gap.bytes + ends[count - 1];
    }
    *at = (size_t)(piece - gap.bytes);
    return count;
}

// The rules of the patterns of cl100k, o200k and their relatives.
struct split_rules {
    unsigned letters; // classes
    unsigned digits;  // that go together at most
    unsigned apart;   // classes of characters that are in words only with each other
    int contractions; // of struct split_ascii
    bool splits_case;
    bool has_slashes;      // signs take slashes behind them, as they take line ends
    bool keeps_last_white; // white space at the end of the text is one piece, line ends or not
};

// Pieces that are not words: numbers, signs with the line ends behind them, white space.
SPLIT_INLINE const uint8_t *split_rest_end(const uint8_t *at, const uint8_t *end,
                                           const struct split_rules *rules)
{
    struct split_char first = split_char_at(at, end);
    const uint8_t *next = at + first.size;
    unsigned not_sign = CHAR_WS | CHAR_N | rules->letters;
    if ((first.classes & CHAR_N) != 0) {
        return split_some_end(next, end, CHAR_N, rules->digits - 1);
    }
    if ((first.classes & not_sign) == 0 ||
        (first.point == ' ' && next < end && (split_char_at(next, end).classes & not_sign) == 0)) {
        next = split_other_end(next, end, not_sign);
        while (next < end && (split_is_newline(*next) || (rules->has_slashes && *next == '/'))) {
            next++;
        }
        return next;
    }
    struct split_white white = split_white_at(at, end);
    if (white.end == end && (rules->keeps_last_white || white.line_end == NULL)) {
        return end;
    }
    return white.line_end != NULL ? white.line_end : split_white_but_one(at, white.end);
}

SPLIT_INLINE uint32_t split_batch_by(const struct split_rules *rules, split_piece_fn *piece_end,
                                     struct slice gap, size_t *at, uint32_t *ends,
                                     uint32_t capacity)
{
    const struct split_ascii ascii = {
        .contractions = rules->contractions,
        .numbers = rules->digits == 1   ? SPLIT_NUMBERS_BY_1
                   : rules->digits == 3 ? SPLIT_NUMBERS_BY_3
                                        : SPLIT_NUMBERS_WHOLE,
        .splits_case = rules->splits_case,
        .signs_open_words = true,
        .has_lines = true,
        .has_slashes = rules->has_slashes,
        .controls_are_signs = true,
    };
    return split_batch(piece_end, &ascii, gap, at, ends, capacity);
}

// One copy of the code for each kind, in which its rules, `name`, are constants.
#define SPLIT_KIND(name, piece_end)                                                                \
    static const uint8_t *name##_piece_end(const uint8_t *at, const uint8_t *end)                  \
    {                                                                                              \
        return piece_end(at, end, &(name));                                                        \
    }                                                                                              \
                                                                                                   \
    uint32_t split_##name(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)         \
    {                                                                                              \
        return split_batch_by(&(name), name##_piece_end, gap, at, ends, capacity);                 \
    }
