// SPDX-License-Identifier: Apache-2.0
//
// The patterns of Llama 3, of Qwen and of OpenAI's cl100k:
//
//     contraction | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N}{1,3} | ?[^\s\p{L}\p{N}]+[\r\n]* | white space
//
// They differ in how many digits go together, in whether marks are letters, and in white space at
// the end.

#include "tokenizer/split/split_window_internal.h"

SPLIT_INLINE const uint8_t *cl100k_end(const uint8_t *at, const uint8_t *end,
                                       const struct split_rules *rules)
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
    return split_rest_end(at, end, rules);
}

static const struct split_rules llama3 = {
    .letters = CHAR_L, .digits = 3, .contractions = SPLIT_CONTRACTIONS_ALONE};
static const struct split_rules qwen2 = {
    .letters = CHAR_L, .digits = 1, .contractions = SPLIT_CONTRACTIONS_ALONE};
static const struct split_rules qwen35 = {
    .letters = CHAR_L | CHAR_M, .digits = 1, .contractions = SPLIT_CONTRACTIONS_ALONE};
// Behind {1,3} the mark + does not make it possessive in Oniguruma: it repeats the group.
static const struct split_rules cl100k = {.letters = CHAR_L,
                                          .digits = UINT32_MAX,
                                          .contractions = SPLIT_CONTRACTIONS_ALONE,
                                          .keeps_last_white = true};
static const struct split_rules cl100k_tiktoken = {.letters = CHAR_L,
                                                   .digits = 3,
                                                   .contractions = SPLIT_CONTRACTIONS_ALONE,
                                                   .keeps_last_white = true};

SPLIT_KIND(llama3, cl100k_end)
SPLIT_KIND(qwen2, cl100k_end)
SPLIT_KIND(qwen35, cl100k_end)
SPLIT_KIND(cl100k, cl100k_end)
SPLIT_KIND(cl100k_tiktoken, cl100k_end)
