// SPDX-License-Identifier: Apache-2.0

#include "split_twin.h"

TEST(dsv3_is_its_patterns)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_DSV3,
        .texts = {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                  "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                  "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
    }));
}

TEST(ascii_signs_take_ascii_letters_only)
{
    CHECK_PIECES(SPLIT_DSV3, "foo.bar(é", "foo|.bar|(|é");
    CHECK_PIECES(SPLIT_DSV3, ".baré", ".bar|é");
    CHECK_PIECES(SPLIT_DSV3, "!!a it's", "!!|a| it|'s");
}

TEST(numbers_go_by_three_and_end_the_piece_before_them)
{
    CHECK_PIECES(SPLIT_DSV3, "a 1234  5", "a| |123|4|  |5");
}

TEST(chinese_and_japanese_are_apart_and_cut_at_their_own_signs)
{
    CHECK_PIECES(SPLIT_DSV3, "ab日本c 日", "ab|日本|c| |日");
    CHECK_PIECES(SPLIT_DSV3, "  日", "  |日");
    CHECK_PIECES(SPLIT_DSV3, "ア・ア", "ア|・|ア");
    CHECK_PIECES(SPLIT_DSV3, "・\n", "・|\n");
    CHECK_PIECES(SPLIT_DSV3, "。\n", "。\n");
}

TEST(text_between_matches_is_a_piece)
{
    CHECK_PIECES(SPLIT_DSV3, "!\u200b\u200b!", "!|\u200b\u200b|!");
    CHECK_PIECES(SPLIT_DSV3, "!\u200b\u200ba", "!|\u200b|\u200ba");
    CHECK_PIECES(SPLIT_DSV3, "  \u200b ", " | |\u200b| ");
    CHECK_PIECES(SPLIT_DSV3, "\u200b1", "\u200b|1");
}

TEST(marks_are_letters)
{
    CHECK_PIECES(SPLIT_DSV3, "e\u0301e \u0301", "e\u0301e| \u0301");
}
