// SPDX-License-Identifier: Apache-2.0
//
// The patterns of OpenAI's o200k, of Mistral's tekken and of Kimi, which cut where case says so:
//
//     [^\r\n\p{L}\p{N}]? U* W+ contraction? | [^\r\n\p{L}\p{N}]? U+ W* contraction? | \p{N}{1,3} |
//         ?[^\s\p{L}\p{N}]+[\r\n/]* | white space
//
// U has upper case and caseless characters, W lower case and caseless ones.  tekken has no
// contractions and single digits; kimi has [\p{Han}]+ first, no Han in U and W, and no slash.

#include "tokenizer/split/split_window_internal.h"

enum {
    CASELESS = CHAR_LM | CHAR_LO | CHAR_M,
    UPPER = CHAR_LU | CHAR_LT | CASELESS,
    LOWER = CHAR_LL | CASELESS,
};

SPLIT_INLINE bool is_of_class(struct split_char character, unsigned classes, unsigned apart)
{
    return (character.classes & classes) != 0 && (character.classes & apart) == 0;
}

// The characters that U* and U+ take, and how many of them W+ can take instead.
struct upper_run {
    const uint8_t *end;
    const uint8_t *caseless_end; // behind the last that is in W too; NULL: no character is
};

SPLIT_INLINE struct upper_run upper_run_at(const uint8_t *at, const uint8_t *end, unsigned apart)
{
    struct upper_run run = {0};
    for (;;) {
        struct split_char character = split_char_at(at, end);
        if (!is_of_class(character, UPPER, apart)) {
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

// In the order of a regular expression: U* W+ before U+ W*, each first with the character before
// it.  NULL when no word begins here.
SPLIT_INLINE const uint8_t *cased_word_end(const uint8_t *at, const uint8_t *end, unsigned apart)
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

SPLIT_INLINE const uint8_t *o200k_end(const uint8_t *at, const uint8_t *end,
                                      const struct split_rules *rules)
{
    struct split_char first = split_char_at(at, end);
    if ((first.classes & rules->apart) != 0) {
        return split_run_end(at, end, rules->apart, 0);
    }
    const uint8_t *word = cased_word_end(at, end, rules->apart);
    if (word == NULL) {
        return split_rest_end(at, end, rules);
    }
    return with_contraction(word, end, rules->contractions != SPLIT_CONTRACTIONS_NONE);
}

static const struct split_rules o200k = {.letters = CHAR_L,
                                         .digits = 3,
                                         .contractions = SPLIT_CONTRACTIONS_OF_WORDS,
                                         .splits_case = true,
                                         .has_slashes = true};
static const struct split_rules tekken = {
    .letters = CHAR_L, .digits = 1, .splits_case = true, .has_slashes = true};
static const struct split_rules kimi = {.letters = CHAR_L,
                                        .digits = 3,
                                        .apart = CHAR_HAN,
                                        .contractions = SPLIT_CONTRACTIONS_OF_WORDS,
                                        .splits_case = true};

SPLIT_KIND(o200k, o200k_end)
SPLIT_KIND(tekken, o200k_end)
SPLIT_KIND(kimi, o200k_end)
