// SPDX-License-Identifier: Apache-2.0
//
// split_twin.h -- the simple twin of tokenizer/split/split.h: the patterns themselves, matched by
// backtracking.
//
// A small engine for as much of the language as the known patterns use, which reads their texts as
// Oniguruma does: alternatives in order, greedy repetition, marks that make it possessive.  It
// tries every alternative; the scanners do not.
#pragma once

#include "base/base.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "test.h"
#include "tokenizer/split/char_class.h"
#include "tokenizer/split/split.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { twin_text_max = 2048, twin_items_max = 16, twin_branches_max = 16, twin_ranges_max = 48 };

struct twin_set {
    bool is_negated;
    unsigned classes;
    unsigned but_not; // classes
    uint32_t ranges[twin_ranges_max][2];
    uint32_t range_count;
};

struct twin_item {
    enum { TWIN_SET, TWIN_NOT_BEFORE, TWIN_AT_END, TWIN_CONTRACTION } type;
    struct twin_set set;
    size_t least;
    size_t most;
    bool is_possessive;
    bool ignores_case; // of a contraction
};

struct twin_branch {
    struct twin_item items[twin_items_max];
    size_t count;
};

struct twin_pattern {
    struct twin_branch branches[twin_branches_max];
    size_t count;
};

// The patterns of a kind, each applied to the pieces of the one before.
struct twin {
    enum split_kind kind;
    const char *texts[4];
    bool is_tiktoken;
    bool is_no_text;               // files say it in another way
    struct twin_pattern *patterns; // by twin_compile
    size_t count;
};

struct twin_text {
    uint32_t points[twin_text_max];
    uint32_t offsets[twin_text_max + 1];
    size_t count;
};

// Reading patterns.

static inline uint32_t twin_read_char(const char **at)
{
    unsigned size;
    uint32_t point = utf8_read((const uint8_t *)*at, &size);
    *at += size;
    return point;
}

static inline unsigned twin_read_class(const char **at)
{
    static const struct {
        const char *name;
        unsigned classes;
    } rows[] = {
        {"L}", CHAR_L},   {"N}", CHAR_N},   {"M}", CHAR_M},     {"P}", CHAR_P},
        {"S}", CHAR_S},   {"Lu}", CHAR_LU}, {"Ll}", CHAR_LL},   {"Lt}", CHAR_LT},
        {"Lm}", CHAR_LM}, {"Lo}", CHAR_LO}, {"Han}", CHAR_HAN}, {"Numeric}", CHAR_RUST_NUMERIC},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        size_t size = strlen(rows[i].name);
        if (strncmp(*at, rows[i].name, size) == 0) {
            *at += size;
            return rows[i].classes;
        }
    }
    ASSERT(false);
    return 0;
}

// One member of a set: \p{..}, \s, \S, an escaped or a plain character, a range.
static inline void twin_read_member(const char **at, struct twin_set *set)
{
    uint32_t first = twin_read_char(at);
    if (first == '\\') {
        char escaped = *(*at)++;
        if (escaped == 'p') {
            ++*at;
            set->classes |= twin_read_class(at);
            return;
        }
        if (escaped == 's') {
            set->classes |= CHAR_WS;
            return;
        }
        first = escaped == 'r' ? '\r' : escaped == 'n' ? '\n' : (uint32_t)escaped;
    }
    uint32_t last = first;
    if ((*at)[0] == '-' && (*at)[1] != ']') {
        ++*at;
        last = twin_read_char(at);
    }
    ASSERT(set->range_count < twin_ranges_max);
    set->ranges[set->range_count][0] = first;
    set->ranges[set->range_count++][1] = last;
}

static inline void twin_read_set(const char **at, struct twin_set *set)
{
    if (**at != '[') {
        twin_read_member(at, set);
        return;
    }
    ++*at;
    if (**at == '^') {
        set->is_negated = true;
        ++*at;
    }
    while (**at != ']') {
        if (strncmp(*at, "&&[^\\p{", 7) == 0) {
            *at += 7;
            set->but_not |= twin_read_class(at);
            ++*at;
        } else {
            twin_read_member(at, set);
        }
    }
    ++*at;
}

