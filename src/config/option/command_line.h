// SPDX-License-Identifier: Apache-2.0
//
// command_line.h -- how the words of a command line are cut, and those of serve as a source of its
// configuration.
//
//     --config FILE                   where the rest is written
//     --limits-body-size 8m           any option; also --limits-body-size=8m
//     --half-close                    a switch alone is true
//
// config_load checks whether an option exists and what its value means.
#pragma once

#include "base/status.h"

struct config_error;
struct config_option_table;
struct config_source;

// Takes the flag in words[0], which begins with `--`, and its value; returns how many words these
// are.  Cuts the word at its `=`.  A switch alone is "true"; in a table with a row for words that
// are not flags, a switch does not take the next word.  `*value` is NULL if the value is missing.
int config_command_line_take(const struct config_option_table *table, int word_count, char **words,
                             char **value);

// Fills `out` from `words`, which do not include the program or the sub-command.  `pairs` needs
// room for two entries for each word.  Keeps and changes the words: a word is cut at its `=`.
// STATUS_MALFORMED: a word is not a flag, or the value of one is missing.
enum status config_command_line_read(char **words, int word_count, const char **pairs,
                                     struct config_source *out, struct config_error *error);
