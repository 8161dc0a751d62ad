// SPDX-License-Identifier: Apache-2.0

#include "sys/log.h"

#include "json/json.h"
#include "sys/log_state.h"
#include "test.h"

#include <errno.h>
#include <unistd.h>

static char captured[4096];

// Captures standard error while `write_lines` runs.
static void capture(void (*write_lines)(void))
{
    int ends[2];
    ASSERT(pipe(ends) == 0);
    int saved = dup(STDERR_FILENO);
    ASSERT(dup2(ends[1], STDERR_FILENO) != -1);
    write_lines();
    ASSERT(dup2(saved, STDERR_FILENO) != -1);
    close(saved);
    close(ends[1]);
    ssize_t size = read(ends[0], captured, sizeof(captured) - 1);
    captured[size > 0 ? size : 0] = '\0';
    close(ends[0]);
}

static void one_line(void)
{
    errno = EPIPE;
    log_warn("backend %s said \"%s\"", "http://a", "x\r\nforged: line");
}

TEST(a_line_has_time_and_level_and_cannot_forge_another)
{
    capture(one_line);
    CHECK_EQ(errno, EPIPE);
    CHECK(strstr(captured, "Z warn backend http://a said \"x??forged: line\"\n") != NULL);
    CHECK_EQ(captured[10], 'T');
    CHECK(strchr(captured, '\n') == captured + strlen(captured) - 1);
}

static void levels(void)
{
    log_debug("not this");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("this");
    log_set_level(LOG_LEVEL_ERROR);
    log_warn("nor this");
}

TEST(lines_above_the_level_are_dropped)
{
    capture(levels);
    CHECK(strstr(captured, "debug this\n") != NULL);
    CHECK(strstr(captured, "not this") == NULL && strstr(captured, "nor this") == NULL);
    log_set_level(LOG_LEVEL_INFO);
}

static void json_lines(void)
{
    log_set_format(LOG_FORMAT_JSON);
    log_warn("it said \"%s\"", "x\r\n\xff");
    log_error("%s\"%02000d", "\xc3\xa9", 0);
    log_set_format(LOG_FORMAT_TEXT);
}

TEST(as_json_a_line_is_one_object)
{
    capture(json_lines);
    CHECK(strstr(captured, "Z\",\"level\":\"warn\",\"message\":\"it said \\\"x???\\\"\"}\n") !=
          NULL);
    char *at = captured;
    for (int i = 0; i < 2; i++) {
        size_t size = strcspn(at, "\n");
        struct json json = json_open(slice_of(at, size));
        CHECK_EQ(json_close(&json), STATUS_OK);
        CHECK(strncmp(at, "{\"time\":\"20", 11) == 0);
        at += size + 1;
    }
    CHECK_EQ(*at, '\0');
}

static void many_lines(void)
{
    for (int i = 0; i < 100; i++) {
        log_warn_seldom(7, "backend %s: garbage %d", "a", i);
        log_warn_seldom(8, "backend %s: garbage %d", "b", i);
    }
    log_warn_seldom(7, "backend %s: something else", "a");
}

TEST(the_first_of_equal_lines_about_one_subject_is_written)
{
    capture(many_lines);
    CHECK(strstr(captured, "warn backend a: garbage 0\n") != NULL);
    CHECK(strstr(captured, "warn backend b: garbage 0\n") != NULL);
    CHECK(strstr(captured, "warn backend a: something else\n") != NULL);
    int lines = 0;
    for (const char *at = captured; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    CHECK_EQ(lines, 3);
}

static void long_line(void)
{
    log_error("%02000d", 0);
}

TEST(a_long_line_is_cut_and_still_ends)
{
    capture(long_line);
    CHECK(strlen(captured) < 1100);
    CHECK_EQ(captured[strlen(captured) - 1], '\n');
}

TEST(a_reader_that_does_not_read_blocks_no_writer)
{
    int ends[2];
    ASSERT(pipe(ends) == 0);
    int saved = dup(STDERR_FILENO);
    ASSERT(dup2(ends[1], STDERR_FILENO) != -1);
    for (int i = 0; i < 5000; i++) {
        log_error("%0100d", i); // ten times what a pipe holds
    }
    static char bytes[1 << 20];
    ssize_t size = read(ends[0], bytes, sizeof(bytes));
    log_error("after");
    ssize_t more = read(ends[0], captured, sizeof(captured) - 1);
    ASSERT(dup2(saved, STDERR_FILENO) != -1);
    close(saved);
    close(ends[0]);
    close(ends[1]);
    CHECK(size > 0 && more > 0);
    captured[more] = '\0';
    CHECK(strstr(captured, "lines were dropped here\n") != NULL);
    CHECK(strstr(captured, "error after\n") != NULL);
}

TEST(a_flapping_state_is_logged_a_few_times_and_its_last_value_always)
{
    struct log_state state = {0};
    uint32_t skipped = 0;
    uint32_t told = 0;
    uint64_t now_ms = 1000;
    for (uint32_t i = 0; i < 101; i++, now_ms += 100) {
        told += log_state_tells(&state, 1 + i % 2, now_ms, &skipped);
        CHECK(!log_state_tells(&state, 1 + i % 2, now_ms, &skipped));
        CHECK_EQ(skipped, 0);
    }
    CHECK_EQ(told, log_state_told_max);
    CHECK_EQ(state.said, 2); // and it is 1
    CHECK(!log_state_tells(&state, 1, 1000 + log_state_window_ms - 1, &skipped));
    CHECK(log_state_tells(&state, 1, 1000 + log_state_window_ms, &skipped));
    CHECK_EQ(skipped, 101 - log_state_told_max - 1);
    CHECK(!log_state_tells(&state, 1, 999999, &skipped));
    CHECK(log_state_tells(&state, 2, 999999, &skipped));
    CHECK_EQ(skipped, 0);
}
