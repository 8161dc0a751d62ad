// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "config/option/command.h"
#include "test.h"

#include <fcntl.h>

static struct child child;

static int run(const char *const *words)
{
    child_start(&child, command_engine, words);
    return child_finish(&child);
}

// Whether each of two engines printed a line with the part.
static bool has_twice(const char *text, const char *part)
{
    const char *first = strstr(text, part);
    return first != NULL && strstr(first + 1, part) != NULL;
}

TEST(contradicting_options_are_refused)
{
    static const struct {
        const char *const words[5];
        const char *complaint;
    } cases[] = {
        {{"--count", "0"}, "warmpath engine: --count: 0 is too small, the least is 1\n"},
        {{"--count", "x"},
         "warmpath engine: --count: \"x\" is not a number: write a whole number, which k, m or g "
         "may follow: 12k is 12000, from 1 to 4096\n"},
        {{"--port", "65536"}, "warmpath engine: --port: 65536 is too large, the most is 65535\n"},
        {{"--threads", "0"}, "warmpath engine: --threads: 0 is too small, the least is 1\n"},
        {{"--speed", "0"}, "warmpath engine: --speed: 0 is too small, the least is 0.001\n"},
        {{"--output", "0"}, "warmpath engine: --output: 0 is too small, the least is 1\n"},
        {{"--block-tokens", "257"}, "warmpath engine: --block-tokens must be at most 256\n"},
        {{"--kv-tokens", "15"},
         "warmpath engine: --kv-tokens and --host-tokens must hold a block, "
         "and be below 2^32\n"},
        {{"--ranks", "65"}, "warmpath engine: --ranks: 65 is too large, the most is 64\n"},
        {{"--ranks", "2", "--kv-events-port", "65535"},
         "warmpath engine: --port: there are not so many ports\n"},
        {{"--kv-events-drop", "101"},
         "warmpath engine: --kv-events-drop: 101 is too large, the most is 100\n"},
        {{"--kv-events-port", "70000"},
         "warmpath engine: --kv-events-port: 70000 is too large, the most is 65535\n"},
        {{"--kv-events-format", "none"},
         "warmpath engine: no format of KV events none; there are vllm, vllm-0.24, "
         "vllm-0.22, vllm-0.20, vllm-0.17, vllm-0.14, vllm-0.10.2, vllm-0.9.1, vllm-0.9.0, sglang, "
         "trtllm\n"},
        {{"--model", "none"},
         "warmpath engine: no model without --calibration FILE is called none; there are "
         "llama-3.1-8b, codellama-13b, qwen2.5-32b\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(run(cases[i].words), COMMAND_USAGE);
        CHECK_STR(child_text(child.err), cases[i].complaint);
        child_close(&child);
    }
}

TEST(an_address_that_is_not_ours_is_a_failure)
{
    CHECK_EQ(run(WORDS("--host", "192.0.2.1")), COMMAND_FAILED);
    CHECK_STR(child_text(child.err), "warmpath engine: cannot listen on 192.0.2.1:9001: Cannot "
                                     "assign requested address\n");
    child_close(&child);
}

// Starts two of them, waits for both lines and ends them; whether all went well.
static bool says_twice(const char *const *words, const char *line)
{
    child_start(&child, command_engine, words);
    while (!has_twice(child_text(child.out), line) && !child_is_over(&child)) {
        child_pause();
    }
    bool said = has_twice(child_text(child.out), line) &&
                strncmp(child_text(child.out), "http://127.0.0.1:", 17) == 0;
    if (!child_is_over(&child)) {
        kill(child.pid, SIGTERM);
    }
    bool good = child_finish(&child) == COMMAND_OK && child_text(child.err)[0] == '\0';
    child_close(&child);
    return said && good;
}

TEST(it_prints_its_addresses_and_ends_on_a_signal)
{
    CHECK(says_twice(WORDS("--port", "0", "--count", "2", "--model", "qwen2.5-32b", "--kv-tokens",
                           "4096", "--speed", "2"),
                     ": qwen2.5-32b, 4096 tokens of KV cache, speed 2\n"));
}

TEST(a_calibration_file_brings_other_models)
{
    static const char text[] =
        "{\"models\":{\"own\":{\"kv_tokens\":5000,\"kv_bytes_per_token\":1000,\"step\":{"
        "\"floor_ms\":20,\"token_ms\":0.1,\"sharpness\":2,\"cross_ms\":0,\"square_ms\":0,"
        "\"square_behind_ms\":0,\"cached_ms\":0,\"context_ms\":0,\"sequence_ms\":0}}}}";
    char path[] = "/tmp/engine_command_test.XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    CHECK(says_twice(WORDS("--port", "0", "--count", "2", "--calibration", path),
                     ": own, 5000 tokens of KV cache, speed 1\n"));
    CHECK_EQ(run(WORDS("--calibration", path, "--model", "codellama-13b")), COMMAND_USAGE);
    CHECK(strstr(child_text(child.err), ": no model codellama-13b\n") != NULL);
    child_close(&child);
    ASSERT(unlink(path) == 0);
}
