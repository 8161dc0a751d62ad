// SPDX-License-Identifier: Apache-2.0

#include "sys/append_file.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t no_limit = UINT64_MAX;

static char directory[] = "/tmp/append_file_test_XXXXXX";
static char path[64];

// A name in a directory of our own, where nothing is.
static void make_place(void)
{
    if (path[0] == '\0') {
        ASSERT(mkdtemp(directory) != NULL);
        snprintf(path, sizeof(path), "%s/f", directory);
    }
    unlink(path);
}

__attribute__((destructor)) static void clear_place(void)
{
    if (path[0] != '\0') {
        unlink(path);
        rmdir(directory);
    }
}

static const char *content_of(const char *name)
{
    static char text[4096];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ASSERT(fd != -1);
    ssize_t size = read(fd, text, sizeof(text) - 1);
    ASSERT(size >= 0);
    text[size] = '\0';
    close(fd);
    return text;
}

TEST(portions_are_appended_in_order)
{
    struct append_file file;
    make_place();
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("one\n"), no_limit), STATUS_OK);
    append_file_close(&file);
    append_file_close(&file);
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("two\n"), no_limit), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("three\n"), no_limit), STATUS_OK);
    CHECK_STR(content_of(path), "one\ntwo\nthree\n");
    append_file_close(&file);
}

TEST(only_the_owner_may_read_it)
{
    struct append_file file;
    struct stat facts;
    make_place();
    mode_t mask = umask(0);
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    umask(mask);
    CHECK(fstat(file.fd, &facts) == 0);
    CHECK_EQ(facts.st_mode & 0777, 0600);
    append_file_close(&file);
}

TEST(a_limit_is_not_passed)
{
    struct append_file file;
    make_place();
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("12345"), 8), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("6789"), 8), STATUS_TOO_LARGE);
    CHECK_EQ(append_file_add(&file, slice_str("678"), 8), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("9"), 7), STATUS_TOO_LARGE);
    CHECK_STR(content_of(path), "12345678");
    append_file_close(&file);
}

// As if the disk ended there.
static void end_disk_at(rlim_t size)
{
    ASSERT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    struct rlimit limit;
    ASSERT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = size;
    ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

TEST(a_portion_that_does_not_fit_leaves_nothing)
{
    struct append_file file;
    make_place();
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("whole\n"), no_limit), STATUS_OK);
    end_disk_at(10);
    enum status status = append_file_add(&file, slice_str("seven and more\n"), no_limit);
    int error = errno;
    end_disk_at(RLIM_INFINITY);
    CHECK_EQ(status, STATUS_IO);
    CHECK_EQ(error, EFBIG);
    CHECK_STR(content_of(path), "whole\n");
    CHECK_EQ(append_file_add(&file, slice_str("next\n"), no_limit), STATUS_OK);
    CHECK_STR(content_of(path), "whole\nnext\n");
    append_file_close(&file);
}

