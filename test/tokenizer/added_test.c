// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/added.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "test.h"
#include "tokenizer/split/char_class.h"

#include <stdio.h>

enum { token_max = 32, text_max = 400, shown_max = 16 * text_max };

// The matches as text: gaps in brackets, ids between them.
struct shown {
    char text[shown_max];
    size_t size;
};

static void show_gap(struct shown *shown, struct slice gap)
{
    if (gap.size > 0) {
        shown->size += (size_t)snprintf(shown->text + shown->size, shown_max - shown->size,
                                        "[%.*s]", (int)gap.size, (const char *)gap.bytes);
    }
}

static void show_id(struct shown *shown, uint32_t id)
{
    shown->size += (size_t)snprintf(shown->text + shown->size, shown_max - shown->size, "%u ", id);
}

static void find_all(const struct added *added, struct slice text, struct shown *shown)
{
    *shown = (struct shown){0};
    struct added_walk walk = added_begin(added, text);
    struct added_match match;
    while (added_next(&walk, &match)) {
        show_gap(shown, match.before);
        show_id(shown, match.id);
    }
    show_gap(shown, match.before);
}

static const char *found(const struct added_token *tokens, uint32_t count, const char *text)
{
    static struct shown shown;
    struct added *added = added_create(tokens, count);
    if (added == NULL) {
        return "(no memory)";
    }
    find_all(added, slice_str(text), &shown);
    added_destroy(&added);
    return shown.text;
}

#define FOUND(tokens, text) found(tokens, ARRAY_COUNT(tokens), text)
#define TOKEN(string) .text = {(const uint8_t *)(string), sizeof(string) - 1}

TEST(without_tokens_all_is_gap)
{
    CHECK_STR(found(NULL, 0, "<s> text"), "[<s> text]");
    CHECK_STR(found(NULL, 0, ""), "");
}

TEST(the_first_match_counts_and_of_those_the_longest)
{
    const struct added_token tokens[] = {
        {TOKEN("<s>"), .id = 1},       {TOKEN("<"), .id = 2},  {TOKEN("<s><s>"), .id = 3},
        {TOKEN("s><s><s>x"), .id = 4}, {TOKEN("ab"), .id = 5}, {TOKEN("abcd"), .id = 6},
        {TOKEN("bcde"), .id = 7},
    };
    CHECK_STR(FOUND(tokens, "x<s>y"), "[x]1 [y]");
    CHECK_STR(FOUND(tokens, "<s><s><s>"), "3 1 ");
    CHECK_STR(FOUND(tokens, "<<s"), "2 2 [s]");
    CHECK_STR(FOUND(tokens, "abcde"), "6 [e]");
    CHECK_STR(FOUND(tokens, "abc"), "5 [c]"); // went further and came back
    CHECK_STR(FOUND(tokens, "abcbcde"), "5 [c]7 ");
}

TEST(runs_are_taken_from_the_left)
{
    const struct added_token tokens[] = {
        {TOKEN("\n"), .id = 1}, {TOKEN("\n\n"), .id = 2}, {TOKEN("\n\n\n"), .id = 3}};
    CHECK_STR(FOUND(tokens, "a\n\n\n\n\nb"), "[a]3 2 [b]");
    CHECK_STR(FOUND(tokens, "\n\n\n\n"), "3 1 ");
}

TEST(a_single_word_is_not_found_within_a_word)
{
    const struct added_token tokens[] = {{TOKEN("ab"), .id = 1, .single_word = true},
                                         {TOKEN("b"), .id = 2}};
    CHECK_STR(FOUND(tokens, "ab"), "1 ");
    CHECK_STR(FOUND(tokens, "-ab ab!"), "[-]1 [ ]1 [!]");
    // Rejected, and consumed: the b in it is not found.
    CHECK_STR(FOUND(tokens, "xab abx ab"), "[xab abx ]1 ");
    CHECK_STR(FOUND(tokens, "abab"), "[abab]");
    CHECK_STR(FOUND(tokens, "\u00e9ab ab\u0301 ab\u4e2d ab1 ab_ ab\u2014"),
              "[\u00e9ab ab\u0301 ab\u4e2d ab1 ab_ ]1 [\u2014]");
}

