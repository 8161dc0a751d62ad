// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "config/option/command.h"
#include "test.h"

static struct child child;

static int load(const char *const *words)
{
    child_start(&child, command_load, words);
    return child_finish(&child);
}

TEST(a_command_line_that_is_wrong_is_refused_with_a_reason)
{
#define URL "--url", "http://127.0.0.1:1"
    static const struct {
        const char *words[12];
        const char *reason;
    } bad[] = {
        {{"--users", "3"}, "--url is missing"},
        {{"--url", "localhost:80", "--workload", "chat", "--users", "3"}, "localhost:80: "},
        {{URL}, "say --workload NAME or --trace FILE"},
        {{URL, "--workload", "nope", "--users", "3"}, "unknown workload 'nope'"},
        {{URL, "--workload", "chat"}, "needs a rate or a number of users"},
        {{URL, "--workload", "chat", "--users", "3", "--rate", "1"}, "contradict"},
        {{URL, "--trace", "/nonexistent", "--rate", "1"}, "/nonexistent: "},
        {{URL, "--workload", "chat", "--users", "3", "--api", "soap"}, "chat|completions|ids"},
        {{URL, "--workload", "chat", "--users", "3", "--header", "no"}, "--header needs"},
        {{URL, "--workload", "chat", "--users", "3", "--header", "a: b\r\nc: d"}, "--header needs"},
        {{URL, "--workload", "chat", "--users", "3", "--api-key", "a\nb"}, "--api-key"},
        {{URL, "--workload", "chat", "--users", "3", "--warm-up", "x"}, "--warm-up"},
        {{URL, "--workload", "chat", "--users", "3", "--warm-up", "3y"}, "--warm-up"},
        {{URL, "--workload", "chat", "--users", "3", "--connections-max", "0"}, "connections-max"},
        {{URL, "--workload", "chat", "--users", "3", "--timeout", "0"}, "--timeout"},
        {{URL, "--workload", "chat", "--users", "3", "--requests", "5m"}, "--requests"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(load(bad[i].words), COMMAND_USAGE);
        CHECK(strstr(child_text(child.err), bad[i].reason) != NULL);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(help_lists_the_flags_and_the_workloads)
{
    CHECK_EQ(load(WORDS("--help")), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "--connections-max") != NULL);
    CHECK(strstr(child_text(child.out), "stress") != NULL);
    child_close(&child);
}

TEST(an_endpoint_that_is_not_there_is_a_failure)
{
    // Port 1 of this machine is nobody's.
    CHECK_EQ(load(WORDS(URL, "--workload", "stress", "--users", "3", "--duration", "1s")),
             COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "http://127.0.0.1:1: ") != NULL);
    child_close(&child);
}
