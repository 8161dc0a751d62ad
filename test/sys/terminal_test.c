// SPDX-License-Identifier: Apache-2.0

#include "sys/terminal.h"

#include "test.h"

#include <fcntl.h>
#include <stdlib.h>

TEST(a_file_is_no_terminal)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK(!terminal_is(file));
    fclose(file);
}

TEST(the_master_of_a_pseudo_terminal_is_one)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(fd != -1);
    FILE *file = fdopen(fd, "r+");
    CHECK(file != NULL);
    CHECK(terminal_is(file));
    fclose(file);
}
