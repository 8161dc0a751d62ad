// SPDX-License-Identifier: Apache-2.0
//
// The pattern of GPT-2, alone and after digits are cut out:
//
//     contraction | ?\p{L}+ | ?\p{N}+ | ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+

#include "tokenizer/split/split_window_internal.h"

// Characters of the classes `stops` are gaps of their own: a text ends before them.
SPLIT_INLINE const uint8_t *gpt2_end(const uint8_t *at, const uint8_t *end, unsigned stops)
{
    struct split_char first = split_char_at(at, end);
    if ((first.classes & stops) != 0) {
        return at + first.size;
    }
    if (first.point == '\'') {
        unsigned size = split_contraction(at + 1, end, false);
        if (size > 0) {
            return at + 1 + size;
        }
    }
    const uint8_t *run = at;
    if (first.point == ' ' && at + 1 < end) {
        struct split_char second = split_char_at(at + 1, end);
        if ((second.classes & (CHAR_WS | stops)) == 0) {
            first = second;
            run = at + 1;
        }
    }
    run += first.size;
    if ((first.classes & CHAR_L) != 0) {
        return split_letters_end(run, end, CHAR_L);
    }
    if ((first.classes & CHAR_N) != 0) {
        return split_run_end(run, end, CHAR_N, 0);
    }
    if ((first.classes & CHAR_WS) == 0) {
        return split_other_end(run, end, CHAR_WS | CHAR_L | CHAR_N | stops);
    }
    const uint8_t *white_end = split_white_at(at, end).end;
    bool is_last = white_end == end || (split_char_at(white_end, end).classes & stops) != 0;
    return is_last ? white_end : split_white_but_one(at, white_end);
}

static const uint8_t *gpt2_piece_end(const uint8_t *at, const uint8_t *end)
{
    return gpt2_end(at, end, 0);
}

static const uint8_t *digits_piece_end(const uint8_t *at, const uint8_t *end)
{
    return gpt2_end(at, end, CHAR_RUST_NUMERIC);
}

uint32_t split_gpt2(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const struct split_ascii ascii = {
        .contractions = SPLIT_CONTRACTIONS_SMALL,
        .numbers = SPLIT_NUMBERS_WHOLE,
        .space_opens_numbers = true,
        .controls_are_signs = true,
    };
    return split_batch(gpt2_piece_end, &ascii, gap, at, ends, capacity);
}

uint32_t split_digits_gpt2(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const struct split_ascii ascii = {
        .contractions = SPLIT_CONTRACTIONS_SMALL,
        .numbers = SPLIT_NUMBERS_BY_1,
        .numbers_end_texts = true,
        .controls_are_signs = true,
    };
    return split_batch(digits_piece_end, &ascii, gap, at, ends, capacity);
}