TEST(white_space_on_the_left_is_taken_up_to_the_last_match)
{
    const struct added_token tokens[] = {{TOKEN("<m>"), .id = 1, .lstrip = true},
                                         {TOKEN("  "), .id = 2}};
    CHECK_STR(FOUND(tokens, "a \t\u3000\u00a0<m> b"), "[a]1 [ b]");
    CHECK_STR(FOUND(tokens, "  <m>"), "2 1 ");
    CHECK_STR(FOUND(tokens, "   <m>"), "2 1 ");
    CHECK_STR(FOUND(tokens, " <m> <m>"), "1 1 ");
    CHECK_STR(FOUND(tokens, "a\u200b<m>"), "[a\u200b]1 "); // not white
}

TEST(white_space_on_the_right_is_taken)
{
    const struct added_token tokens[] = {{TOKEN("<e>"), .id = 1, .rstrip = true},
                                         {TOKEN("<m>"), .id = 2, .lstrip = true}};
    CHECK_STR(FOUND(tokens, "a <e> \r\n\u2003b"), "[a ]1 [b]");
    CHECK_STR(FOUND(tokens, "<e> <m>"), "1 2 ");
    CHECK_STR(FOUND(tokens, "<e>  "), "1 ");
}

// The search goes on behind the pattern, not behind what was widened.
TEST(white_space_that_was_taken_can_match_again)
{
    const struct added_token tokens[] = {{TOKEN("<e>"), .id = 1, .rstrip = true},
                                         {TOKEN("  "), .id = 2},
                                         {TOKEN("\t"), .id = 3, .rstrip = true}};
    CHECK_STR(FOUND(tokens, "<e>  x"), "1 2 [x]");
    CHECK_STR(FOUND(tokens, "<e>   x"), "1 2 [ x]"); // the third space counts twice
    CHECK_STR(FOUND(tokens, "<e>\t x"), "1 3 [x]");
}

TEST(a_match_of_which_nothing_is_left_vanishes)
{
    const struct added_token tokens[] = {{TOKEN("\t"), .id = 1, .lstrip = true, .rstrip = true}};
    CHECK_STR(FOUND(tokens, "a\t\t b"), "[a]1 [b]");
}

// As the rules are written: at every place every token is tried.
static void twin_find(const struct added_token *tokens, uint32_t count, struct slice text,
                      struct shown *shown)
{
    *shown = (struct shown){0};
    size_t offset = 0;
    for (size_t at = 0; at < text.size;) {
        const struct added_token *best = NULL;
        for (uint32_t i = 0; i < count; i++) {
            struct slice wanted = tokens[i].text;
            if (text.size - at >= wanted.size && (best == NULL || wanted.size >= best->text.size) &&
                memcmp(text.bytes + at, wanted.bytes, wanted.size) == 0) {
                best = &tokens[i];
            }
        }
        if (best == NULL) {
            at++;
            continue;
        }
        size_t start = at;
        size_t stop = at + best->text.size;
        unsigned size;
        at = stop;
        uint32_t before =
            start == 0 ? ' ' : utf8_read(utf8_back(text.bytes, text.bytes + start), &size);
        uint32_t after = stop == text.size ? ' ' : utf8_read(text.bytes + stop, &size);
        if (best->single_word && ((char_class(before) | char_class(after)) & CHAR_RUST_WORD) != 0) {
            continue;
        }
        while (best->lstrip && start > 0) {
            const uint8_t *last = utf8_back(text.bytes, text.bytes + start);
            if ((char_class(utf8_read(last, &size)) & CHAR_WS) == 0) {
                break;
            }
            start = (size_t)(last - text.bytes);
        }
        start = best->lstrip && start < offset ? offset : start;
        while (best->rstrip && stop < text.size &&
               (char_class(utf8_read(text.bytes + stop, &size)) & CHAR_WS) != 0) {
            stop += size;
        }
        if (offset < start) {
            show_gap(shown, slice_of(text.bytes + offset, start - offset));
        }
        if (start < stop) {
            show_id(shown, best->id);
        }
        offset = stop;
    }
    show_gap(shown, slice_of(text.bytes + offset, text.size - offset));
}

