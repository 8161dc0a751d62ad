// SPDX-License-Identifier: Apache-2.0

#include "scribe/line_file.h"

#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/line_file_test_XXXXXX";
static char path[64];
static char moved[72];
static struct line_file file;

static void make_place(void)
{
    if (path[0] == '\0') {
        ASSERT(mkdtemp(directory) != NULL);
        snprintf(path, sizeof(path), "%s/f", directory);
        snprintf(moved, sizeof(moved), "%s.1", path);
        ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
        ASSERT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    }
    (void)mkdir(directory, 0700);
    unlink(path);
    unlink(moved);
    memset(&file, 0, sizeof(file));
}

__attribute__((destructor)) static void clear_place(void)
{
    if (path[0] != '\0') {
        unlink(path);
        unlink(moved);
        rmdir(directory);
    }
}

static bool add(const char *line, uint64_t now_ms)
{
    struct text *out = line_file_begin(&file, now_ms);
    if (out == NULL) {
        return false;
    }
    text_add_str(out, line);
    line_file_end(&file);
    return true;
}

static const char *content_of(const char *name)
{
    static char text[4096];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd == -1 ? 0 : read(fd, text, sizeof(text) - 1);
    ASSERT(size >= 0);
    text[size] = '\0';
    if (fd != -1) {
        close(fd);
    }
    return text;
}

TEST(lines_wait_until_they_are_written)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    CHECK(add("one\n", 0) && add("two\n", 0));
    CHECK_STR(content_of(path), "");
    line_file_write(&file, 0);
    CHECK_STR(content_of(path), "one\ntwo\n");
    CHECK_EQ(file.written, 2);
    line_file_close(&file);
    CHECK_EQ(file.dropped, 0);
}

TEST(a_full_device_costs_lines_and_is_tried_again_once_a_second)
{
    make_place();
    CHECK_EQ(line_file_open(&file, "/dev/full", "log"), STATUS_OK);
    CHECK(add("one\n", 1000));
    line_file_write(&file, 1000);
    CHECK_EQ(file.dropped, 1);
    CHECK(!add("two\n", 1999));
    CHECK_EQ(file.dropped, 2);
    CHECK(add("three\n", 2000));
    line_file_write(&file, 2000);
    CHECK_EQ(file.dropped, 3);
    CHECK_EQ(file.written, 0);
    line_file_close(&file);
}

static void end_disk_at(rlim_t size)
{
    struct rlimit limit;
    ASSERT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = size;
    ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

TEST(a_disk_that_has_room_again_gets_whole_lines)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    CHECK(add("whole\n", 0));
    line_file_write(&file, 0);
    CHECK(add("longer than there is room\n", 10));
    end_disk_at(10);
    line_file_write(&file, 10);
    end_disk_at(RLIM_INFINITY);
    CHECK(!add("lost\n", 20));
    CHECK(add("next\n", 1010));
    line_file_write(&file, 1010);
    CHECK_STR(content_of(path), "whole\nnext\n");
    CHECK_EQ(file.written, 2);
    CHECK_EQ(file.dropped, 2);
    CHECK(!file.is_failing);
    line_file_close(&file);
}

TEST(a_directory_that_vanished_and_came_back_has_a_file_again)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    unlink(path);
    CHECK(rmdir(directory) == 0);
    CHECK(add("one\n", 0));
    line_file_write(&file, 0);
    CHECK_EQ(file.dropped, 1);
    CHECK(mkdir(directory, 0700) == 0);
    CHECK(add("two\n", 1000));
    line_file_write(&file, 1000);
    CHECK_STR(content_of(path), "two\n");
    line_file_close(&file);
}

TEST(a_file_that_was_deleted_is_made_anew_and_nothing_is_lost)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    CHECK(add("one\n", 0));
    unlink(path);
    line_file_write(&file, 0);
    CHECK_STR(content_of(path), "one\n");
    CHECK_EQ(file.dropped, 0);
    line_file_close(&file);
}

TEST(gathered_lines_go_to_the_old_file_and_later_ones_to_the_new)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    CHECK(add("old\n", 0));
    CHECK(rename(path, moved) == 0);
    line_file_reopen(&file, 0);
    CHECK(add("new\n", 0));
    line_file_write(&file, 0);
    CHECK_STR(content_of(moved), "old\n");
    CHECK_STR(content_of(path), "new\n");
    line_file_close(&file);
}

TEST(a_name_that_cannot_be_opened_again_costs_lines_until_it_can)
{
    make_place();
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    unlink(path);
    CHECK(mkdir(path, 0700) == 0);
    line_file_reopen(&file, 5);
    CHECK(!add("one\n", 6));
    CHECK(rmdir(path) == 0);
    CHECK(add("two\n", 1005));
    line_file_write(&file, 1005);
    CHECK_STR(content_of(path), "two\n");
    line_file_close(&file);
}

// Reads until nothing comes, and counts lines that are what they should be.
static uint32_t read_lines(int fd, uint32_t *bad)
{
    static char text[1 << 20];
    static size_t size;
    uint32_t count = 0;
    ssize_t more;
    while ((more = read(fd, text + size, sizeof(text) - size)) > 0) {
        size += (size_t)more;
    }
    size_t begin = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n') {
            *bad += i - begin != 99 || text[begin] != 'a' || text[i - 1] != 'z';
            begin = i + 1;
            count++;
        }
    }
    memmove(text, text + begin, size - begin);
    size -= begin;
    return count;
}

TEST(an_unread_pipe_has_whole_lines_and_the_rest_is_counted)
{
    enum { plenty = 2 * line_file_batch / 100 }; // lines
    char line[102];
    uint32_t put = 0;
    uint32_t got = 0;
    uint32_t bad = 0;
    memset(line, 'm', sizeof(line));
    line[0] = 'a';
    line[98] = 'z';
    memcpy(line + 99, "\n", 2);
    make_place();
    CHECK(mkfifo(path, 0600) == 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(reader != -1);
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    uint64_t now_ms = 0;
    for (uint32_t i = 0; i < plenty; i++, put++, now_ms++) {
        (void)add(line, now_ms);
        line_file_write(&file, now_ms);
    }
    CHECK(file.dropped > 1000 && line_file_waits(&file));
    for (uint32_t i = 0; i < plenty; i++, put++, now_ms++) {
        got += read_lines(reader, &bad);
        (void)add(line, now_ms);
        line_file_write(&file, now_ms);
    }
    got += read_lines(reader, &bad);
    CHECK(!line_file_waits(&file));
    line_file_close(&file);
    got += read_lines(reader, &bad);
    close(reader);
    CHECK_EQ(bad, 0);
    CHECK_EQ(got, file.written);
    CHECK_EQ(file.written + file.dropped, put);
    CHECK(file.written > plenty);
}

TEST(a_reader_that_comes_back_begins_with_a_whole_line)
{
    make_place();
    CHECK(mkfifo(path, 0600) == 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK_EQ(line_file_open(&file, path, "log"), STATUS_OK);
    close(reader);
    CHECK(add("one\n", 0));
    line_file_write(&file, 0);
    CHECK_EQ(file.dropped, 1);
    reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    CHECK(add("two\n", 1000));
    line_file_write(&file, 1000);
    char text[16] = "";
    CHECK_EQ(read(reader, text, sizeof(text) - 1), 4);
    CHECK_STR(text, "two\n");
    close(reader);
    line_file_close(&file);
}
