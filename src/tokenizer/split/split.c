// SPDX-License-Identifier: Apache-2.0
//
// The split_kinds, and the texts of split_patterns by which they are known.

#include "tokenizer/split/split.h"

#include "base/base.h"
#include "tokenizer/split/split_internal.h"

static uint32_t split_none(struct slice gap, size_t *at, uint32_t *ends, uint32_t capacity)
{
    if (*at == gap.size || capacity == 0) {
        return 0;
    }
    *at = gap.size;
    ends[0] = (uint32_t)gap.size;
    return 1;
}

// In o200k and tekken a slash behind a line feed continues the signs before both: [\r\n/]*.  In
// gpt2 a line feed that ends white space is a piece of its own; before a cut it would not be.
static const struct {
    const char *name; // NULL: not for files of ranks
    split_batch_fn *batch;
    struct split_cuts cuts;
} split_kinds[SPLIT_COUNT] = {
    [SPLIT_NONE] = {"none", split_none, {0}},
    [SPLIT_GPT2] = {"gpt2", split_gpt2, {.before_space = true}},
    [SPLIT_DIGITS_GPT2] = {NULL, split_digits_gpt2, {.before_space = true}},
    [SPLIT_LLAMA3] = {"llama3", split_llama3, {true, true, true}},
    [SPLIT_QWEN2] = {"qwen2", split_qwen2, {true, true, true}},
    [SPLIT_QWEN35] = {"qwen35", split_qwen35, {true, true, true}},
    [SPLIT_CL100K] = {NULL, split_cl100k, {true, true, true}},
    [SPLIT_CL100K_TIKTOKEN] = {"cl100k", split_cl100k_tiktoken, {true, true, true}},
    [SPLIT_O200K] = {"o200k", split_o200k, {true, false, true}},
    [SPLIT_TEKKEN] = {"tekken", split_tekken, {true, false, true}},
    [SPLIT_KIMI] = {"kimi", split_kimi, {true, true, true}},
    [SPLIT_DSV3] = {NULL, split_dsv3, {true, true, true}},
};

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER_WORD(but) "[^\\r\\n\\p{L}\\p{N}]?[" UPPER but "]*[" LOWER but "]+"
#define UPPER_WORD(but) "[^\\r\\n\\p{L}\\p{N}]?[" UPPER but "]+[" LOWER but "]*"
#define WHITE "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// Texts of one kind mean the same: possessive marks change nothing where the rest of the pattern
// cannot match the text they keep; \s*[\r\n] takes as much as \s*[\r\n]+; and \s++$ is \s+(?!\S)
// unless a rule about lines follows it.
static const struct {
    enum split_kind kind;
    const char *text;
} split_patterns[] = {
    {SPLIT_GPT2,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {SPLIT_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?[\\p{L}]+| ?[\\p{N}]+| ?[^\\s\\p{L}\\p{N}]+"
                 "|\\s+(?!\\S)|\\s+"},
    {SPLIT_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {SPLIT_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++"
                 "|\\s++$|\\s+(?!\\S)|\\s"},
    {SPLIT_LLAMA3, CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
                               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE},
    {SPLIT_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
                   "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {SPLIT_QWEN2, CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                              "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE},
    {SPLIT_QWEN35, CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                               "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" WHITE},
    {SPLIT_CL100K, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+"
                   "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
    {SPLIT_O200K, LOWER_WORD("") CONTRACTION "?|" UPPER_WORD("") CONTRACTION
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" WHITE},
    {SPLIT_TEKKEN,
     LOWER_WORD("") "|" UPPER_WORD("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" WHITE},
    {SPLIT_KIMI,
     "[\\p{Han}]+|" LOWER_WORD("&&[^\\p{Han}]") CONTRACTION "?|" UPPER_WORD("&&[^\\p{Han}]")
         CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE},
};

// The line ends in the last one are in the file as they are.
static const char *const dsv3_patterns[] = {
    "\\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

bool split_find(const struct slice *texts, uint32_t count, enum split_kind *out)
{
    for (size_t i = 0; count == 1 && i < ARRAY_COUNT(split_patterns); i++) {
        if (slice_is(texts[0], split_patterns[i].text)) {
            *out = split_patterns[i].kind;
            return true;
        }
    }
    if (count != ARRAY_COUNT(dsv3_patterns)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!slice_is(texts[i], dsv3_patterns[i])) {
            return false;
        }
    }
    *out = SPLIT_DSV3;
    return true;
}

bool split_find_name(struct slice name, enum split_kind *out)
{
    for (size_t i = 0; i < SPLIT_COUNT; i++) {
        if (split_kinds[i].name != NULL && slice_is(name, split_kinds[i].name)) {
            *out = (enum split_kind)i;
            return true;
        }
    }
    return false;
}

uint32_t split_pieces(enum split_kind kind, struct slice gap, size_t *at, uint32_t *ends,
                      uint32_t capacity)
{
    ASSERT(kind < SPLIT_COUNT && *at <= gap.size && gap.size <= UINT32_MAX);
    if (gap.size == 0) {
        return 0; // there may be no bytes to point at
    }
    uint32_t count = split_kinds[kind].batch(gap, at, ends, capacity);
    ASSERT(count <= capacity && *at <= gap.size);
    return count;
}

struct split_cuts split_cuts(enum split_kind kind)
{
    ASSERT(kind < SPLIT_COUNT);
    return split_kinds[kind].cuts;
}