static inline void twin_read_times(const char **at, struct twin_item *item, bool is_tiktoken)
{
    item->least = 1;
    item->most = 1;
    if (**at == '{') { // {1,3} is the only one
        ASSERT(strncmp(*at, "{1,3}", 5) == 0);
        *at += 5;
        item->most = 3;
        if (**at == '+') {
            ++*at;
            item->is_possessive = is_tiktoken;
            item->most = is_tiktoken ? 3 : SIZE_MAX;
        }
        return;
    }
    if (**at != '?' && **at != '*' && **at != '+') {
        return;
    }
    char mark = *(*at)++;
    item->least = mark == '+' ? 1 : 0;
    item->most = mark == '?' ? 1 : SIZE_MAX;
    if (**at == '+') {
        ++*at;
        item->is_possessive = true;
    }
}

// Groups are there for contractions only.
static inline bool twin_read_contraction(const char **at, struct twin_item *item)
{
    static const char *const spellings[] = {"'(?:[sdmt]|ll|ve|re)", "'(?i:[sdmt]|ll|ve|re)",
                                            "(?i:'s|'t|'re|'ve|'m|'ll|'d)"};
    for (size_t i = 0; i < ARRAY_COUNT(spellings); i++) {
        size_t size = strlen(spellings[i]);
        if (strncmp(*at, spellings[i], size) == 0) {
            *at += size;
            item->type = TWIN_CONTRACTION;
            item->ignores_case = i > 0;
            return true;
        }
    }
    return false;
}

static inline struct twin_item twin_read_item(const char **at, bool is_tiktoken)
{
    struct twin_item item = {.type = TWIN_SET};
    if (twin_read_contraction(at, &item)) {
        twin_read_times(at, &item, is_tiktoken);
        return item;
    }
    if (strncmp(*at, "(?!\\S)", 6) == 0) {
        *at += 6;
        item.type = TWIN_NOT_BEFORE;
        item.set.classes = CHAR_WS;
        item.set.is_negated = true;
    } else if (**at == '$') {
        ++*at;
        item.type = TWIN_AT_END;
    } else {
        twin_read_set(at, &item.set);
    }
    twin_read_times(at, &item, is_tiktoken);
    return item;
}

static inline void twin_compile_text(const char *at, struct twin_pattern *pattern, bool is_tiktoken)
{
    struct twin_branch *branch = &pattern->branches[pattern->count++];
    while (*at != '\0' && *at != '|') {
        ASSERT(branch->count < twin_items_max);
        branch->items[branch->count++] = twin_read_item(&at, is_tiktoken);
    }
    if (*at == '|') {
        ASSERT(pattern->count < twin_branches_max);
        twin_compile_text(at + 1, pattern, is_tiktoken);
    }
}

static inline void twin_compile(struct twin *twin)
{
    for (twin->count = 0; twin->texts[twin->count] != NULL;) {
        twin->count++;
    }
    twin->patterns = calloc(twin->count, sizeof(*twin->patterns));
    ASSERT(twin->patterns != NULL);
    for (size_t i = 0; i < twin->count; i++) {
        twin_compile_text(twin->texts[i], &twin->patterns[i], twin->is_tiktoken);
    }
}

static inline void twin_free(struct twin *twin)
{
    free(twin->patterns);
    twin->patterns = NULL;
}

// Matching.  `end` is where the text ends for the pattern.

static inline bool twin_set_has(const struct twin_set *set, uint32_t point)
{
    bool is_in = (char_class(point) & set->classes) != 0;
    for (uint32_t i = 0; i < set->range_count; i++) {
        is_in |= point >= set->ranges[i][0] && point <= set->ranges[i][1];
    }
    return is_in != set->is_negated && (char_class(point) & set->but_not) == 0;
}

