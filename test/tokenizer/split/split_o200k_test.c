// SPDX-License-Identifier: Apache-2.0

#include "split_twin.h"

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define LOWER_WORD(but)                                                                            \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" but                                \
    "]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" but "]+"
#define UPPER_WORD(but)                                                                            \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" but                                \
    "]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" but "]*"
#define WHITE "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

TEST(o200k_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_O200K,
        .texts = {LOWER_WORD("") CONTRACTION "|" UPPER_WORD("") CONTRACTION
                  "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" WHITE},
    }));
}

TEST(tekken_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_TEKKEN,
        .texts = {LOWER_WORD("") "|" UPPER_WORD(
            "") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" WHITE},
    }));
}

TEST(kimi_is_its_pattern)
{
    CHECK(twin_agrees_everywhere(&(struct twin){
        .kind = SPLIT_KIMI,
        .texts = {"[\\p{Han}]+|" LOWER_WORD("&&[^\\p{Han}]") CONTRACTION "|" UPPER_WORD(
            "&&[^\\p{Han}]") CONTRACTION "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" WHITE},
    }));
}

TEST(capitals_begin_words)
{
    CHECK_PIECES(SPLIT_O200K, "parseHTTPRequest HTTP x", "parse|HTTPRequest| HTTP| x");
    CHECK_PIECES(SPLIT_O200K, "(camelCase)", "(camel|Case|)");
}

TEST(contractions_belong_to_the_word_but_in_tekken)
{
    CHECK_PIECES(SPLIT_O200K, "it's IT'LL 'x", "it's| IT'LL| '|x");
    CHECK_PIECES(SPLIT_O200K, "it'ſx", "it'ſ|x");
    CHECK_PIECES(SPLIT_TEKKEN, "it's IT'LL", "it|'s| IT|'LL");
}

// Long enough to be cut as a whole.
TEST(a_word_has_one_contraction)
{
    CHECK_PIECES(
        SPLIT_O200K, "a's's'sb we'd've thought that nobody'd write such things as these in a text",
        "a's|'s's|b| we'd|'ve| thought| that| nobody'd| write| such| things| as| these| in| a|"
        " text");
}

TEST(the_order_of_trying_matters_to_a_mark_before_capitals)
{
    CHECK_PIECES(SPLIT_O200K, "\u0301ABC", "\u0301|ABC");
    CHECK_PIECES(SPLIT_O200K, "\u0301ABc", "\u0301ABc");
    CHECK_PIECES(SPLIT_O200K, "日ABC", "日|ABC");
}

TEST(digits_go_by_three_or_one)
{
    CHECK_PIECES(SPLIT_O200K, "12345", "123|45");
    CHECK_PIECES(SPLIT_TEKKEN, "123", "1|2|3");
}

TEST(signs_take_slashes_and_line_ends_but_in_kimi)
{
    CHECK_PIECES(SPLIT_O200K, ";\n//\n\nx", ";\n//\n\n|x");
    CHECK_PIECES(SPLIT_KIMI, ";\n//\n\nx", ";\n|//\n\n|x");
}

TEST(han_is_apart_in_kimi)
{
    CHECK_PIECES(SPLIT_KIMI, "a日本b 日", "a|日本|b| |日");
    CHECK_PIECES(SPLIT_O200K, "a日本b 日", "a日本b| 日");
}
