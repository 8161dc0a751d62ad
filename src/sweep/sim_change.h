// SPDX-License-Identifier: Apache-2.0
//
// sim_change.h -- reads the words of `warmpath sim --change`:
//
//     join:2@60s           leave:1@90s           slow:3:5x@30s-36s
//
// Errors are printed to standard error.
#pragma once

#include "sim/lab_change.h"

// The whole language, for messages and help.
#define SIM_CHANGE_WORDS "join:N@TIME, leave:BACKEND@TIME or slow:BACKEND:FACTORx@TIME-TIME"

// Keeps `word`, as the name of the change.
bool sim_change_read(const char *word, struct lab_change *out);
