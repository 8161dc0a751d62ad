// SPDX-License-Identifier: Apache-2.0

#include "sys/append_file.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    owner_only = 0600,
    // A pipe that says it has room takes as much without a wait.
    piece_size = 4096,
};

static bool is_file(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

enum status append_file_open(const char *path, struct append_file *out)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, owner_only);
    if (fd == -1) {
        return STATUS_IO;
    }
    *out = (struct append_file){.fd = fd, .is_stream = !is_file(fd)};
    return STATUS_OK;
}

// The flags of a descriptor belong to all who share it, our parent included.  So a stream is opened
// once more, where that is possible (a socket cannot be), and only that one does not wait.
enum status append_file_open_output(struct append_file *out)
{
    if (is_file(STDOUT_FILENO)) {
        int flags = fcntl(STDOUT_FILENO, F_GETFL);
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        if (fd == -1 || flags == -1 || fcntl(fd, F_SETFL, flags | O_APPEND) == -1) {
            return STATUS_IO;
        }
        *out = (struct append_file){.fd = fd};
        return STATUS_OK;
    }
    bool is_shared = false;
    int fd = open("/proc/self/fd/1", O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd == -1) {
        fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        is_shared = true;
    }
    if (fd == -1) {
        return STATUS_IO;
    }
    *out = (struct append_file){.fd = fd, .is_stream = true, .is_shared = is_shared};
    return STATUS_OK;
}

bool append_file_is_terminal(const struct append_file *file)
{
    return file->fd != -1 && isatty(file->fd) == 1;
}

bool append_file_is_gone(const struct append_file *file)
{
    struct stat facts;
    return !file->is_stream && fstat(file->fd, &facts) == 0 && facts.st_nlink == 0;
}

void append_file_close(struct append_file *file)
{
    if (file->fd != -1) {
        close(file->fd);
    }
    *file = (struct append_file){.fd = -1};
}

static enum status append_size_of(const struct append_file *file, uint64_t *out)
{
    struct stat facts;
    if (fstat(file->fd, &facts) == -1) {
        return STATUS_IO;
    }
    // A stream has no size, and nothing to cut off.
    *out = S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
    return STATUS_OK;
}

static enum status append_mend(struct append_file *file)
{
    if (file->is_torn && ftruncate(file->fd, (off_t)file->whole_size) == -1 && errno != EINVAL) {
        return STATUS_IO;
    }
    file->is_torn = false;
    return STATUS_OK;
}

static enum status append_write_all(const struct append_file *file, struct slice bytes,
                                    size_t *written)
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

    if (append_mend(file) != STATUS_OK || append_size_of(file, &before) != STATUS_OK) {
        return STATUS_IO;
    }
    if (before > size_max || portion.size > size_max - before) {
        return STATUS_TOO_LARGE;
    }
    enum status status = append_write_all(file, portion, &written);
    if (status != STATUS_OK && written > 0) {
        int saved_errno = errno;
        file->is_torn = true;
        file->whole_size = before;
        (void)append_mend(file); // or later
        errno = saved_errno;
    }
    return status;
}

static bool append_has_room(const struct append_file *file)
{
    struct pollfd asked = {.fd = file->fd, .events = POLLOUT};
    return !file->is_shared || (poll(&asked, 1, 0) == 1 && (asked.revents & POLLOUT) != 0);
}

// Never a wait: where the descriptor is shared and may be told to wait, a socket is told otherwise
// for this once, and a pipe gets no more than it has room for.
static ssize_t write_piece(const struct append_file *file, const uint8_t *bytes, size_t size)
{
    size = size < piece_size ? size : piece_size;
    if (!file->is_shared) {
        return write(file->fd, bytes, size);
    }
    ssize_t sent = send(file->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == -1 && errno == ENOTSOCK ? write(file->fd, bytes, size) : sent;
}

enum status append_file_feed(struct append_file *file, struct slice bytes, size_t *taken)
{
    ASSERT(file->fd != -1 && file->is_stream);

    *taken = 0;
    while (*taken < bytes.size) {
        if (!append_has_room(file)) {
            return STATUS_AGAIN;
        }
        ssize_t size = write_piece(file, bytes.bytes + *taken, bytes.size - *taken);
        if (size == -1 && errno != EINTR) {
            return errno == EAGAIN ? STATUS_AGAIN : STATUS_IO;
        }
        if (size == 0) {
            return STATUS_AGAIN;
        }
        *taken += size > 0 ? (size_t)size : 0;
    }
    return STATUS_OK;
}

void append_file_wait(const struct append_file *file, uint32_t wait_ms)
{
    struct pollfd asked = {.fd = file->fd, .events = POLLOUT};
    (void)poll(&asked, 1, (int)wait_ms);
}
