// SPDX-License-Identifier: Apache-2.0
//
// command_line.h -- the words of the command line as a configuration source.
//
//     --config FILE                   where the rest is written
//     --limits-body-size 8m           any option; also --limits-body-size=8m
//     --half-close                    a switch alone is true
//
// config_load checks whether an option exists and what its value means.
#pragma once

#include "base/status.h"

struct config_error;
struct config_source;

// Fills `out` from `words`, which do not include the program or the sub-command.  `pairs` needs
// room for two entries for each word.  Keeps and changes the words: a word is cut at its `=`.
// STATUS_MALFORMED: a word is not a flag, or the value of one is missing.
enum status config_command_line_read(char **words, int word_count, const char **pairs,
                                     struct config_source *out, struct config_error *error);
