// SPDX-License-Identifier: Apache-2.0

#include "lab/calibration_file.h"

#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define STEP                                                                                       \
    "\"step\": {\"floor_ms\": 5, \"token_ms\": 0.02, \"sharpness\": 2, \"cross_ms\": 1e-6, "       \
    "\"square_ms\": 5e-7, \"square_behind_ms\": 8e-7, \"cached_ms\": 1e-4, \"context_ms\": 3e-5, " \
    "\"sequence_ms\": 0}"

static char path[] = "/tmp/calibration_file_test.XXXXXX";
static struct calibration calibration;

static void make_file(const char *text)
{
    snprintf(path, sizeof(path), "/tmp/calibration_file_test.XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

TEST(without_a_file_a_profile_is_a_shipped_one)
{
    struct profile profile;
    CHECK(calibration_file_profile("test", NULL, "llama-3.1-8b", &profile));
    CHECK_STR(profile.name, "llama-3.1-8b");
    CHECK(!calibration_file_profile("test", NULL, "gpt-0", &profile));
    CHECK(!calibration_file_profile("test", NULL, NULL, &profile));
}

TEST(a_profile_comes_from_the_file)
{
    struct profile profile;
    make_file("{\"models\": {\"mine\": {\"kv_tokens\": 777, " STEP "}}}");
    CHECK(calibration_file_profile("test", path, "mine", &profile));
    CHECK_EQ(profile.kv_tokens, 777);
    CHECK(calibration_file_profile("test", path, NULL, &profile));
    CHECK(!calibration_file_profile("test", path, "llama-3.1-8b", &profile));
    CHECK(unlink(path) == 0);
}

TEST(a_written_file_can_be_read)
{
    make_file("{\"models\": {\"mine\": {\"kv_tokens\": 777, " STEP "}}}");
    CHECK(calibration_file_read("test", path, &calibration));
    CHECK(calibration_file_write("test", path, &calibration));
    calibration_destroy(&calibration);
    CHECK(calibration_file_read("test", path, &calibration));
    CHECK_EQ(calibration.models[0].profile.kv_tokens, 777);
    CHECK(calibration.models[0].profile.step.context_ms == 3e-5);
    calibration_destroy(&calibration);
    CHECK(unlink(path) == 0);
}

TEST(files_that_are_not_there_or_wrong_are_refused)
{
    make_file("{\"models\": 1}");
    CHECK(!calibration_file_read("test", path, &calibration));
    CHECK(unlink(path) == 0);
    CHECK(!calibration_file_read("test", "/nonexistent/file", &calibration));
    calibration = (struct calibration){0};
    CHECK(!calibration_file_write("test", "/nonexistent/file", &calibration));
}
