// SPDX-License-Identifier: Apache-2.0
//
// The patterns of OpenAI's o200k, of Mistral's tekken and of Kimi, which cut where case says so:
//
//     [^\r\n\p{L}\p{N}]? U* W+ contraction? | [^\r\n\p{L}\p{N}]? U+ W* contraction? | \p{N}{1,3} |
//         ?[^\s\p{L}\p{N}]+[\r\n/]* | white space
//
// with upper case and what has none in U, lower case and what has none in W.  tekken has no contractions
// and single digits; kimi has [\p{Han}]+ first, no Han in U and W, and no slash.

#include "tokenizer/split/split_window_internal.h"

enum {
    CASELESS = CHAR_LM | CHAR_LO | CHAR_M,
    UPPER = CHAR_LU | CHAR_LT | CASELESS,
    LOWER = CHAR_LL | CASELESS,
};

struct rules {
    bool has_contractions;
    bool has_slash;
    unsigned digits; // that go together at most
    unsigned apart;  // classes that are neither U nor W
};

SPLIT_INLINE bool is_one_of(struct split_char character, unsigned classes, unsigned apart)
{
    return (character.classes & classes) != 0 && (character.classes & apart) == 0;
}

// What U* and U+ take, and what is left of it for a W+ that has nothing behind it.
struct upper_run {
    const uint8_t *end;
    const uint8_t *caseless_end; // behind the last that is in W too; NULL: there is none
};

SPLIT_INLINE struct upper_run upper_run_at(const uint8_t *at, const uint8_t *end, unsigned apart)
{
    struct upper_run run = {0};
    for (;;) {
        struct split_char character = split_char_at(at, end);
        if (!is_one_of(character, UPPER, apart)) {
            run.end = at;
            return run;
        }
        at += character.size;
        if ((character.classes & CASELESS) != 0) {
            run.caseless_end = at;
        }
    }
}

// U* W+; NULL when it does not match.
SPLIT_INLINE const uint8_t *lower_word_end(struct upper_run run, const uint8_t *end, unsigned apart)
{
    const uint8_t *stop = split_run_end(run.end, end, LOWER, apart);
    return stop > run.end ? stop : run.caseless_end;
}

// In the order in which a regular expression tries: first U* W+ and first with the character before it.
// NULL when there is no word here.
SPLIT_INLINE const uint8_t *word_end(const uint8_t *at, const uint8_t *end, unsigned apart)
{
    struct split_char first = split_char_at(at, end);
    const uint8_t *next = at + first.size;
    bool may_precede = (first.classes & (CHAR_L | CHAR_N)) == 0 && !split_is_newline(first.point);

    struct upper_run with = {.end = next};
    const uint8_t *stop = NULL;
    if (may_precede) {
        with = upper_run_at(next, end, apart);
        stop = lower_word_end(with, end, apart);
    }
    if (stop != NULL) {
        return stop;
    }
    struct upper_run without = upper_run_at(at, end, apart);
    stop = lower_word_end(without, end, apart);
    if (stop != NULL) {
        return stop;
    }
    if (with.end > next) {
        return with.end;
    }
    return without.end > at ? without.end : NULL;
}

SPLIT_INLINE const uint8_t *with_contraction(const uint8_t *at, const uint8_t *end,
                                             bool has_contractions)
{
    if (!has_contractions || at == end || *at != '\'') {
        return at;
    }
    unsigned size = split_contraction(at + 1, end, true);
    return size > 0 ? at + 1 + size : at;
}

SPLIT_INLINE const uint8_t *piece_end(const uint8_t *at, const uint8_t *end,
                                      const struct rules *rules)
{
    struct split_char first = split_char_at(at, end);
    if ((first.classes & rules->apart) != 0) {
        return split_run_end(at, end, rules->apart, 0);
    }
    const uint8_t *word = word_end(at, end, rules->apart);
    if (word != NULL) {
        return with_contraction(word, end, rules->has_contractions);
    }
    const uint8_t *next = at + first.size;
    if ((first.classes & CHAR_N) != 0) {
        return split_some_end(next, end, CHAR_N, rules->digits - 1);
    }
    const unsigned not_other = CHAR_WS | CHAR_L | CHAR_N;
    if ((first.classes & not_other) == 0 ||
        (first.point == ' ' && next < end && (split_char_at(next, end).classes & not_other) == 0)) {
        next = split_other_end(next, end, not_other);
        while (next < end && (split_is_newline(*next) || (rules->has_slash && *next == '/'))) {
            next++;
        }
        return next;
    }
    return split_white_end(at, end);
}

SPLIT_INLINE uint32_t batch(const struct rules *rules, split_piece_fn *any_piece_end,
                            struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    const struct split_ascii ascii = {
        .contractions =
            rules->has_contractions ? SPLIT_CONTRACTIONS_OF_WORDS : SPLIT_CONTRACTIONS_NONE,
        .numbers = rules->digits == 1 ? SPLIT_NUMBERS_BY_1 : SPLIT_NUMBERS_BY_3,
        .splits_case = true,
        .signs_open_words = true,
        .has_lines = true,
        .has_slashes = rules->has_slash,
        .controls_are_signs = true,
    };
    return split_batch(any_piece_end, &ascii, gap, at, ends, capacity);
}

static const struct rules o200k = {.has_contractions = true, .has_slash = true, .digits = 3};
static const struct rules tekken = {.has_slash = true, .digits = 1};
static const struct rules kimi = {.has_contractions = true, .digits = 3, .apart = CHAR_HAN};

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

KIND(o200k)
KIND(tekken)
KIND(kimi)
