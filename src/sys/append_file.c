// SPDX-License-Identifier: Apache-2.0

#include "sys/append_file.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { owner_only = 0600 };

enum status append_file_open(const char *path, struct append_file *out)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, owner_only);
    if (fd == -1) {
        return STATUS_IO;
    }
    *out = (struct append_file){.fd = fd};
    return STATUS_OK;
}

void append_file_close(struct append_file *file)
{
    if (file->fd != -1) {
        close(file->fd);
    }
    *file = (struct append_file){.fd = -1};
}

static enum status size_of(const struct append_file *file, uint64_t *out)
{
    struct stat facts;
    if (fstat(file->fd, &facts) == -1) {
        return STATUS_IO;
    }
    // What is no file has no size, and nothing to cut off.
    *out = S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
    return STATUS_OK;
}

static enum status mend(struct append_file *file)
{
    if (file->is_torn && ftruncate(file->fd, (off_t)file->whole_size) == -1 && errno != EINVAL) {
        return STATUS_IO;
    }
    file->is_torn = false;
    return STATUS_OK;
}

static enum status write_all(const struct append_file *file, struct slice bytes, size_t *written)
{
    *written = 0;
    while (*written < bytes.size) {
        ssize_t size = write(file->fd, bytes.bytes + *written, bytes.size - *written);
        if (size == 0) {
            errno = ENOSPC; // POSIX knows no such answer; asking for ever is worse than a guess
        }
        if (size == 0 || (size == -1 && errno != EINTR)) {
            return STATUS_IO;
        }
        *written += size > 0 ? (size_t)size : 0;
    }
    return STATUS_OK;
}

enum status append_file_add(struct append_file *file, struct slice portion, uint64_t size_max)
{
    uint64_t before = 0;
    size_t written = 0;
    ASSERT(file->fd != -1);

    if (mend(file) != STATUS_OK || size_of(file, &before) != STATUS_OK) {
        return STATUS_IO;
    }
    if (before > size_max || portion.size > size_max - before) {
        return STATUS_TOO_LARGE;
    }
    enum status status = write_all(file, portion, &written);
    if (status != STATUS_OK && written > 0) {
        int saved_errno = errno;
        file->is_torn = true;
        file->whole_size = before;
        (void)mend(file); // or later
        errno = saved_errno;
    }
    return status;
}
