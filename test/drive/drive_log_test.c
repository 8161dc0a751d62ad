// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_log.h"

#include "drive/drive_tally.h"
#include "json/json.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const uint64_t begin_us = 100000000;
static struct drive_response answer;

// The line of one request.
static const char *line_of(const struct drive_ending *ending)
{
    static char line[8192];
    char path[] = "/tmp/drive_log_XXXXXX";
    int fd = mkstemp(path);
    ASSERT(fd != -1);
    struct drive_log *log = drive_log_open(path);
    ASSERT(log != NULL);
    drive_log_add(log, ending);
    bool is_written = drive_log_close(&log);
    ASSERT(is_written && log == NULL);
    ssize_t size = read(fd, line, sizeof(line) - 1);
    close(fd);
    unlink(path);
    ASSERT(size > 0);
    line[size] = '\0';
    ASSERT(line[size - 1] == '\n' && strchr(line, '\n') == line + size - 1);
    struct json json = json_open(slice_str(line));
    enum status status = json_close(&json);
    ASSERT(status == STATUS_OK);
    return line;
}

static const struct work_item item = {.number = 7, .session = 3, .due_us = 1000000};

static struct drive_ending ending_of(void)
{
    return (struct drive_ending){
        .item = &item,
        .response = &answer,
        .counts = true,
        .begin_us = begin_us,
        .sent_us = begin_us + 1000500,
        .now_us = begin_us + 1400000,
    };
}

TEST(a_line_has_predicted_and_actual_cached_tokens)
{
    memset(&answer, 0, sizeof(answer));
    answer.status = 200;
    answer.first_us = begin_us + 1040000;
    answer.last_us = begin_us + 1310250;
    answer.usage = (struct response_usage){.has_prompt_tokens = true,
                                           .has_cached_tokens = true,
                                           .prompt_tokens = 412,
                                           .cached_tokens = 384,
                                           .completion_tokens = 64};
    snprintf(answer.backend, sizeof(answer.backend), "http://127.0.0.1:9001");
    snprintf(answer.decision, sizeof(answer.decision),
             "policy=warm; matched_tokens=400; prompt_tokens=412");
    struct drive_ending ending = ending_of();
    CHECK_STR(line_of(&ending),
              "{\"number\":7,\"session\":3,\"due_ms\":1000.000,\"sent_ms\":1000.500,"
              "\"first_ms\":40.000,\"last_ms\":310.250,\"error\":null,\"status\":200,"
              "\"prompt_tokens\":412,\"cached_tokens\":384,\"output_tokens\":64,\"counts\":true,"
              "\"backend\":\"http://127.0.0.1:9001\",\"predicted_tokens\":400,"
              "\"decision\":\"policy=warm; matched_tokens=400; prompt_tokens=412\"}\n");
}

TEST(unknown_members_are_null)
{
    memset(&answer, 0, sizeof(answer));
    answer.error = DRIVE_REFUSED;
    struct drive_ending ending = ending_of();
    ending.counts = false;
    CHECK_STR(line_of(&ending),
              "{\"number\":7,\"session\":3,\"due_ms\":1000.000,\"sent_ms\":1000.500,"
              "\"first_ms\":null,\"last_ms\":null,\"error\":\"refused\",\"status\":0,"
              "\"prompt_tokens\":null,\"cached_tokens\":null,\"output_tokens\":null,"
              "\"counts\":false,\"backend\":null,\"predicted_tokens\":null,\"decision\":null}\n");
}

TEST(the_longest_headers_fit_into_a_line)
{
    memset(&answer, 0, sizeof(answer));
    memset(answer.backend, 1, sizeof(answer.backend) - 1);
    memset(answer.decision, 1, sizeof(answer.decision) - 1);
    answer.usage = (struct response_usage){.has_prompt_tokens = true,
                                           .has_cached_tokens = true,
                                           .prompt_tokens = UINT64_MAX,
                                           .cached_tokens = UINT64_MAX,
                                           .completion_tokens = UINT64_MAX};
    answer.first_us = answer.last_us = UINT64_MAX;
    answer.error = DRIVE_UNREACHABLE;
    struct drive_ending ending = ending_of();
    line_of(&ending);
}

TEST(a_place_that_cannot_be_written_is_known_at_once_and_a_full_one_at_the_end)
{
    CHECK(drive_log_open("/nowhere/at/all") == NULL);
    struct drive_log *log = drive_log_open("/dev/full");
    ASSERT(log != NULL);
    memset(&answer, 0, sizeof(answer));
    struct drive_ending ending = ending_of();
    drive_log_add(log, &ending);
    CHECK(!drive_log_close(&log));
    CHECK(drive_log_close(&log));
}
