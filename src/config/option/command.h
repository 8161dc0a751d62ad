// SPDX-License-Identifier: Apache-2.0
//
// command.h -- the sub-commands of the program, one for each row of commands.def.
//
// Each takes the words behind its name and returns an exit status.  Its code stands in the module
// that it commands.
#pragma once

enum {
    COMMAND_OK = 0,
    COMMAND_FAILED = 1, // something failed while it ran
    COMMAND_USAGE = 2,  // the command line or the configuration is wrong
};

#define COMMAND(name, usage, summary) int command_##name(int word_count, char **words);
#include "config/option/commands.def"
#undef COMMAND
