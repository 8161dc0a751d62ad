// SPDX-License-Identifier: Apache-2.0

#include "split_twin.h"

#define LLAMA3                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"                       \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K                                                                                     \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+"                           \
    "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"

TEST(llama3_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){.kind = SPLIT_LLAMA3, .texts = {LLAMA3}}));
}

TEST(an_older_spelling_of_cl100k_is_llama3)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_LLAMA3,
        .texts = {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
                  "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    }));
}

TEST(qwen2_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_QWEN2,
        .texts = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    }));
}

TEST(qwen35_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_QWEN35,
        .texts = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
                  "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    }));
}

TEST(cl100k_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){.kind = SPLIT_CL100K, .texts = {CL100K}}));
}

TEST(cl100k_is_its_pattern_in_tiktoken_too)
{
    CHECK(twin_agrees_everywhere(&(struct twin){.kind = SPLIT_CL100K_TIKTOKEN,
                                                .texts = {CL100K},
                                                .is_tiktoken = true,
                                                .is_no_text = true}));
}

TEST(a_word_takes_the_space_or_sign_before_it)
{
    CHECK_PIECES(SPLIT_LLAMA3, "Hello world, (and) so on", "Hello| world|,| (|and|)| so| on");
    CHECK_PIECES(SPLIT_LLAMA3, "a.b  c\td", "a|.b| | c|\td");
    CHECK_PIECES(SPLIT_LLAMA3, "!!a !a", "!!|a| !|a");
}

TEST(a_contraction_comes_first_in_any_case)
{
    CHECK_PIECES(SPLIT_LLAMA3, "it's I'LL we'Ve 'tis 'x' '",
                 "it|'s| I|'LL| we|'Ve| '|tis| '|x|'| '");
    CHECK_PIECES(SPLIT_LLAMA3, "'tis", "'t|is");
}

TEST(a_long_s_is_an_s_behind_an_apostrophe)
{
    CHECK_PIECES(SPLIT_LLAMA3, "it'ſx", "it|'ſ|x");
}

TEST(digits_go_by_three_by_one_or_all_together)
{
    CHECK_PIECES(SPLIT_LLAMA3, "12345 6", "123|45| |6");
    CHECK_PIECES(SPLIT_QWEN2, "12345 6", "1|2|3|4|5| |6");
    CHECK_PIECES(SPLIT_CL100K, "12345 6", "12345| |6");
    CHECK_PIECES(SPLIT_CL100K_TIKTOKEN, "12345 6", "123|45| |6");
}

TEST(white_space_at_the_end_is_one_piece_for_cl100k_only)
{
    CHECK_PIECES(SPLIT_LLAMA3, "a\n\n  ", "a|\n\n|  ");
    CHECK_PIECES(SPLIT_CL100K, "a\n\n  ", "a|\n\n  ");
    CHECK_PIECES(SPLIT_CL100K, "a\n\n  b", "a|\n\n| | b");
}

TEST(white_space_leaves_its_last_character_to_the_next_piece)
{
    CHECK_PIECES(SPLIT_LLAMA3, "a    b   1", "a|   | b|  | |1");
    CHECK_PIECES(SPLIT_LLAMA3, "a \u3000b", "a| |\u3000b");
}

TEST(signs_take_the_line_ends_behind_them)
{
    CHECK_PIECES(SPLIT_LLAMA3, "x;\r\n\n y", "x|;\r\n\n| y");
    CHECK_PIECES(SPLIT_LLAMA3, "x \n\n y", "x| \n\n| y");
}

TEST(a_mark_is_a_letter_for_qwen35_and_a_sign_for_others)
{
    CHECK_PIECES(SPLIT_QWEN35, "e\u0301e e\u0301", "e\u0301e| e\u0301");
    CHECK_PIECES(SPLIT_QWEN2, "e\u0301e e\u0301", "e|\u0301e| e|\u0301");
}
