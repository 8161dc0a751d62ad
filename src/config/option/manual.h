// SPDX-License-Identifier: Apache-2.0
//
// manual.h -- the options for people: --help, the manual page and docs/configuration.md.
//
// All three are written from the rows of options.def, so they cannot disagree with the parser.
// Output errors stay in the stream: ask ferror(out) at the end.
#pragma once

#include <stdio.h>

struct config_option_table;

// Plain text, at most 80 columns: every flag with its help, by group.
void config_manual_write_help(FILE *out);

// The same for the flags of a command with a table of its own.
void config_manual_write_flags(FILE *out, const struct config_option_table *table);

// warmpath(8), for man(1).
void config_manual_write_man(FILE *out);

// docs/configuration.md.
void config_manual_write_markdown(FILE *out);

// A configuration file that is complete, commented and accepted as it stands; part of the docs.
extern const char config_manual_example[];
