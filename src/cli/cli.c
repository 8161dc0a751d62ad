// SPDX-License-Identifier: Apache-2.0

#include "cli/cli.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "config/option/command.h"
#include "config/option/manual.h"

#include <stdio.h>
#include <string.h>

// In the order of command_at.
static int (*const runs[])(int word_count, char **words) = {
#define COMMAND(name, usage, summary) command_##name,
#include "config/option/commands.def"
#undef COMMAND
};

static void write_commands(FILE *out)
{
    fprintf(out, "warmpath %s -- a load balancer for LLM inference\n\n", WARMPATH_VERSION);
    for (uint32_t i = 0; command_at(i) != NULL; i++) {
        fprintf(out, "  warmpath %-36s %s\n", command_at(i)->usage, command_at(i)->summary);
    }
}

// Flushing shows whether all of the page was written: a full disk is a failure.
static int end_of_page(void)
{
    return command_flush() ? COMMAND_OK : COMMAND_FAILED;
}

int command_help(int word_count, char **words)
{
    (void)word_count;
    (void)words;
    write_commands(stdout);
    fprintf(stdout, "\nOptions of serve; each is also a key of the configuration file.\n\n");
    config_manual_write_help(stdout);
    return end_of_page();
}

int command_manual(int word_count, char **words)
{
    if (word_count == 1 && strcmp(words[0], "--man") == 0) {
        config_manual_write_man(stdout);
    } else if (word_count == 1 && strcmp(words[0], "--markdown") == 0) {
        config_manual_write_markdown(stdout);
    } else {
        fprintf(stderr, "warmpath manual: say --man or --markdown\n");
        return COMMAND_USAGE;
    }
    return end_of_page();
}

int command_version(int word_count, char **words)
{
    (void)word_count;
    (void)words;
    printf("warmpath %s\n", WARMPATH_VERSION);
    return end_of_page();
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

// Commands with a table of flags print it themselves.  True: this was another one, and its help was
// printed.
static bool write_command_help(uint32_t index)
{
    bool is_serve = runs[index] == command_serve;

    if (!is_serve && runs[index] != command_check && runs[index] != command_help &&
        runs[index] != command_manual && runs[index] != command_version) {
        return false;
    }
    command_write_usage(command_at(index)->name);
    if (is_serve) {
        printf("\n");
        config_manual_write_help(stdout);
    }
    return true;
}

int cli_run(int argc, char **argv)
{
    if (argc < 2) {
        write_commands(stderr);
        return COMMAND_USAGE;
    }
    if (is_help(argv[1])) {
        return command_help(0, NULL);
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (uint32_t i = 0; i < ARRAY_COUNT(runs); i++) {
        if (strcmp(command_at(i)->name, name) == 0) {
            bool is_helped = argc > 2 && is_help(argv[2]) && write_command_help(i);
            return is_helped ? end_of_page() : runs[i](argc - 2, argv + 2);
        }
    }
    fprintf(stderr, "warmpath: no command %s; `warmpath help` lists them\n", argv[1]);
    return COMMAND_USAGE;
}
