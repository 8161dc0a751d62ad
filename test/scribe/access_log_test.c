// SPDX-License-Identifier: Apache-2.0

#include "scribe/access_log.h"

#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char directory[] = "/tmp/access_log_test_XXXXXX";
static char all_path[64];
static char slow_path[64];
static struct access_log *the_log;

static void open_log(const struct access_log_rules *rules, bool has_slow)
{
    char error[access_log_error_size];
    if (all_path[0] == '\0') {
        ASSERT(mkdtemp(directory) != NULL);
        snprintf(all_path, sizeof(all_path), "%s/all", directory);
        snprintf(slow_path, sizeof(slow_path), "%s/slow", directory);
    }
    unlink(all_path);
    unlink(slow_path);
    ASSERT(access_log_open(&(struct access_log_options){.path = all_path,
                                                        .slow_path = has_slow ? slow_path : NULL,
                                                        .rules = *rules},
                           &the_log, error) == STATUS_OK);
}

__attribute__((destructor)) static void clear_place(void)
{
    if (all_path[0] != '\0') {
        unlink(all_path);
        unlink(slow_path);
        rmdir(directory);
    }
}

static void note(struct receipt receipt)
{
    static _Alignas(8) uint8_t memory[receipt_size_max];
    receipt_write(&receipt, &(struct receipt_parts){0}, memory);
    access_log_note(the_log, (const struct receipt *)memory, 0);
}

static char text[1 << 20];

static uint32_t lines_of(const char *path, const char *word)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd == -1 ? 0 : read(fd, text, sizeof(text) - 1);
    uint32_t count = 0;
    ASSERT(size >= 0);
    text[size] = '\0';
    close(fd);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        count++;
    }
    return count;
}

TEST(failures_and_slow_ones_are_always_written_and_of_the_rest_one_in_so_many)
{
    open_log(&(struct access_log_rules){.every = 10, .slow_first_ms = 100, .slow_total_ms = 1000},
             true);
    for (uint64_t i = 0; i < 100; i++) {
        note((struct receipt){.id_hash = i, .outcome = RECEIPT_OK, .end_us = 1000000});
    }
    for (unsigned outcome = RECEIPT_OK; outcome < RECEIPT_OUTCOME_COUNT; outcome++) {
        note((struct receipt){.id_hash = 1, .outcome = outcome, .end_us = 5});
    }
    note((struct receipt){.id_hash = 1, .outcome = RECEIPT_OK, .first_us = 100001});
    note((struct receipt){.id_hash = 1, .outcome = RECEIPT_OK, .end_us = 1000001});
    access_log_close(&the_log, 0, 0);
    CHECK(the_log == NULL);
    CHECK_EQ(lines_of(all_path, "\"outcome\":\"ok\""), 12);
    static const char *const always[] = {"busy", "failed", "broken", "refused"};
    for (size_t i = 0; i < ARRAY_COUNT(always); i++) {
        CHECK_EQ(lines_of(all_path, always[i]), 1);
    }
    CHECK_EQ(lines_of(all_path, "\n"), 16);
    CHECK_EQ(lines_of(all_path, "\"slow\":"), 2);
    CHECK_EQ(lines_of(slow_path, "\n"), 2);
    CHECK_EQ(lines_of(slow_path, "\"slow\":\"first\"}\n"), 1);
    CHECK_EQ(lines_of(slow_path, "\"slow\":\"total\"}\n"), 1);
}

TEST(rules_can_change_while_it_runs)
{
    open_log(&(struct access_log_rules){.every = 1}, false);
    note((struct receipt){.id_hash = 1, .outcome = RECEIPT_OK, .first_us = 9000000});
    access_log_set_rules(the_log, &(struct access_log_rules){.every = 2, .form = ACCESS_LOG_TEXT});
    note((struct receipt){.id_hash = 1, .outcome = RECEIPT_OK});
    note((struct receipt){.id_hash = 2, .outcome = RECEIPT_OK});
    access_log_write(the_log, 0);
    CHECK_EQ(access_log_totals(the_log).written, 2);
    access_log_close(&the_log, 0, 0);
    CHECK_EQ(lines_of(all_path, "{\"time\":"), 1);
    CHECK_EQ(lines_of(all_path, " --- ok - - - prompt=0 "), 1);
    CHECK_EQ(lines_of(all_path, "\n"), 2);
}

TEST(a_terminal_gets_text_and_anything_else_json)
{
    char error[access_log_error_size];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master != -1 && grantpt(master) == 0 && unlockpt(master) == 0);
    char name[64];
    CHECK(ptsname_r(master, name, sizeof(name)) == 0);
    int slave = open(name, O_RDWR | O_NOCTTY); // so that what comes is kept
    CHECK_EQ(access_log_open(&(struct access_log_options){.path = name, .rules.every = 1}, &the_log,
                             error),
             STATUS_OK);
    note((struct receipt){.outcome = RECEIPT_OK});
    access_log_close(&the_log, 0, 1000);
    ssize_t size = read(master, text, sizeof(text) - 1);
    close(slave);
    close(master);
    CHECK(size > 0);
    text[size] = '\0';
    CHECK(strncmp(text, "1970-01-01T00:00:00.000Z --- ok ", 32) == 0);
}

TEST(a_file_that_cannot_be_opened_is_named)
{
    char error[access_log_error_size] = "";
    CHECK_EQ(access_log_open(&(struct access_log_options){.slow_path = "/nowhere/at/all"}, &the_log,
                             error),
             STATUS_IO);
    CHECK_STR(error, "slow log /nowhere/at/all cannot be opened: No such file or directory");
}

TEST(without_files_nothing_is_written)
{
    char error[access_log_error_size];
    CHECK_EQ(access_log_open(&(struct access_log_options){.rules.every = 1}, &the_log, error),
             STATUS_OK);
    note((struct receipt){.outcome = RECEIPT_OK});
    CHECK(!access_log_is_full(the_log));
    access_log_write(the_log, 0);
    access_log_reopen(the_log, 0);
    CHECK_EQ(access_log_totals(the_log).written, 0);
    access_log_close(&the_log, 0, 1000);
    access_log_close(&the_log, 0, 1000);
}

static void *read_late(void *argument)
{
    int fd = *(int *)argument;
    struct timespec pause = {.tv_nsec = 30000000};
    static char bytes[1 << 20];
    size_t size = 0;
    ssize_t more;
    nanosleep(&pause, NULL);
    while ((more = read(fd, bytes + size, sizeof(bytes) - size)) > 0) {
        size += (size_t)more;
    }
    uintptr_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return (void *)count; // NOLINT: a number
}

TEST(a_reader_that_is_slow_gets_the_last_lines_too)
{
    char error[access_log_error_size];
    char name[64];
    int ends[2];
    pthread_t thread;
    void *count = NULL;
    CHECK(pipe(ends) == 0);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", ends[1]);
    CHECK_EQ(access_log_open(&(struct access_log_options){.path = name, .rules.every = 1}, &the_log,
                             error),
             STATUS_OK);
    close(ends[1]);
    for (int i = 0; i < 150; i++) { // more than a pipe holds
        note((struct receipt){.outcome = RECEIPT_OK});
        if (access_log_is_full(the_log)) {
            access_log_write(the_log, 0);
        }
    }
    CHECK_EQ(access_log_totals(the_log).dropped, 0);
    CHECK(pthread_create(&thread, NULL, read_late, &ends[0]) == 0);
    access_log_close(&the_log, 0, 10000);
    pthread_join(thread, &count);
    close(ends[0]);
    CHECK_EQ((uintptr_t)count, 150);
}
