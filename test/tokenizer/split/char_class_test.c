// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/split/char_class.h"

#include "test.h"

#include <stdbool.h>

static uint32_t count_of(unsigned classes)
{
    uint32_t count = 0;
    for (uint32_t point = 0; point < 0x110000; point++) {
        count += (char_class(point) & classes) != 0;
    }
    return count;
}

// How many characters Unicode 16.0 has of each kind.
TEST(every_class_has_as_many_characters_as_unicode_16_says)
{
    CHECK_EQ(count_of(CHAR_L), 141028);
    CHECK_EQ(count_of(CHAR_LU), 1858);
    CHECK_EQ(count_of(CHAR_LL), 2258);
    CHECK_EQ(count_of(CHAR_LT), 31);
    CHECK_EQ(count_of(CHAR_LM), 404);
    CHECK_EQ(count_of(CHAR_LO), 136477);
    CHECK_EQ(count_of(CHAR_M), 2501);
    CHECK_EQ(count_of(CHAR_N), 1911);
    CHECK_EQ(count_of(CHAR_P), 855);
    CHECK_EQ(count_of(CHAR_S), 8514);
    CHECK_EQ(count_of(CHAR_WS), 25);
    CHECK_EQ(count_of(CHAR_HAN), 99030);
}

TEST(a_character_has_one_category)
{
    const unsigned categories[] = {CHAR_LU, CHAR_LL, CHAR_LT, CHAR_LM, CHAR_LO,
                                   CHAR_M,  CHAR_N,  CHAR_P,  CHAR_S};
    for (uint32_t point = 0; point < 0x110000; point++) {
        unsigned count = 0;
        for (size_t i = 0; i < ARRAY_COUNT(categories); i++) {
            count += (char_class(point) & categories[i]) != 0;
        }
        CHECK(count <= 1);
    }
}

TEST(surrogates_are_nothing)
{
    for (uint32_t point = 0xd800; point < 0xe000; point++) {
        CHECK_EQ(char_class(point), 0);
    }
}

TEST(ascii_has_its_known_classes)
{
    for (uint32_t c = 0; c < 128; c++) {
        bool is_upper = c >= 'A' && c <= 'Z';
        bool is_lower = c >= 'a' && c <= 'z';
        bool is_digit = c >= '0' && c <= '9';
        bool is_white = c == ' ' || (c >= '\t' && c <= '\r');
        bool is_symbol = c != 0 && strchr("$+<=>^`|~", (int)c) != NULL;
        bool is_mark = c > ' ' && c < 127 && !is_upper && !is_lower && !is_digit && !is_symbol;
        unsigned expected = (is_upper ? CHAR_LU : 0) | (is_lower ? CHAR_LL : 0) |
                            (is_digit ? CHAR_N | CHAR_RUST_NUMERIC : 0) | (is_white ? CHAR_WS : 0) |
                            (is_symbol ? CHAR_S : 0) | (is_mark ? CHAR_P : 0) |
                            (is_upper || is_lower || is_digit || c == '_' ? CHAR_RUST_WORD : 0);
        CHECK_EQ(char_class(c), expected);
    }
}

// One of each kind that rules of splitting tell apart.
TEST(characters_have_the_classes_of_unicode)
{
    const struct {
        uint32_t point;
        unsigned classes;
    } rows[] = {
        {0x85, CHAR_WS},
        {0xa0, CHAR_WS},
        {0x3000, CHAR_WS},
        {0x180e, 0}, // was white once
        {0x200b, 0}, // a space by name only
        {0xfeff, 0}, // white to JavaScript
        {0x200d, CHAR_RUST_WORD},
        {0x1c5, CHAR_LT | CHAR_RUST_WORD},
        {0x2b0, CHAR_LM | CHAR_RUST_WORD},
        {0x301, CHAR_M | CHAR_RUST_WORD},
        {0x65e5, CHAR_LO | CHAR_HAN | CHAR_RUST_WORD},
        {0x3007, CHAR_N | CHAR_HAN | CHAR_RUST_NUMERIC | CHAR_RUST_WORD},
        {0xbd, CHAR_N | CHAR_RUST_NUMERIC},
        {0x2f00, CHAR_S | CHAR_HAN},
        {0x10ffff, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        CHECK_EQ(char_class(rows[i].point), rows[i].classes);
    }
}

// Rust's own tables are of Unicode 17.0.
TEST(rust_has_13_numbers_that_patterns_do_not_know)
{
    CHECK_EQ(count_of(CHAR_RUST_NUMERIC), 1911 + 13);
    for (uint32_t point = 0; point < 0x110000; point++) {
        bool is_young = (point >= 0x11de0 && point <= 0x11de9) || //
                        (point >= 0x16ff4 && point <= 0x16ff6);
        bool is_number = (char_class(point) & CHAR_N) != 0;
        CHECK_EQ((char_class(point) & CHAR_RUST_NUMERIC) != 0, is_number || is_young);
    }
}

TEST(letters_and_marks_make_words_in_rust_and_white_does_not)
{
    for (uint32_t point = 0; point < 0x110000; point++) {
        bool is_word = (char_class(point) & CHAR_RUST_WORD) != 0;
        CHECK(is_word || (char_class(point) & (CHAR_L | CHAR_M)) == 0);
        CHECK(!is_word || (char_class(point) & CHAR_WS) == 0);
    }
}
