// SPDX-License-Identifier: Apache-2.0

#include "sys/terminal.h"

#include <unistd.h>

bool terminal_is(FILE *file)
{
    return isatty(fileno(file)) == 1;
}