// How many characters, the apostrophe among them; 0: none.
static inline size_t twin_contraction(const struct twin_item *item, const struct twin_text *text,
                                      size_t at, size_t end)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (at == end || text->points[at] != '\'') {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_COUNT(endings); i++) {
        size_t size = 0;
        while (endings[i][size] != '\0' && at + 1 + size < end) {
            uint32_t point = text->points[at + 1 + size];
            if (item->ignores_case) {
                point = point == 0x17f ? 's' : point;
                point = point >= 'A' && point <= 'Z' ? point + 0x20 : point;
            }
            if (point != (uint8_t)endings[i][size]) {
                break;
            }
            size++;
        }
        if (endings[i][size] == '\0') {
            return 1 + size;
        }
    }
    return 0;
}

static const size_t twin_none = SIZE_MAX;

static inline size_t twin_match_items(const struct twin_branch *branch, size_t index,
                                      const struct twin_text *text, size_t at, size_t end)
{
    if (index == branch->count) {
        return at;
    }
    const struct twin_item *item = &branch->items[index];
    if (item->type == TWIN_NOT_BEFORE || item->type == TWIN_AT_END) {
        bool is_wrong =
            at < end && (item->type == TWIN_AT_END || twin_set_has(&item->set, text->points[at]));
        return is_wrong ? twin_none : twin_match_items(branch, index + 1, text, at, end);
    }
    size_t most = 0;
    size_t step = 1;
    if (item->type == TWIN_CONTRACTION) {
        step = twin_contraction(item, text, at, end);
        most = step > 0;
    } else {
        while (most < item->most && at + most < end &&
               twin_set_has(&item->set, text->points[at + most])) {
            most++;
        }
    }
    size_t least = item->is_possessive && most > item->least ? most : item->least;
    for (size_t times = most + 1; times-- > least;) {
        size_t stop = twin_match_items(branch, index + 1, text, at + times * step, end);
        if (stop != twin_none) {
            return stop;
        }
    }
    return twin_none;
}

// `at` when nothing matches here.
static inline size_t twin_match(const struct twin_pattern *pattern, const struct twin_text *text,
                                size_t at, size_t end)
{
    for (size_t i = 0; i < pattern->count; i++) {
        size_t stop = twin_match_items(&pattern->branches[i], 0, text, at, end);
        if (stop != twin_none) {
            return stop;
        }
    }
    return at;
}

struct twin_ends {
    uint32_t ends[twin_text_max];
    uint32_t count;
};

struct twin_range {
    size_t begin;
    size_t end;
};

// Cuts a piece with the patterns from `level` on.  Recursion as deep as there are patterns.
static inline void twin_cut(const struct twin *twin, size_t level, const struct twin_text *text,
                            struct twin_range range, struct twin_ends *out)
{
    if (range.begin == range.end) {
        return;
    }
    if (level == twin->count) {
        out->ends[out->count++] = text->offsets[range.end];
        return;
    }
    size_t done = range.begin;
    for (size_t at = range.begin; at < range.end;) {
        size_t stop = twin_match(&twin->patterns[level], text, at, range.end);
        if (stop == at) {
            at++;
            continue;
        }
        twin_cut(twin, level + 1, text, (struct twin_range){done, at}, out);
        twin_cut(twin, level + 1, text, (struct twin_range){at, stop}, out);
        at = stop;
        done = stop;
    }
    twin_cut(twin, level + 1, text, (struct twin_range){done, range.end}, out);
}

// Comparing.

// A copy of a text with nothing behind it: reading one byte too many is a crash.
struct twin_page {
    uint8_t *end;
};
static const size_t twin_page_size = 16384;

