// SPDX-License-Identifier: Apache-2.0
//
// The manual lists exactly the options that the parser accepts, and docs/configuration.md equals
// the output of the rows.

#include "config/option/manual.h"

#include "config/option/command.h"
#include "config/option/option.h"
#include "config/outcome.h"
#include "policy/policy.h"

#include <stdlib.h>

// SOURCE_ROOT comes from meson.build.
static const char docs_path[] = SOURCE_ROOT "/docs/configuration.md";

static char *written(void (*writer)(FILE *))
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    ASSERT(out != NULL);
    writer(out);
    fclose(out);
    return bytes;
}

// Copies the next text between `open` and `close` after `*at`, and moves `*at` past it.
static bool next_between(const char **at, const char *open, const char *close, char *out,
                         size_t out_size)
{
    const char *begin = strstr(*at, open);
    if (begin == NULL) {
        return false;
    }
    begin += strlen(open);
    const char *end = strstr(begin, close);
    ASSERT(end != NULL && (size_t)(end - begin) < out_size);
    memcpy(out, begin, (size_t)(end - begin));
    out[end - begin] = '\0';
    *at = end;
    return true;
}

// The parser knows a name when it complains about the value and not about the key: none of the
// options takes a map of maps.
static bool parser_knows(const char *name)
{
    char yaml[256];
    const char *part = strstr(name, "[].");
    const char *dot = strchr(name, '.');

    if (part != NULL) {
        snprintf(yaml, sizeof(yaml), "%.*s: [{%s: {x: {}}}]\n", (int)(part - name), name, part + 3);
    } else if (dot != NULL) {
        snprintf(yaml, sizeof(yaml), "%.*s: {%s: {x: {}}}\n", (int)(dot - name), name, dot + 1);
    } else {
        snprintf(yaml, sizeof(yaml), "%s: {x: {}}\n", name);
    }
    const char *got = outcome(yaml);
    return strstr(got, "not a map") != NULL && strstr(got, "not an option") == NULL;
}

TEST(the_markdown_lists_exactly_what_the_parser_accepts)
{
    char *page = written(config_manual_write_markdown);
    const char *at = page;
    char name[128];
    uint32_t count = 0;
    uint32_t unknown = 0;
    while (next_between(&at, "\n#### `", "`\n", name, sizeof(name))) {
        count++;
        if (!parser_knows(name)) {
            unknown++;
            test_fail(__FILE__, __LINE__, "%s is listed and not accepted", name);
        }
    }
    free(page);
    CHECK(!parser_knows("workerz"));
    CHECK_EQ(unknown, 0);
    CHECK_EQ(count, config_options.count + config_backend_options.count +
                        config_pool_options.count + config_tokenizer_options.count);
}

static bool parser_knows_flag(const char *flag)
{
    return strstr(outcome_with("", FLAGS(flag, "\t")), "unknown option") == NULL;
}

TEST(help_lists_exactly_the_flags_that_are_accepted)
{
    char *page = written(config_manual_write_help);
    const char *at = page;
    char flag[128];
    uint32_t count = 0;
    uint32_t unknown = 0;
    while (next_between(&at, "\n  --", " ", flag, sizeof(flag))) {
        if (strcmp(flag, "config") != 0) { // names the file itself
            count++;
            unknown += !parser_knows_flag(flag);
        }
    }
    free(page);
    CHECK(!parser_knows_flag("workerz"));
    CHECK_EQ(unknown, 0);
    CHECK_EQ(count, config_options.count - 1); // pools has none
}

TEST(help_fits_in_eighty_columns)
{
    char *page = written(config_manual_write_help);
    size_t widest = 0;
    for (const char *at = page; *at != '\0';) {
        size_t width = strcspn(at, "\n");
        widest = width > widest ? width : widest;
        at += width + (at[width] == '\n');
    }
    bool has_backquotes = strchr(page, '`') != NULL;
    free(page);
    CHECK(widest > 60 && widest <= 80);
    CHECK(!has_backquotes);
}

TEST(the_manual_page_has_every_option_and_sections_in_order)
{
    static const char *const sections[] = {"NAME",          "SYNOPSIS", "DESCRIPTION", "COMMANDS",
                                           "CONFIGURATION", "VALUES",   "POLICIES",    "EXAMPLE"};
    char *page = written(config_manual_write_man);
    const char *at = page;
    char name[128];
    uint32_t items = 0;
    bool in_order = true;
    for (size_t i = 0; i < ARRAY_COUNT(sections); i++) {
        in_order = in_order && next_between(&at, "\n.SH ", "\n", name, sizeof(name)) &&
                   strcmp(name, sections[i]) == 0;
    }
    for (at = page; (at = strstr(at, "\n.TP\n")) != NULL; at++) {
        items++;
    }
    uint32_t kinds = 0;
    uint32_t policies = 0;
    while (config_kind_at(kinds) != NULL) {
        kinds++;
    }
    while (policy_at(policies) != NULL) {
        policies++;
    }
    uint32_t commands = 0;
    while (command_at(commands) != NULL) {
        commands++;
    }
    bool has_title = strncmp(page, ".TH WARMPATH 8 ", 15) == 0;
    bool has_flag = strstr(page, "\\-\\-limits\\-body\\-size") != NULL;
    free(page);
    CHECK(has_title);
    CHECK(in_order);
    CHECK(has_flag);
    CHECK_EQ(items, commands + config_options.count + config_backend_options.count +
                        config_pool_options.count + config_tokenizer_options.count + kinds +
                        policies);
}

TEST(no_line_of_the_manual_page_is_a_request_by_accident)
{
    static const char *const requests[] = {".TH ",  ".SH ",  ".SS ",  ".TP\n", ".PP\n", ".br\n",
                                           ".RS\n", ".RE\n", ".nf\n", ".fi\n", ".nh\n", ".ad l\n"};
    char *page = written(config_manual_write_man);
    uint32_t strays = 0;
    for (const char *at = page; *at != '\0';) {
        bool known = *at != '.' && *at != '\'';
        for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
            known = known || strncmp(at, requests[i], strlen(requests[i])) == 0;
        }
        strays += !known;
        at += strcspn(at, "\n") + 1;
    }
    free(page);
    CHECK_EQ(strays, 0);
}

TEST(the_example_is_accepted_as_it_stands)
{
    CHECK_STR(outcome(config_manual_example), "ok");
    CHECK_EQ(config->backend_count, 4);
    CHECK_EQ(config->backends[3].pool, 1);
}

TEST(docs_configuration_md_is_what_the_rows_generate)
{
    char *page = written(config_manual_write_markdown);
    if (secure_getenv("WRITE_DOCS") != NULL) {
        FILE *out = fopen(docs_path, "w");
        ASSERT(out != NULL);
        fputs(page, out);
        fclose(out);
    }
    size_t size = strlen(page);
    char *found = calloc(1, size + 2);
    ASSERT(found != NULL);
    FILE *in = fopen(docs_path, "r");
    size_t found_size = in != NULL ? fread(found, 1, size + 1, in) : 0;
    if (in != NULL) {
        fclose(in);
    }
    bool same = found_size == size && memcmp(found, page, size) == 0;
    free(found);
    free(page);
    if (!same) {
        test_fail(__FILE__, __LINE__,
                  "docs/configuration.md is out of date; write it anew with: "
                  "WRITE_DOCS=1 build/debug/manual_test");
    }
}
