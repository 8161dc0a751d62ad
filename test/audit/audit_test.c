// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "config/option/command.h"
#include "test.h"

#include <fcntl.h>

static struct child child;

// A file with this text, in `path`, which ends with six X.
static void save(char *path, const char *text)
{
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static int audit(const char *const *words)
{
    child_start(&child, command_audit, words);
    return child_finish(&child);
}

TEST(saved_pages_are_judged)
{
    char first[] = "/tmp/audit_test.XXXXXX";
    char second[] = "/tmp/audit_test.XXXXXX";
    save(first, "sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 900\n");
    save(second, "sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 800\n");
    CHECK_EQ(audit(WORDS("--once", first, "--once", second, "--model", "llama-3.1-8b")),
             COMMAND_OK);
    CHECK(strstr(child_text(child.out), "85.0%") != NULL);
    CHECK(strstr(child_text(child.out), "verdict: little. ") != NULL);
    CHECK_STR(child_text(child.err), "");
    child_close(&child);
    CHECK(unlink(first) == 0 && unlink(second) == 0);
}

TEST(the_same_figures_come_as_json)
{
    char page[] = "/tmp/audit_test.XXXXXX";
    char json[] = "/tmp/audit_test.XXXXXX";
    char text[4096] = {0};
    save(page, "sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 900\n");
    save(json, "");
    CHECK_EQ(audit(WORDS("--once", page, "--json", json)), COMMAND_OK);
    int fd = open(json, O_RDONLY | O_CLOEXEC);
    CHECK(fd != -1 && read(fd, text, sizeof(text) - 1) > 0 && close(fd) == 0);
    CHECK(strstr(text, "\"hit_rate\": 0.9") != NULL);
    CHECK(strstr(text, "\"verdict\": {\"name\": \"single\"") != NULL);
    child_close(&child);
    CHECK(unlink(page) == 0 && unlink(json) == 0);
}

TEST(json_that_cannot_be_written_is_a_failure)
{
    char page[] = "/tmp/audit_test.XXXXXX";
    save(page, "sglang:prompt_tokens_total 1000\nsglang:cached_tokens_total 900\n");
    CHECK_EQ(audit(WORDS("--once", page, "--json", "/nowhere/at/all")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "/nowhere/at/all: No such file") != NULL);
    child_close(&child);
    CHECK_EQ(audit(WORDS("--once", page, "--json", "/dev/full")), COMMAND_FAILED);
    child_close(&child);
    CHECK(unlink(page) == 0);
}

TEST(without_any_page_it_fails)
{
    CHECK_EQ(audit(WORDS("--once", "/nowhere/at/all")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.out), "not read: No such file or directory") != NULL);
    child_close(&child);
    CHECK_EQ(audit(WORDS("--backend", "http://127.0.0.1:1", "--since-start")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.out), "not read: Connection refused") != NULL);
    child_close(&child);
}

TEST(a_signal_before_the_second_read_is_a_failure)
{
    child_start(&child, command_audit,
                WORDS("--backend", "http://127.0.0.1:1", "--interval", "1h"));
    CHECK(child_says(&child, "looking again in 3600 s"));
    kill(child.pid, SIGTERM);
    CHECK_EQ(child_finish(&child), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "stopped before anything was measured") != NULL);
    child_close(&child);
}

TEST(a_wrong_command_line_is_refused_with_a_reason)
{
    static const char *const wrong[][4] = {
        {NULL},
        {"--backend", "gpu:1", NULL},
        {"--backend", "http://a,http://a", NULL},
        {"--once", "f", "--live", NULL},
        {"--once", "f", "--interval=0", NULL},
        {"--once", "f", "--interval=2000h", NULL},
        {"--once", "f", "--timeout=0", NULL},
        {"--once", "f", "--achievable=80", NULL},
        {"--once", "f", "--model=none", NULL},
        {"--once", "f", "--path=x", NULL},
        {"--once", "f", "--path=/a b", NULL},
        {"--once", "f", "--api-key=a\nb", NULL},
        {"--once", "f", "--backend=http://a", NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        CHECK_EQ(audit(wrong[i]), COMMAND_USAGE);
        CHECK(strncmp(child_text(child.err), "warmpath audit: ", 16) == 0);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(help_is_the_table_of_flags)
{
    CHECK_EQ(audit(WORDS("--help")), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "--gpu-hour-price NUMBER") != NULL);
    child_close(&child);
}