static inline struct twin_page twin_page_map(void)
{
    uint8_t *pages =
        mmap(NULL, 2 * twin_page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(pages != MAP_FAILED);
    ASSERT(mprotect(pages + twin_page_size, twin_page_size, PROT_NONE) == 0);
    return (struct twin_page){pages + twin_page_size};
}

static inline void twin_page_unmap(struct twin_page page)
{
    ASSERT(munmap(page.end - twin_page_size, 2 * twin_page_size) == 0);
}

static inline struct slice twin_encode(struct twin_text *text, struct twin_page page)
{
    uint8_t bytes[4 * twin_text_max];
    uint32_t size = 0;
    for (size_t i = 0; i < text->count; i++) {
        text->offsets[i] = size;
        size += utf8_write(text->points[i], bytes + size);
    }
    text->offsets[text->count] = size;
    memcpy(page.end - size, bytes, size);
    return slice_of(page.end - size, size);
}

static inline uint32_t twin_scan(enum split_kind kind, struct slice gap, uint32_t *ends,
                                 uint32_t batch)
{
    uint32_t count = 0;
    size_t at = 0;
    uint32_t more = 1;
    while (more > 0) {
        more = split_pieces(kind, gap, &at, ends + count, batch);
        count += more;
    }
    return count;
}

// Whether scanner and twin agree, and batches of any size.  Prints the text when they do not.
static inline bool twin_agrees(const struct twin *twin, struct twin_text *text,
                               struct twin_page page)
{
    static struct twin_ends expected;
    static uint32_t ends[twin_text_max + 1];
    struct slice gap = twin_encode(text, page);
    expected.count = 0;
    twin_cut(twin, 0, text, (struct twin_range){0, text->count}, &expected);
    const uint32_t batches[] = {256, 1};
    for (size_t i = 0; i < ARRAY_COUNT(batches); i++) {
        uint32_t count = twin_scan(twin->kind, gap, ends, batches[i]);
        if (count == expected.count && memcmp(ends, expected.ends, count * sizeof(*ends)) == 0) {
            continue;
        }
        printf("# kind %d, in batches of %u:", (int)twin->kind, batches[i]);
        for (size_t k = 0; k < text->count; k++) {
            printf(" %x", text->points[k]);
        }
        printf("\n");
        return false;
    }
    return true;
}

// Scanners look at 64 bytes of ASCII at once where there are so many: a text is put at the
// beginning of such a window, by what comes behind it, and at its end, by what comes before.
static inline bool twin_agrees_within(const struct twin *twin, const struct twin_text *text,
                                      size_t before, struct twin_page page)
{
    static struct twin_text whole;
    whole.count = 0;
    for (size_t i = 0; i < before; i++) {
        whole.points[whole.count++] = 'y';
    }
    for (size_t i = 0; i < text->count; i++) {
        whole.points[whole.count++] = text->points[i];
    }
    do {
        whole.points[whole.count] = whole.count % 32 == 0 ? ' ' : 'x';
        whole.count++;
    } while (whole.count < 70);
    return twin_agrees(twin, &whole, page);
}

static inline bool twin_agrees_anywhere(const struct twin *twin, struct twin_text *text,
                                        struct twin_page page)
{
    if (!twin_agrees(twin, text, page)) {
        return false;
    }
    static const size_t places[] = {0, 60, 61, 62, 63};
    bool agrees = true;
    for (size_t i = 0; i < ARRAY_COUNT(places) && text->count < 4; i++) {
        agrees = agrees && twin_agrees_within(twin, text, places[i], page);
    }
    return agrees;
}

// The characters that the rules tell apart: marks, cases, white space, contractions, east Asian.
static const char *const twin_alphabets[] = {
    "aB1! \n's/\u0301",
    "aA\u01c5\u02b0\u65e5\u03011! \t\n\u200b",
    "'strevlSL\u017f",
    " \t\n\r\v\xc2\x85\u00a0\u2003\u2028\u3000a1!\u200b",
    "'a\u30a2\u30fb\u309b\u3099\u3040 \n1\u3002\u9fa5\u2f00\u3007",
};

// All texts of up to `length` characters of an alphabet.
static inline bool twin_agrees_on_all(const struct twin *twin, const char *alphabet, size_t length)
{
    uint32_t letters[32];
    size_t letter_count = 0;
    while (*alphabet != '\0') {
        letters[letter_count++] = twin_read_char(&alphabet);
    }
    static struct twin_text text;
    struct twin_page page = twin_page_map();
    bool agrees = true;
    size_t total = 1;
    for (text.count = 1; text.count <= length && agrees; text.count++) {
        total *= letter_count;
        for (size_t i = 0; i < total && agrees; i++) {
            size_t rest = i;
            for (size_t k = 0; k < text.count; k++) {
                text.points[k] = letters[rest % letter_count];
                rest /= letter_count;
            }
            agrees = twin_agrees_anywhere(twin, &text, page);
        }
    }
    twin_page_unmap(page);
    return agrees;
}

static inline uint32_t twin_random_char(struct rng *rng)
{
    const char *alphabet = twin_alphabets[rng_below(rng, ARRAY_COUNT(twin_alphabets))];
    switch (rng_below(rng, 8)) {
    case 0:
        return 0x20 + rng_below(rng, 0x5f);
    case 1:
        return 0x80 + rng_below(rng, 0x3080);
    case 2: {
        uint32_t point = rng_below(rng, 0x110000 - 0x800);
        return point < 0xd800 ? point : point + 0x800;
    }
    case 3:
        return (uint8_t) "abcdefgh"[rng_below(rng, 8)];
    default:
        for (uint32_t skip = rng_below(rng, 10); skip > 0; skip--) {
            twin_read_char(&alphabet);
        }
        return twin_read_char(&alphabet);
    }
}

// Random texts, with runs; every second one is ASCII for the most part.
static inline bool twin_agrees_on_random(const struct twin *twin, uint32_t text_count)
{
    static struct twin_text text;
    struct rng rng = {.state = 5};
    struct twin_page page = twin_page_map();
    bool agrees = true;
    for (uint32_t i = 0; i < text_count && agrees; i++) {
        size_t size = 1 + rng_below(&rng, i % 4 == 0 ? 700 : 40);
        for (text.count = 0; text.count < size;) {
            uint32_t point = twin_random_char(&rng);
            if (i % 2 == 0 && point >= 0x80 && rng_below(&rng, 64) > 0) {
                point = rng_below(&rng, 0x80);
            }
            uint32_t times = rng_below(&rng, 4) > 0 ? 1 : 1 + rng_below(&rng, 20);
            for (; times > 0 && text.count < size; times--) {
                text.points[text.count++] = point;
            }
        }
        agrees = twin_agrees(twin, &text, page);
    }
    twin_page_unmap(page);
    return agrees;
}

static inline bool twin_is_known(const struct twin *twin)
{
    struct slice texts[ARRAY_COUNT(twin->texts)];
    for (size_t i = 0; i < twin->count; i++) {
        texts[i] = slice_str(twin->texts[i]);
    }
    enum split_kind kind = SPLIT_NONE;
    bool is_known = split_find(texts, (uint32_t)twin->count, &kind);
    return twin->is_no_text || (is_known && kind == twin->kind);
}

// All of it: the texts are known to be this kind, and mean what the scanner does.
static inline bool twin_agrees_everywhere(struct twin *twin)
{
    twin_compile(twin);
    bool agrees = twin_is_known(twin);
    for (size_t i = 0; i < ARRAY_COUNT(twin_alphabets) && agrees; i++) {
        agrees = twin_agrees_on_all(twin, twin_alphabets[i], 4);
    }
    agrees = agrees && twin_agrees_on_random(twin, 1000);
    twin_free(twin);
    return agrees;
}

// Claims.  The pieces of a text, with a bar between them, as a string that lives until the next
// call.
static inline const char *twin_pieces(enum split_kind kind, const char *text)
{
    static char line[512];
    uint32_t ends[128];
    size_t size = strlen(text);
    ASSERT(size < ARRAY_COUNT(ends));
    uint32_t count = twin_scan(kind, slice_of(text, size), ends, 1);
    size_t at = 0;
    char *out = line;
    for (uint32_t i = 0; i < count; i++) {
        for (; at < ends[i]; at++) {
            *out++ = text[at];
        }
        *out++ = '|';
    }
    out[count > 0 ? -1 : 0] = '\0';
    return line;
}

#define CHECK_PIECES(kind, text, expected) CHECK_STR(twin_pieces(kind, text), expected)
