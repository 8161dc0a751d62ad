// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "cli/cli.h"
#include "test.h"

static struct child child;

static int run(const char *const *words)
{
    child_start(&child, cli_engine, words);
    return child_finish(&child);
}

// What it says is not more than a line for each of two engines.
static bool has_twice(const char *text, const char *part)
{
    const char *first = strstr(text, part);
    return first != NULL && strstr(first + 1, part) != NULL;
}

TEST(what_makes_no_sense_is_refused)
{
    static const struct {
        const char *const words[3];
        const char *complaint;
    } cases[] = {
        {{"--count", "0"}, "warmpath engine: --count must be from 1 to 4096\n"},
        {{"--count", "x"},
         "warmpath engine: --count: x: needs a whole number, k, m or g may follow\n"},
        {{"--port", "65536"}, "warmpath engine: --port: there are not so many ports\n"},
        {{"--threads", "0"}, "warmpath engine: --threads must be from 1 to 256\n"},
        {{"--speed", "0"}, "warmpath engine: --speed must be from 0.001 to 1000\n"},
        {{"--output", "0"}, "warmpath engine: --output must be at least 1\n"},
        {{"--block-tokens", "257"}, "warmpath engine: --block-tokens must be at most 256\n"},
        {{"--kv-tokens", "15"},
         "warmpath engine: --kv-tokens and --host-tokens must hold a block, "
         "and be below 2^32\n"},
        {{"--kv-events-port", "70000"}, "warmpath engine: --port: there are not so many ports\n"},
        {{"--kv-events-format", "none"},
         "warmpath engine: --kv-events-format: no format none; there are vllm, vllm-0.24, "
         "vllm-0.22, vllm-0.20, vllm-0.17, vllm-0.14, vllm-0.10.2, vllm-0.9.1, vllm-0.9.0, sglang, "
         "trtllm\n"},
        {{"--model", "none"},
         "warmpath engine: --model: no model none; there are llama-3.1-8b, "
         "codellama-13b, qwen2.5-32b\n"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(run(cases[i].words), CLI_USAGE);
        CHECK_STR(child_text(child.err), cases[i].complaint);
        child_close(&child);
    }
}

TEST(an_address_that_is_not_ours_is_a_failure)
{
    CHECK_EQ(run((const char *const[]){"--host", "192.0.2.1", NULL}), CLI_FAILED);
    CHECK_STR(child_text(child.err), "warmpath engine: cannot listen on 192.0.2.1:9001: Cannot "
                                     "assign requested address\n");
    child_close(&child);
}

TEST(it_says_where_it_listens_and_ends_when_told)
{
    static const char line[] = ": qwen2.5-32b, 4096 tokens of KV cache, speed 2\n";
    child_start(&child, cli_engine,
                (const char *const[]){"--port", "0", "--count", "2", "--model", "qwen2.5-32b",
                                      "--kv-tokens", "4096", "--speed", "2", NULL});
    const char *text = child_text(child.out);
    while (!has_twice(text, line) && !child_is_over(&child)) {
        child_pause();
        text = child_text(child.out);
    }
    CHECK(strncmp(text, "http://127.0.0.1:", 17) == 0);
    CHECK_EQ(kill(child.pid, SIGTERM), 0);
    CHECK_EQ(child_finish(&child), CLI_OK);
    CHECK_STR(child_text(child.err), "");
    child_close(&child);
}
