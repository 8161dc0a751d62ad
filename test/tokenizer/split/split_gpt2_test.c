// SPDX-License-Identifier: Apache-2.0

#include "split_twin.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

TEST(gpt2_is_its_pattern_in_all_spellings)
{
    const char *const texts[] = {
        GPT2,
        "'s|'t|'re|'ve|'m|'ll|'d| ?[\\p{L}]+| ?[\\p{N}]+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++"
        "|\\s++$|\\s+(?!\\S)|\\s",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        CHECK(twin_agrees_everywhere(&(struct twin){.kind = SPLIT_GPT2, .texts = {texts[i]}}));
    }
}

TEST(digits_are_cut_out_before_gpt2)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_DIGITS_GPT2, .texts = {"\\p{Numeric}", GPT2}, .is_no_text = true}));
}

TEST(words_numbers_and_signs_take_a_space)
{
    CHECK_PIECES(SPLIT_GPT2, "Hello world 1234 ...\n", "Hello| world| 1234| ...|\n");
    CHECK_PIECES(SPLIT_GPT2, "a.b\tc", "a|.|b|\t|c");
}

TEST(contractions_are_in_lower_case)
{
    CHECK_PIECES(SPLIT_GPT2, "it's IT'S 'ſ", "it|'s| IT|'|S| '|ſ");
}

TEST(line_ends_are_white_space_like_any)
{
    CHECK_PIECES(SPLIT_GPT2, "a\n\n  b", "a|\n\n | b");
    CHECK_PIECES(SPLIT_GPT2, "a\n b\nc", "a|\n| b|\n|c");
}

TEST(a_digit_ends_the_piece_before_it)
{
    CHECK_PIECES(SPLIT_DIGITS_GPT2, "a 12  3", "a| |1|2|  |3");
    CHECK_PIECES(SPLIT_GPT2, "a 12  3", "a| 12| | 3");
}

// Two digits of Unicode 17.0, which no pattern knows.
TEST(young_digits_are_digits_to_rust_only)
{
    CHECK_PIECES(SPLIT_DIGITS_GPT2, "!\U00011de1\U00011de2!", "!|\U00011de1|\U00011de2|!");
    CHECK_PIECES(SPLIT_GPT2, "!\U00011de1\U00011de2!", "!\U00011de1\U00011de2!");
}