static const char *const fragments[] = {"<", "|",  ">",      "s",      "a",     "b",
                                        " ", "  ", "\n",     "\t",     "<|",    "_",
                                        "-", "1",  "\u00e9", "\u2581", "\uff5c"};

// With `plain`, now and then a long stretch that nothing is found in.
static size_t some_text(struct rng *rng, uint32_t pieces, bool plain, char *out)
{
    size_t size = 0;
    for (uint32_t i = 0; i < pieces; i++) {
        struct slice piece = slice_str(fragments[rng_below(rng, ARRAY_COUNT(fragments))]);
        memcpy(out + size, piece.bytes, piece.size);
        size += piece.size;
        if (plain && rng_below(rng, 10) == 0) {
            size_t more = rng_below(rng, 40);
            memset(out + size, 'z', more);
            size += more;
        }
    }
    return size;
}

static bool has_token(const struct added_token *tokens, uint32_t count, struct slice text)
{
    for (uint32_t i = 0; i < count; i++) {
        if (slice_equal(tokens[i].text, text)) {
            return true;
        }
    }
    return false;
}

static uint32_t some_tokens(struct rng *rng, struct added_token tokens[token_max])
{
    static char texts[token_max][16];
    uint32_t tries = rng_below(rng, token_max);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tries; i++) {
        size_t size = some_text(rng, 1 + rng_below(rng, 4), false, texts[count]);
        bool has_flags = rng_below(rng, 2) == 0;
        struct added_token token = {.text = slice_of(texts[count], size),
                                    .id = i,
                                    .single_word = has_flags && rng_below(rng, 3) == 0,
                                    .lstrip = has_flags && rng_below(rng, 2) == 0,
                                    .rstrip = has_flags && rng_below(rng, 2) == 0};
        if (!has_token(tokens, count, token.text)) {
            tokens[count++] = token;
        }
    }
    return count;
}

TEST(texts_of_fragments_match_as_by_the_plain_rules)
{
    struct rng rng = {.state = 5};
    struct added_token tokens[token_max];
    uint32_t count = 0;
    struct added *added = NULL;
    for (unsigned round = 0; round < 40000; round++) {
        static char text[4 * text_max];
        static struct shown expected;
        static struct shown actual;
        if (round % 20 == 0) {
            added_destroy(&added);
            count = some_tokens(&rng, tokens);
            added = added_create(tokens, count);
        }
        CHECK(added != NULL);
        struct slice given = slice_of(text, some_text(&rng, rng_below(&rng, 60), true, text));
        twin_find(tokens, count, given, &expected);
        find_all(added, given, &actual);
        CHECK_STR(actual.text, expected.text);
    }
    added_destroy(&added);
}

// As large as they come: thousands with one beginning, and text that looks like them everywhere.
TEST(thousands_of_tokens_and_hostile_text)
{
    enum { count = 6000, repeats = 20000 };
    static struct added_token tokens[count];
    static char names[count][16];
    for (uint32_t i = 0; i < count; i++) {
        int size = snprintf(names[i], sizeof(names[i]), "<unused%u>", i);
        tokens[i] = (struct added_token){.text = slice_of(names[i], (size_t)size), .id = i};
    }
    struct added *added = added_create(tokens, count);
    CHECK(added != NULL);
    CHECK(added_memory(added) < 1 << 20);

    static char text[16 * repeats];
    size_t size = 0;
    uint32_t wanted = 0;
    struct rng rng = {.state = 9};
    for (uint32_t i = 0; i < repeats; i++) {
        uint32_t number = rng_below(&rng, 2 * count);
        wanted += number < count;
        size += (size_t)snprintf(text + size, sizeof(text) - size, "<unused%u>", number);
    }
    struct added_walk walk = added_begin(added, slice_of(text, size));
    struct added_match match;
    uint32_t matches = 0;
    while (added_next(&walk, &match)) {
        matches++;
    }
    CHECK_EQ(matches, wanted);
    added_destroy(&added);
    CHECK(added == NULL);
}
