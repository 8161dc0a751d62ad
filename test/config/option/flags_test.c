// SPDX-License-Identifier: Apache-2.0

#include "config/option/flags.h"

#include "config/option/command.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

struct test_options {
    const char *name;
    uint32_t count;
    uint64_t bytes;
    double share;
    double pause;
    bool fast;
    struct flag_list item;
    struct flag_list header;
    struct flag_numbers load;
};

static struct test_options got;

#define OWNER struct test_options
static const struct config_option rows[] = {
    FLAG(name, name, "ann", "A name."),
    FLAG(count, amount, NULL, "How many."),
    FLAG(bytes, amount, NULL, "How long."),
    RANGE(share, real, "0.5", "0", "1", "How much."),
    FLAG(pause, seconds, "2m", "How long."),
    FLAG(fast, toggle, NULL, "Hurry."),
    FLAG_LIST(item, text, "Several."),
    FLAG_LIST(header, any, "Several, with commas in them."),
    FLAG_LIST(load, real, "Several numbers."),
};
static const struct config_option_table table = FLAG_TABLE("test", rows);
#undef OWNER

// The line is cut at blanks.
static int read_line(const char *line)
{
    char space[256];
    char *words[16];
    int count = 0;
    snprintf(space, sizeof(space), "%s", line);
    for (char *rest = space; rest != NULL && *rest != '\0';) {
        words[count++] = strsep(&rest, " ");
    }
    return flags_read(&table, count, words, &got);
}

TEST(reads_every_kind_with_a_blank_or_an_equals_sign)
{
    CHECK_EQ(read_line("--count 2k --share=0.25 --pause 1500ms --fast --count=7"), FLAGS_READ);
    CHECK_EQ(got.count, 7);
    CHECK(got.share == 0.25);
    CHECK(got.pause == 1.5);
    CHECK(got.fast);
}

TEST(flags_that_are_not_given_have_their_defaults)
{
    CHECK_EQ(read_line("--fast --item x"), FLAGS_READ);
    CHECK_EQ(read_line(""), FLAGS_READ);
    CHECK_STR(got.name, "ann");
    CHECK(got.share == 0.5 && got.pause == 120);
    CHECK(got.count == 0 && !got.fast && got.item.count == 0);
}

TEST(a_switch_takes_a_value_as_one_of_serve_does)
{
    CHECK_EQ(read_line("--fast no"), FLAGS_READ);
    CHECK(!got.fast);
    CHECK_EQ(read_line("--fast=yes --count 1"), FLAGS_READ);
    CHECK(got.fast && got.count == 1);
}

TEST(a_list_of_numbers_has_a_limit)
{
    char line[2 * flag_numbers_max + 16] = "--load ";
    for (uint32_t i = 0; i < flag_numbers_max; i++) {
        snprintf(line + strlen(line), 4, i > 0 ? ",%u" : "%u", i % 10);
    }
    char word[sizeof(line)];
    snprintf(word, sizeof(word), "%s", line + strlen("--load "));
    char *full[] = {(char[]){"--load"}, word};
    CHECK_EQ(flags_read(&table, 2, full, &got), FLAGS_READ);
    CHECK_EQ(got.load.count, flag_numbers_max);
    CHECK(got.load.items[13] == 3);
    char *over[] = {(char[]){"--load=1,2.5"}, (char[]){"--load"}, line + strlen("--load ")};
    CHECK_EQ(flags_read(&table, 3, over, &got), COMMAND_USAGE);
}

TEST(a_list_grows_by_commas_and_by_repetition)
{
    char words[][16] = {"--item", "a,b", "--item=c"};
    char *pointers[] = {words[0], words[1], words[2]};
    CHECK_EQ(flags_read(&table, 3, pointers, &got), FLAGS_READ);
    CHECK_EQ(got.item.count, 3);
    CHECK(strcmp(got.item.items[0], "a") == 0);
    CHECK(strcmp(got.item.items[2], "c") == 0);
}

TEST(words_are_taken_as_they_stand)
{
    char words[][16] = {"--header", "a: 1, 2", "--header=b: x=y"};
    char *pointers[] = {words[0], words[1], words[2]};
    CHECK_EQ(flags_read(&table, 3, pointers, &got), FLAGS_READ);
    CHECK_EQ(got.header.count, 2);
    CHECK_STR(got.header.items[0], "a: 1, 2");
    CHECK_STR(got.header.items[1], "b: x=y");
}

TEST(a_wrong_line_is_refused)
{
    static const char *const lines[] = {"--nope 1",    "count 1",     "--count",      "--count x",
                                        "--count -1",  "--count 1.5", "--share much", "--pause 3y",
                                        "--fast=2",    "--item a,,b", "--count 99g",  "--share 2",
                                        "--bytes 1e30"};
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        CHECK_EQ(read_line(lines[i]), COMMAND_USAGE);
    }
}

struct test_words {
    struct flag_list words;
    bool fast;
};

static struct test_words said;

#define OWNER struct test_words
static const struct config_option word_rows[] = {
    FLAG_ROW("", words, any, .is_list = true, .help = "The text."),
    FLAG(fast, toggle, NULL, "Hurry."),
};
static const struct config_option_table word_table = FLAG_TABLE("test", word_rows);
#undef OWNER

TEST(words_without_dashes_belong_to_the_nameless_row)
{
    char words[][16] = {"Hello, you", "--fast", "-x", "a=b"};
    char *pointers[] = {words[0], words[1], words[2], words[3]};
    CHECK_EQ(flags_read(&word_table, 4, pointers, &said), FLAGS_READ);
    CHECK(said.fast);
    CHECK_EQ(said.words.count, 3);
    CHECK_STR(said.words.items[0], "Hello, you");
    CHECK_STR(said.words.items[1], "-x");
    CHECK_STR(said.words.items[2], "a=b");
}

// Not even where a row has no name.
TEST(dashes_alone_name_no_flag)
{
    char words[][8] = {"--", "x", "--=x"};
    for (size_t i = 0; i < 2; i++) {
        char *pointers[] = {words[i == 0 ? 0 : 2], words[1]};
        CHECK_EQ(flags_read(&word_table, 2, pointers, &said), COMMAND_USAGE);
        CHECK_EQ(said.words.count, 0);
    }
}
