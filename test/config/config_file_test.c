// SPDX-License-Identifier: Apache-2.0

#include "config/config_file.h"

#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

// A file with `size` bytes "x"; its path is in the caller's hands to unlink.
static void write_file(char *path, size_t size)
{
    int fd = mkstemp(path);
    ASSERT(fd != -1);
    for (size_t i = 0; i < size; i++) {
        ssize_t written = write(fd, "x", 1);
        ASSERT(written == 1);
    }
    close(fd);
}

static enum status read_file_of(size_t file_size, size_t capacity, size_t *size)
{
    char path[] = "/tmp/config_file_test.XXXXXX";
    char bytes[64];

    write_file(path, file_size);
    enum status status = config_file_read(path, bytes, capacity, size);
    unlink(path);
    return status;
}

TEST(reads_a_file_up_to_the_very_last_byte_of_its_room)
{
    size_t size = 99;
    CHECK_EQ(read_file_of(0, 8, &size), STATUS_OK);
    CHECK_EQ(size, 0);
    CHECK_EQ(read_file_of(8, 8, &size), STATUS_OK);
    CHECK_EQ(size, 8);
}

TEST(refuses_one_byte_more_and_leaves_the_size_alone)
{
    size_t size = 99;
    CHECK_EQ(read_file_of(9, 8, &size), STATUS_TOO_LARGE);
    CHECK_EQ(size, 99);
}

TEST(an_unreadable_file_has_the_reason)
{
    char bytes[8];
    size_t size = 99;
    CHECK_EQ(config_file_read("/no/such/file", bytes, sizeof(bytes), &size), STATUS_IO);
    CHECK_EQ(errno, ENOENT);
    CHECK_EQ(config_file_read("/", bytes, sizeof(bytes), &size), STATUS_IO);
    CHECK_EQ(errno, EISDIR);
    CHECK_EQ(size, 99);
}

TEST(no_path_leaks_a_descriptor)
{
    size_t size;
    char bytes[8];
    int before = dup(0);
    close(before);
    CHECK_EQ(read_file_of(1, 8, &size), STATUS_OK);
    CHECK_EQ(read_file_of(9, 8, &size), STATUS_TOO_LARGE);
    CHECK_EQ(config_file_read("/", bytes, sizeof(bytes), &size), STATUS_IO);
    int after = dup(0);
    close(after);
    CHECK_EQ(after, before);
}
