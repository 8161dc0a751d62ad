// SPDX-License-Identifier: Apache-2.0
//
// cli.h -- from the first word of the command line to a sub-command (config/option/command.h).
#pragma once

int cli_run(int argc, char **argv);
