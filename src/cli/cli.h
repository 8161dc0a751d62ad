// SPDX-License-Identifier: Apache-2.0
//
// cli.h -- the sub-commands of the program.
//
// Exit status: 0 when all went well, 1 when something failed while running, 2 when the command line
// or the configuration is wrong.
#pragma once

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

int cli_run(int argc, char **argv);

// Each takes the words behind its name.
int cli_serve(int word_count, char **words);
int cli_check(int word_count, char **words);
int cli_audit(int word_count, char **words);
int cli_calibrate(int word_count, char **words);
int cli_sim(int word_count, char **words);
int cli_engine(int word_count, char **words);
int cli_load(int word_count, char **words);
int cli_tokenize(int word_count, char **words);
int cli_certify(int word_count, char **words);
int cli_explain(int word_count, char **words);
int cli_top(int word_count, char **words);
