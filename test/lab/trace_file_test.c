// SPDX-License-Identifier: Apache-2.0

#include "lab/trace_file.h"

#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];
static char error[trace_file_error_size];
static struct mooncake_trace trace;

static bool read_text(const char *text)
{
    snprintf(path, sizeof(path), "/tmp/trace_file_test.XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    bool is_good = trace_file_read(path, &trace, error);
    ASSERT(unlink(path) == 0);
    return is_good;
}

TEST(a_trace_is_read)
{
    CHECK(read_text("{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, "
                    "\"hash_ids\": [1, 2]}\n"));
    CHECK_EQ(trace.request_count, 1);
    CHECK_EQ(trace.requests[0].input_tokens, 700);
    mooncake_destroy(&trace);
}

TEST(a_line_that_is_wrong_is_named_with_its_file)
{
    CHECK(!read_text("{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 5, "
                     "\"hash_ids\": [1, 2]}\nnonsense\n"));
    CHECK(strncmp(error, path, strlen(path)) == 0);
    CHECK(strstr(error, "2") != NULL);
}

TEST(a_file_that_is_not_there_is_named)
{
    CHECK(!trace_file_read("/nowhere/trace.jsonl", &trace, error));
    CHECK_STR(error, "/nowhere/trace.jsonl: No such file or directory");
    CHECK(!trace_file_read("/tmp", &trace, error));
    CHECK_STR(error, "/tmp: Is a directory");
}

TEST(its_name_is_that_of_the_file)
{
    static const struct {
        const char *path;
        const char *name;
    } cases[] = {{"/a/b.c/conversation_trace.jsonl", "conversation_trace"},
                 {"plain", "plain"},
                 {"a/.hidden", ".hidden"},
                 {"x.tar.gz", "x.tar"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char name[trace_file_name_size];
        trace_file_name(cases[i].path, name);
        CHECK_STR(name, cases[i].name);
    }
}
