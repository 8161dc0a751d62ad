// SPDX-License-Identifier: Apache-2.0

#include "cli/cli.h"

#include "cli/child.h"
#include "config/option/command.h"
#include "config/option/option.h"
#include "test.h"

#include <fcntl.h>

static struct child child;

// The exit status of a command line; the program's own name is added.
static int run(const char *const *words)
{
    const char *all[child_words_max] = {"warmpath"};
    for (int i = 0; words[i] != NULL; i++) {
        all[i + 1] = words[i];
    }
    child_start(&child, cli_run, all);
    return child_finish(&child);
}

static const char *const usages[] = {
#define COMMAND(name, usage, summary) usage,
#include "config/option/commands.def"
#undef COMMAND
};

static const char *const names[] = {
#define COMMAND(name, usage, summary) #name,
#include "config/option/commands.def"
#undef COMMAND
};

static bool lists_flag_of(const char *text, const struct config_option *option)
{
    char flag[config_flag_size_max];
    if (!option->has_flag) {
        return true;
    }
    config_option_flag(option, flag);
    return strstr(text, flag) != NULL;
}

TEST(help_lists_every_command_and_every_option)
{
    CHECK_EQ(run(WORDS("help")), COMMAND_OK);
    const char *text = child_text(child.out);
    CHECK(strstr(text, "warmpath " WARMPATH_VERSION) == text);
    for (size_t i = 0; i < ARRAY_COUNT(usages); i++) {
        char line[128];
        snprintf(line, sizeof(line), "\n  warmpath %s ", usages[i]);
        CHECK(strstr(text, line) != NULL);
    }
    for (uint32_t i = 0; i < config_options.count; i++) {
        CHECK(lists_flag_of(text, &config_options.rows[i]));
    }
    CHECK(config_options.count > 50);
    CHECK_STR(child_text(child.err), "");
    child_close(&child);
}

TEST(help_can_be_asked_for_in_every_usual_way)
{
    CHECK_EQ(run(WORDS("help")), COMMAND_OK);
    static char expected[child_text_size];
    snprintf(expected, sizeof(expected), "%s", child_text(child.out));
    child_close(&child);
    const char *const *const ways[] = {WORDS("--help"), WORDS("-h")};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        CHECK_EQ(run(ways[i]), COMMAND_OK);
        CHECK_STR(child_text(child.out), expected);
        child_close(&child);
    }
}

TEST(the_help_of_every_command_begins_with_its_usage)
{
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char expected[128];
        snprintf(expected, sizeof(expected), "warmpath %s\n\n", usages[i]);
        CHECK_EQ(run(WORDS(names[i], i % 2 == 0 ? "--help" : "-h")), COMMAND_OK);
        CHECK_EQ(strncmp(child_text(child.out), expected, strlen(expected)), 0);
        CHECK_STR(child_text(child.err), "");
        child_close(&child);
    }
}

TEST(without_a_command_the_commands_are_listed_as_an_error)
{
    CHECK_EQ(run(WORDS(NULL)), COMMAND_USAGE);
    CHECK_STR(child_text(child.out), "");
    for (size_t i = 0; i < ARRAY_COUNT(usages); i++) {
        CHECK(strstr(child_text(child.err), usages[i]) != NULL);
    }
    child_close(&child);
}

TEST(an_unknown_command_is_named)
{
    static const char *const unknown[] = {"server", "Serve", "serv", "--verbose", "", "-"};
    for (size_t i = 0; i < ARRAY_COUNT(unknown); i++) {
        char expected[128];
        CHECK_EQ(run(WORDS(unknown[i])), COMMAND_USAGE);
        snprintf(expected, sizeof(expected),
                 "warmpath: no command %s; `warmpath help` lists them\n", unknown[i]);
        CHECK_STR(child_text(child.err), expected);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(the_version_is_the_one_of_the_build)
{
    const char *const *const ways[] = {WORDS("version"), WORDS("--version")};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        CHECK_EQ(run(ways[i]), COMMAND_OK);
        CHECK_STR(child_text(child.out), "warmpath " WARMPATH_VERSION "\n");
        child_close(&child);
    }
}

TEST(the_manual_page_has_the_version_and_every_command)
{
    CHECK_EQ(run(WORDS("manual", "--man")), COMMAND_OK);
    const char *text = child_text(child.out);
    CHECK(strstr(text, ".TH ") != NULL);
    CHECK(strstr(text, WARMPATH_VERSION) != NULL);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        CHECK(strstr(text, names[i]) != NULL);
    }
    child_close(&child);
}

TEST(the_markdown_reference_names_every_option)
{
    CHECK_EQ(run(WORDS("manual", "--markdown")), COMMAND_OK);
    const char *text = child_text(child.out);
    CHECK_EQ(text[0], '#');
    for (uint32_t i = 0; i < config_options.count; i++) {
        CHECK(strstr(text, config_option_key(&config_options.rows[i])) != NULL);
    }
    child_close(&child);
}

TEST(a_manual_of_an_unknown_kind_is_an_error)
{
    const char *const *const ways[] = {WORDS("manual"), WORDS("manual", "--html"),
                                       WORDS("manual", "--man", "--markdown")};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        CHECK_EQ(run(ways[i]), COMMAND_USAGE);
        CHECK_STR(child_text(child.err), "warmpath manual: say --man or --markdown\n");
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(commands_get_the_words_behind_their_name)
{
    CHECK_EQ(run(WORDS("check", "/nonexistent/warmpath.yaml")), COMMAND_USAGE);
    CHECK(strstr(child_text(child.err), "/nonexistent/warmpath.yaml: cannot read") != NULL);
    child_close(&child);
    CHECK_EQ(run(WORDS("serve", "--colour", "red")), COMMAND_USAGE);
    CHECK(strncmp(child_text(child.err), "command line: ", 14) == 0);
    child_close(&child);
}

TEST(a_page_that_cannot_be_written_is_a_failure)
{
    const char *const *const pages[] = {
        WORDS("warmpath", "help"), WORDS("warmpath", "manual", "--man"),
        WORDS("warmpath", "manual", "--markdown"), WORDS("warmpath", "version")};
    for (size_t i = 0; i < ARRAY_COUNT(pages); i++) {
        int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        CHECK(full != -1);
        child_start_to(&child, cli_run, pages[i], full);
        CHECK_EQ(child_finish(&child), COMMAND_FAILED);
        child_close(&child);
    }
}
