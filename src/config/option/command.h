// SPDX-License-Identifier: Apache-2.0
//
// command.h -- the sub-commands of the program, one for each row of commands.def, and the parts
// that they share.
//
// Each takes the words behind its name and returns an exit status.  Its code stands in the module
// that it commands.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1, // something failed while it ran
    COMMAND_USAGE = 2,  // the command line or the configuration is wrong
};

#define COMMAND(name, usage, summary) int command_##name(int word_count, char **words);
#include "config/option/commands.def"
#undef COMMAND

struct command {
    const char *name;
    const char *usage;   // "serve [options]"
    const char *summary; // a sentence
};

// In the order of commands.def; NULL past the last.
const struct command *command_at(uint32_t index);

// Prints usage and summary.
void command_write_usage(const char *name);

// Prints "warmpath COMMAND: SUBJECT: WHY" to standard error; `why` may be NULL.  Returns false.
bool command_fail(const char *command, const char *subject, const char *why);

// Prints that no `kind` is called `word`, and which there are (nearest.h).  Returns false.
bool command_fail_name(const char *command, const char *kind, const char *word,
                       const char *(*name_at)(uint32_t index));

// Reads a file, or standard input for "-".  False: the reason was printed.
bool command_read_file(const char *command, const char *path, void *space, size_t capacity,
                       size_t *size);

// A file to write, or standard output for "-"; NULL: the reason was printed.
FILE *command_open_file(const char *command, const char *path);

// Closes it, if it is not NULL.  False: not all was written, and the reason was printed.
bool command_close_file(const char *command, const char *path, FILE **file);

// Whether all that was printed has reached standard output.
bool command_flush(void);
