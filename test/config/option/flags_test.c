// SPDX-License-Identifier: Apache-2.0

#include "config/option/flags.h"

#include "base/base.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static struct {
    const char *name;
    uint32_t count;
    double share;
    double pause_s;
    bool fast;
    struct flag_list list;
    struct flag_list words;
} got;

static const struct flag table[] = {
    {"name", FLAG_TEXT, &got.name, "NAME", "A name."},
    {"count", FLAG_COUNT, &got.count, "N", "How many."},
    {"share", FLAG_NUMBER, &got.share, "X", "How much."},
    {"pause", FLAG_DURATION, &got.pause_s, "TIME", "How long."},
    {"fast", FLAG_SWITCH, &got.fast, NULL, "Hurry."},
    {"item", FLAG_LIST, &got.list, "A,B", "Several."},
    {"header", FLAG_WORDS, &got.words, "TEXT", "Several, with commas in them."},
};

// The line is cut at blanks.
static enum flags_verdict read_line(const char *line)
{
    char space[256];
    char *words[16];
    int count = 0;
    snprintf(space, sizeof(space), "%s", line);
    for (char *rest = space; rest != NULL && *rest != '\0';) {
        words[count++] = strsep(&rest, " ");
    }
    memset(&got, 0, sizeof(got));
    return flags_read("test", table, ARRAY_COUNT(table), count, words);
}

TEST(reads_every_kind_with_a_blank_or_an_equals_sign)
{
    CHECK_EQ(read_line("--count 2k --share=0.25 --pause 1500ms --fast --count=7"), FLAGS_GOOD);
    CHECK_EQ(got.count, 7);
    CHECK(got.share == 0.25);
    CHECK(got.pause_s == 1.5);
    CHECK(got.fast);
}

TEST(a_list_grows_by_commas_and_by_repetition)
{
    char words[][16] = {"--item", "a,b", "--item=c"};
    char *pointers[] = {words[0], words[1], words[2]};
    memset(&got, 0, sizeof(got));
    CHECK_EQ(flags_read("test", table, ARRAY_COUNT(table), 3, pointers), FLAGS_GOOD);
    CHECK_EQ(got.list.count, 3);
    CHECK(strcmp(got.list.items[0], "a") == 0);
    CHECK(strcmp(got.list.items[2], "c") == 0);
}

TEST(words_are_taken_as_they_stand)
{
    char words[][16] = {"--header", "a: 1, 2", "--header=b: x=y"};
    char *pointers[] = {words[0], words[1], words[2]};
    memset(&got, 0, sizeof(got));
    CHECK_EQ(flags_read("test", table, ARRAY_COUNT(table), 3, pointers), FLAGS_GOOD);
    CHECK_EQ(got.words.count, 2);
    CHECK_STR(got.words.items[0], "a: 1, 2");
    CHECK_STR(got.words.items[1], "b: x=y");
}

TEST(what_is_wrong_is_refused)
{
    static const char *const lines[] = {"--nope 1",   "count 1",     "--count",      "--count x",
                                        "--count -1", "--count 1.5", "--share much", "--pause 3y",
                                        "--fast=yes", "--item a,,b", "--count 99g"};
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        CHECK_EQ(read_line(lines[i]), FLAGS_BAD);
    }
}

TEST(words_without_dashes_belong_to_the_nameless_row)
{
    static struct flag_list list;
    bool is_fast = false;
    const struct flag with_words[] = {
        {"", FLAG_WORDS, &list, "TEXT", "The text."},
        {"fast", FLAG_SWITCH, &is_fast, "", "Hurry."},
    };
    char words[][16] = {"Hello, you", "--fast", "-x", "a=b"};
    char *pointers[] = {words[0], words[1], words[2], words[3]};
    CHECK_EQ(flags_read("test", with_words, ARRAY_COUNT(with_words), 4, pointers), FLAGS_GOOD);
    CHECK(is_fast);
    CHECK_EQ(list.count, 3);
    CHECK_STR(list.items[0], "Hello, you");
    CHECK_STR(list.items[1], "-x");
    CHECK_STR(list.items[2], "a=b");
}

// Not even where a row has no name.
TEST(dashes_alone_name_no_flag)
{
    static struct flag_list list;
    const struct flag with_words[] = {{"", FLAG_WORDS, &list, "TEXT", "The text."}};
    char words[][8] = {"--", "x", "--=x"};
    for (size_t i = 0; i < 2; i++) {
        char *pointers[] = {words[i == 0 ? 0 : 2], words[1]};
        CHECK_EQ(flags_read("test", with_words, 1, 2, pointers), FLAGS_BAD);
        CHECK_EQ(list.count, 0);
    }
}

TEST(a_word_is_printable_and_has_no_blanks)
{
    CHECK(flags_is_word("") && flags_is_word("/v1/chat?a=~!"));
    CHECK(!flags_is_word("a b") && !flags_is_word("a\r\nb: c") && !flags_is_word("\xc3\xbc"));
    CHECK(!flags_is_word("\x7f"));
}
