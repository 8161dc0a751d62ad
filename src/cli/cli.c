// SPDX-License-Identifier: Apache-2.0

#include "cli/cli.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "config/manual.h"

#include <stdio.h>
#include <string.h>

static int cli_help(int word_count, char **words);
static int cli_manual(int word_count, char **words);
static int cli_version(int word_count, char **words);

static const struct command {
    const char *name;
    int (*run)(int word_count, char **words);
} commands[] = {
#define COMMAND(name, usage, summary) {#name, cli_##name},
#include "cli/commands.def"
#undef COMMAND
};

static const struct config_manual_command manual_commands[] = {
#define COMMAND(name, usage, summary) {usage, summary},
#include "cli/commands.def"
#undef COMMAND
};

static void write_commands(FILE *out)
{
    fprintf(out, "warmpath %s -- a load balancer for LLM inference\n\n", WARMPATH_VERSION);
    for (size_t i = 0; i < ARRAY_COUNT(manual_commands); i++) {
        fprintf(out, "  warmpath %-36s %s\n", manual_commands[i].usage, manual_commands[i].summary);
    }
}

// A page that did not reach its reader is a failure; a full disk shows only when the rest is written.
static int end_of_page(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? CLI_OK : CLI_FAILED;
}

static int cli_help(int word_count, char **words)
{
    (void)word_count;
    (void)words;
    write_commands(stdout);
    fprintf(stdout, "\nOptions of serve; each is also a key of the configuration file.\n\n");
    config_manual_write_help(stdout);
    return end_of_page();
}

static int cli_manual(int word_count, char **words)
{
    if (word_count == 1 && strcmp(words[0], "--man") == 0) {
        config_manual_write_man(stdout, &(struct config_manual_page){
                                            .version = WARMPATH_VERSION,
                                            .commands = manual_commands,
                                            .command_count = ARRAY_COUNT(manual_commands),
                                        });
    } else if (word_count == 1 && strcmp(words[0], "--markdown") == 0) {
        config_manual_write_markdown(stdout);
    } else {
        fprintf(stderr, "warmpath manual: say --man or --markdown\n");
        return CLI_USAGE;
    }
    return end_of_page();
}

static int cli_version(int word_count, char **words)
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

// The others read a table of flags, which can print itself (flags.h).
static bool has_common_help(const struct command *command)
{
    return command->run == cli_serve || command->run == cli_check || command->run == cli_help ||
           command->run == cli_manual || command->run == cli_version;
}

int cli_run(int argc, char **argv)
{
    if (argc < 2) {
        write_commands(stderr);
        return CLI_USAGE;
    }
    if (is_help(argv[1])) {
        return cli_help(0, NULL);
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            bool wants_help = argc > 2 && is_help(argv[2]) && has_common_help(&commands[i]);
            return wants_help ? cli_help(0, NULL) : commands[i].run(argc - 2, argv + 2);
        }
    }
    fprintf(stderr, "warmpath: no command %s; `warmpath help` lists them\n", argv[1]);
    return CLI_USAGE;
}
