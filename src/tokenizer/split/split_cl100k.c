// SPDX-License-Identifier: Apache-2.0
//
// The patterns of Llama 3, of Qwen and of OpenAI's cl100k:
//
//     contraction | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n]* | white space
//
// They differ in how many digits go together, in whether marks are letters, and in white space at the end.

#include "tokenizer/split/split_window_internal.h"

struct rules {
    unsigned letters; // classes
    unsigned digits;  // that go together at most
    // White space that the text ends with is one piece, line ends or not.
    bool keeps_last_white;
};

// Everything but what begins with a letter or ends with the letters of a word.
SPLIT_INLINE const uint8_t *rest_end(const uint8_t *at, const uint8_t *end,
                                     const struct rules *rules)
{
    struct split_char first = split_char_at(at, end);
    const uint8_t *second_at = at + first.size;
    unsigned not_other = CHAR_WS | CHAR_N | rules->letters;
    if ((first.classes & CHAR_N) != 0) {
        return split_some_end(second_at, end, CHAR_N, rules->digits - 1);
    }
    bool is_other = (first.classes & not_other) == 0;
    if (is_other || (first.point == ' ' && second_at < end &&
                     (split_char_at(second_at, end).classes & not_other) == 0)) {
        return split_newlines_end(split_other_end(second_at, end, not_other), end);
    }
    struct split_white white = split_white_at(at, end);
    if (white.end == end && (rules->keeps_last_white || white.line_end == NULL)) {
        return end;
    }
    return white.line_end != NULL ? white.line_end : split_white_but_one(at, white.end);
}

SPLIT_INLINE const uint8_t *piece_end(const uint8_t *at, const uint8_t *end,
                                      const struct rules *rules)
{
    struct split_char first = split_char_at(at, end);
    if (first.point == '\'') {
        unsigned size = split_contraction(at + 1, end, true);
        if (size > 0) {
            return at + 1 + size;
        }
    }
    if ((first.classes & rules->letters) != 0) {
        return split_letters_end(at + first.size, end, rules->letters);
    }
    struct split_char second = split_char_at(at + first.size, end);
    if ((second.classes & rules->letters) != 0 && (first.classes & CHAR_N) == 0 &&
        !split_is_newline(first.point)) {
        return split_letters_end(at + first.size + second.size, end, rules->letters);
    }
    return rest_end(at, end, rules);
}

SPLIT_INLINE uint32_t batch(const struct rules *rules, split_piece_fn *any_piece_end,
                            struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const struct split_ascii ascii = {
        .contractions = SPLIT_CONTRACTIONS_ALONE,
        .numbers = rules->digits == 1   ? SPLIT_NUMBERS_BY_1
                   : rules->digits == 3 ? SPLIT_NUMBERS_BY_3
                                        : SPLIT_NUMBERS_WHOLE,
        .signs_open_words = true,
        .has_lines = true,
        .controls_are_signs = true,
    };
    return split_batch(any_piece_end, &ascii, gap, at, ends, capacity);
}

static const struct rules llama3 = {.letters = CHAR_L, .digits = 3};
static const struct rules qwen2 = {.letters = CHAR_L, .digits = 1};
static const struct rules qwen35 = {.letters = CHAR_L | CHAR_M, .digits = 1};
// Behind {1,3} the mark + does not make it possessive in Oniguruma: it repeats the group.
static const struct rules cl100k = {
    .letters = CHAR_L, .digits = UINT32_MAX, .keeps_last_white = true};
static const struct rules cl100k_tiktoken = {
    .letters = CHAR_L, .digits = 3, .keeps_last_white = true};

// One copy of the code for each, in which the rules are constants.
#define KIND(name)                                                                                 \
    static const uint8_t *name##_piece_end(const uint8_t *at, const uint8_t *end)                  \
    {                                                                                              \
        return piece_end(at, end, &(name));                                                        \
    }                                                                                              \
                                                                                                   \
    uint32_t split_##name(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)         \
    {                                                                                              \
        return batch(&(name), name##_piece_end, gap, at, ends, capacity);                          \
    }

KIND(llama3)
KIND(qwen2)
KIND(qwen35)
KIND(cl100k)
KIND(cl100k_tiktoken)
