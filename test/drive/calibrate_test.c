// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "config/option/command.h"
#include "lab/calibration_file.h"
#include "test.h"

#include <fcntl.h>

#define ROWS                                                                                       \
    "\"prefill\": [[0, 16, 5.3], [0, 256, 8], [0, 2048, 51], [1024, 16, 5.6], "                    \
    "[1024, 256, 8.5], [4096, 1024, 32.1]], "                                                      \
    "\"decode\": [[1, 512, 5.0], [16, 512, 5.4], [64, 2048, 9.4], [4, 8192, 6.1]]"

static struct child child;
static char path[64];
static char written[80];

static void make_file(const char *text)
{
    snprintf(path, sizeof(path), "/tmp/calibrate_test.XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    snprintf(written, sizeof(written), "%s.out", path);
}

static void run(const char *const *words)
{
    child_start(&child, command_calibrate, words);
    child_finish(&child);
}

static bool says(const char *text)
{
    return strstr(child_text(child.out), text) != NULL;
}

TEST(a_file_is_fitted_and_the_errors_are_printed)
{
    make_file("{\"models\": {\"m\": {\"kv_tokens\": 5000, " ROWS "}}}");
    run(WORDS("--file", path));
    CHECK_EQ(child.status, COMMAND_OK);
    CHECK(says("floor_ms"));
    CHECK(says("median"));
    CHECK(says("  prefill     6"));
    CHECK(says("  decode      4"));
    CHECK(says("  all        10"));
    CHECK(says("PROFILE(\"m\", 5000, 0,\n"));
    CHECK_STR(child_text(child.err), "");
    child_close(&child);
    CHECK(unlink(path) == 0);
}

TEST(a_written_file_has_the_constants_and_the_rows)
{
    struct calibration calibration;
    make_file("{\"models\": {\"m\": {\"kv_tokens\": 5000, " ROWS "}}}");
    run(WORDS("--file", path, "--write", written));
    CHECK_EQ(child.status, COMMAND_OK);
    child_close(&child);
    CHECK(calibration_file_read("test", written, &calibration));
    CHECK(calibration.models[0].has_step);
    CHECK(calibration.models[0].profile.step.floor_ms > 4);
    CHECK_EQ(calibration.models[0].prefill_count, 6);
    calibration_destroy(&calibration);
    CHECK(unlink(path) == 0 && unlink(written) == 0);
}

TEST(one_model_of_several_can_be_asked_for)
{
    make_file("{\"models\": {\"a\": {\"kv_tokens\": 5000, " ROWS
              "}, \"b\": {\"kv_tokens\": 6000, " ROWS "}}}");
    run(WORDS("--file", path, "--model", "b"));
    CHECK_EQ(child.status, COMMAND_OK);
    CHECK(says("PROFILE(\"b\"") && !says("PROFILE(\"a\""));
    child_close(&child);
    run(WORDS("--file", path, "--model", "c"));
    CHECK_EQ(child.status, COMMAND_USAGE);
    CHECK_STR(child_text(child.err), "warmpath calibrate: no such model: c\n");
    child_close(&child);
    CHECK(unlink(path) == 0);
}

TEST(rows_that_do_not_suffice_are_a_failure)
{
    make_file("{\"models\": {\"m\": {\"kv_tokens\": 5000, \"prefill\": [[0, 1, 1]], "
              "\"decode\": [[1, 1, 1]]}}}");
    run(WORDS("--file", path));
    CHECK_EQ(child.status, COMMAND_FAILED);
    CHECK_STR(child_text(child.err),
              "warmpath calibrate: m: too few rows to tell the constants apart\n");
    child_close(&child);
    CHECK(unlink(path) == 0);
}

TEST(wrong_words_are_refused)
{
    const char *const *const wrong[] = {
        WORDS(NULL),
        WORDS("--file", "a", "--backend", "http://127.0.0.1:1"),
        WORDS("--backend", "http://127.0.0.1:1"),
        WORDS("--file", "/nonexistent/file"),
        WORDS("--colour", "red"),
    };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        run(wrong[i]);
        CHECK_EQ(child.status, COMMAND_USAGE);
        CHECK(child_text(child.err)[0] != '\0');
        child_close(&child);
    }
}

TEST(an_engine_that_is_not_there_is_a_failure)
{
    run(WORDS("--backend", "http://127.0.0.1:1", "--model", "m"));
    CHECK_EQ(child.status, COMMAND_FAILED);
    CHECK_STR(child_text(child.err),
              "warmpath calibrate: http://127.0.0.1:1: Connection refused\n");
    child_close(&child);
}