TEST(a_torn_portion_that_cannot_be_cut_off_blocks_further_writes)
{
    struct append_file file;
    char name[64];
    int fd = memfd_create("append_file_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd != -1);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    CHECK_EQ(append_file_open(name, &file), STATUS_OK);
    end_disk_at(4);
    enum status status = append_file_add(&file, slice_str("too long\n"), no_limit);
    end_disk_at(RLIM_INFINITY);
    CHECK_EQ(status, STATUS_IO);
    CHECK_EQ(append_file_add(&file, slice_str("next\n"), no_limit), STATUS_IO);
    CHECK_EQ(errno, EPERM);
    CHECK_STR(content_of(name), "too ");
    append_file_close(&file);
    close(fd);
}

TEST(another_thing_than_a_file_is_an_error_with_a_reason)
{
    struct append_file file;
    CHECK_EQ(append_file_open("/dev/full", &file), STATUS_OK);
    CHECK_EQ(append_file_add(&file, slice_str("x"), no_limit), STATUS_IO);
    CHECK_EQ(errno, ENOSPC);
    append_file_close(&file);
    CHECK_EQ(append_file_open("/nowhere/at/all", &file), STATUS_IO);
    CHECK_EQ(errno, ENOENT);
    make_place();
    CHECK(mkfifo(path, 0600) == 0);
    CHECK_EQ(append_file_open(path, &file), STATUS_IO); // it has no reader
    CHECK_EQ(errno, ENXIO);
}

TEST(a_file_that_was_deleted_is_gone)
{
    struct append_file file;
    make_place();
    CHECK_EQ(append_file_open(path, &file), STATUS_OK);
    CHECK(!append_file_is_gone(&file) && !file.is_stream && !append_file_is_terminal(&file));
    unlink(path);
    CHECK(append_file_is_gone(&file));
    append_file_close(&file);
}

// Standard output is `fd` until the returned one is put back.
static int divert(int fd)
{
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    ASSERT(saved != -1 && dup2(fd, STDOUT_FILENO) != -1);
    return saved;
}

static void undivert(int saved)
{
    ASSERT(dup2(saved, STDOUT_FILENO) != -1);
    close(saved);
}

// Whether fed bytes come out, piece by piece, without waiting for a reader that sleeps.
static bool feeds(int in, int out, bool is_shared)
{
    static uint8_t bytes[1 << 20];
    static uint8_t got[sizeof(bytes)];
    struct append_file file;
    size_t fed = 0;
    size_t read_size = 0;
    int saved = divert(in);
    enum status opened = append_file_open_output(&file);
    undivert(saved);

    if (opened != STATUS_OK || !file.is_stream || file.is_shared != is_shared) {
        return false;
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
    while (read_size < sizeof(got)) {
        size_t taken;
        enum status status =
            append_file_feed(&file, slice_of(bytes + fed, sizeof(bytes) - fed), &taken);
        fed += taken;
        if (status != (fed < sizeof(bytes) ? STATUS_AGAIN : STATUS_OK)) {
            return false;
        }
        ssize_t size = read(out, got + read_size, sizeof(got) - read_size);
        read_size += size > 0 ? (size_t)size : 0;
    }
    append_file_close(&file);
    return memcmp(got, bytes, sizeof(bytes)) == 0 && (fcntl(in, F_GETFL) & O_NONBLOCK) == 0;
}

TEST(a_pipe_and_a_socket_take_bytes_without_blocking)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(feeds(ends[1], ends[0], false));
    close(ends[0]);
    close(ends[1]);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(feeds(ends[1], ends[0], true));
    close(ends[0]);
    close(ends[1]);
}

TEST(a_reader_that_left_is_an_error)
{
    int ends[2];
    size_t taken = 1;
    struct append_file file;
    ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK(pipe(ends) == 0);
    int saved = divert(ends[1]);
    enum status opened = append_file_open_output(&file);
    undivert(saved);
    CHECK_EQ(opened, STATUS_OK);
    close(ends[0]);
    CHECK_EQ(append_file_feed(&file, slice_str("x\n"), &taken), STATUS_IO);
    CHECK_EQ(errno, EPIPE);
    CHECK_EQ(taken, 0);
    append_file_close(&file);
    close(ends[1]);
}

// As `> file 2>&1` does it: one place to write, shared.
TEST(output_to_a_file_is_appended_beside_the_lines_of_others)
{
    struct append_file file;
    make_place();
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd != -1);
    int saved = divert(fd);
    enum status opened = append_file_open_output(&file);
    undivert(saved);
    CHECK_EQ(opened, STATUS_OK);
    CHECK(!file.is_stream);
    CHECK_EQ(append_file_add(&file, slice_str("one\n"), no_limit), STATUS_OK);
    CHECK_EQ(write(fd, "two\n", 4), 4);
    CHECK_EQ(append_file_add(&file, slice_str("three\n"), no_limit), STATUS_OK);
    CHECK_STR(content_of(path), "one\ntwo\nthree\n");
    append_file_close(&file);
    close(fd);
}
