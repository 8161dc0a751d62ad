// SPDX-License-Identifier: Apache-2.0
//
// terminal.h -- whether a person is watching.
#pragma once

#include <stdbool.h>
#include <stdio.h>

bool terminal_is(FILE *file);
