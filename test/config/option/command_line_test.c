// SPDX-License-Identifier: Apache-2.0

#include "config/option/command_line.h"

#include "config/config.h"
#include "test.h"

enum { word_count_max = 16 };

static const char *pairs[2 * word_count_max];
static struct config_source source;
static struct config_error error;

// Splits at spaces, as a shell would.
static enum status read(const char *line)
{
    static char copy[256];
    char *words[word_count_max];
    int count = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    for (char *at = copy; *at != '\0'; at += strspn(at, " ")) {
        words[count++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') {
            *at++ = '\0';
        }
    }
    source = (struct config_source){.value_count = 99};
    return config_command_line_read(words, count, pairs, &source, &error);
}

TEST(a_value_follows_its_flag_or_an_equals_sign)
{
    CHECK_EQ(read("--workers 3 --listen=:80 --config /etc/w.yaml"), STATUS_OK);
    CHECK_STR(source.path, "/etc/w.yaml");
    CHECK_EQ(source.value_count, 2);
    CHECK_STR(source.values[0], "--workers");
    CHECK_STR(source.values[1], "3");
    CHECK_STR(source.values[2], "--listen");
    CHECK_STR(source.values[3], ":80");
}

TEST(an_empty_command_line_is_a_source)
{
    CHECK_EQ(read(""), STATUS_OK);
    CHECK_EQ(source.value_count, 0);
    CHECK(source.path == NULL);
}

TEST(a_switch_alone_is_true)
{
    CHECK_EQ(read("--half-close --forwarded-for false --backend-header"), STATUS_OK);
    CHECK_EQ(source.value_count, 3);
    CHECK_STR(source.values[1], "true");
    CHECK_STR(source.values[3], "false");
    CHECK_STR(source.values[5], "true");
}

TEST(a_value_may_be_empty_or_hold_equals_signs)
{
    CHECK_EQ(read("--api-key= --backend=http://a=b"), STATUS_OK);
    CHECK_STR(source.values[1], "");
    CHECK_STR(source.values[3], "http://a=b");
}

TEST(refuses_other_words_than_flags_and_flags_without_a_value)
{
    CHECK_EQ(read("--workers 3 4"), STATUS_MALFORMED);
    CHECK_STR(error.file, "command line");
    CHECK_STR(error.text, "4: is not an option; those start with --");
    CHECK_EQ(error.line, 0);
    CHECK_EQ(source.value_count, 99); // untouched

    CHECK_EQ(read("--"), STATUS_MALFORMED);
    CHECK_STR(error.text, "--: is not an option; those start with --");
    CHECK_EQ(read("-workers 3"), STATUS_MALFORMED);
    CHECK_EQ(read("--workers"), STATUS_MALFORMED);
    CHECK_STR(error.text, "--workers: needs a value");
    CHECK_EQ(read("--workers --half-close"), STATUS_MALFORMED);
    CHECK_STR(error.text, "--workers: needs a value");
    CHECK_EQ(read("--config"), STATUS_MALFORMED);
    CHECK_STR(error.text, "--config: needs a value");
}
