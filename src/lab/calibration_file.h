// SPDX-License-Identifier: Apache-2.0
//
// calibration_file.h -- calibration files on disk, for the commands that simulate engines.
//
// Errors are printed to standard error in the command's name.
#pragma once

#include "sim/engine/calibration.h"

enum { calibration_file_size_max = 16 << 20 };

// The engine that --model and --calibration name.  Without a file it is one of those that we ship;
// without a model, the only one of the file.
bool calibration_file_profile(const char *command, const char *path, const char *model,
                              struct profile *out);

// Needs calibration_destroy when it was good.
bool calibration_file_read(const char *command, const char *path, struct calibration *out);

bool calibration_file_write(const char *command, const char *path,
                            const struct calibration *calibration);
