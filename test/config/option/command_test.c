// SPDX-License-Identifier: Apache-2.0

#include "config/option/command.h"

#include "cli/child.h"
#include "test.h"

#include <unistd.h>

static struct child child;

static int print_usage(int word_count, char **words)
{
    (void)word_count;
    command_write_usage(words[0]);
    return command_flush() ? COMMAND_OK : COMMAND_FAILED;
}

static int fail(int word_count, char **words)
{
    command_fail(words[0], words[1], word_count > 2 ? words[2] : NULL);
    return COMMAND_OK;
}

static int print_file(int word_count, char **words)
{
    char space[8];
    size_t size = 0;
    (void)word_count;
    if (!command_read_file("test", words[0], space, sizeof(space), &size)) {
        return COMMAND_FAILED;
    }
    printf("%.*s", (int)size, space);
    return command_flush() ? COMMAND_OK : COMMAND_FAILED;
}

TEST(usage_and_summary_come_from_the_list_of_commands)
{
    child_start(&child, print_usage, WORDS("check"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK(strncmp(child_text(child.out), "warmpath check FILE\n\nCheck", 26) == 0);
    child_close(&child);
}

TEST(a_failure_names_the_command_the_subject_and_the_reason)
{
    child_start(&child, fail, WORDS("sim", "--load", "is wrong"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK_STR(child_text(child.err), "warmpath sim: --load: is wrong\n");
    child_close(&child);
    child_start(&child, fail, WORDS("sim", "too many runs"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK_STR(child_text(child.err), "warmpath sim: too many runs\n");
    child_close(&child);
}

TEST(a_file_that_is_missing_or_too_large_is_refused_with_its_name)
{
    child_start(&child, print_file, WORDS("/nowhere/x"));
    CHECK_EQ(child_finish(&child), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath test: /nowhere/x: No such file or directory\n");
    child_close(&child);
    child_start(&child, print_file, WORDS("/dev/zero"));
    CHECK_EQ(child_finish(&child), COMMAND_FAILED);
    CHECK(strncmp(child_text(child.err), "warmpath test: /dev/zero: ", 26) == 0);
    child_close(&child);
}

static int print_to(int word_count, char **words)
{
    (void)word_count;
    FILE *file = command_open_file("test", words[0]);
    if (file == NULL) {
        return COMMAND_FAILED;
    }
    fputs("hello", file);
    bool is_written = command_close_file("test", words[0], &file);
    return is_written && file == NULL ? COMMAND_OK : COMMAND_FAILED;
}

TEST(a_file_that_cannot_be_written_is_a_failure_with_its_name)
{
    child_start(&child, print_to, WORDS("-"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK_STR(child_text(child.out), "hello");
    child_close(&child);
    child_start(&child, print_to, WORDS("/nowhere/x"));
    CHECK_EQ(child_finish(&child), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath test: /nowhere/x: No such file or directory\n");
    child_close(&child);
    child_start(&child, print_to, WORDS("/dev/full"));
    CHECK_EQ(child_finish(&child), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath test: /dev/full: could not be written\n");
    child_close(&child);
}

TEST(a_dash_is_standard_input)
{
    char path[] = "/tmp/command_test.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd != -1 && write(fd, "hello", 5) == 5);
    CHECK(close(fd) == 0 && freopen(path, "re", stdin) != NULL);
    child_start(&child, print_file, WORDS("-"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK_STR(child_text(child.out), "hello");
    child_close(&child);
    CHECK(unlink(path) == 0);
}
