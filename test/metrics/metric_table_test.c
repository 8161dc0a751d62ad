// SPDX-License-Identifier: Apache-2.0
//
// The names follow Prometheus's conventions, and docs/metrics.md is made of the rows.

#include "metrics/metric_table.h"

#include "base/slice.h"
#include "metrics/metric_manual.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

TEST(only_counters_end_in_total)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = metric_row(i);
        if (ends_with(row->name, "_total") != (row->type == METRIC_TYPE_COUNTER)) {
            test_fail(__FILE__, __LINE__, "%s is a %s", row->name, metric_type_name(row->type));
        }
    }
}

static bool has_word(const char *name, const char *word)
{
    const char *found = strstr(name, word);
    return found != NULL && (found[strlen(word)] == '_' || found[strlen(word)] == '\0');
}

TEST(names_begin_with_warmpath_or_process_and_have_base_units)
{
    static const char *const units[] = {"_ms", "_us",      "_milliseconds",
                                        "_kb", "_minutes", "_percent"};
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const char *name = metric_row(i)->name;
        bool good = slice_starts_with(slice_str(name), "warmpath_") ||
                    slice_starts_with(slice_str(name), "process_");
        good = good && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name);
        for (size_t j = 0; j < ARRAY_COUNT(units); j++) {
            good = good && !has_word(name, units[j]);
        }
        if (!good) {
            test_fail(__FILE__, __LINE__, "%s", name);
        }
    }
}

static uint32_t rows_of_name(const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        count += strcmp(metric_row(i)->name, name) == 0;
    }
    return count;
}

static uint32_t rows_of_parts(const char *name)
{
    static const char *const parts[] = {"_sum", "_count", "_bucket"};
    char part[128];
    uint32_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        snprintf(part, sizeof(part), "%s%s", name, parts[i]);
        count += rows_of_name(part);
    }
    return count;
}

TEST(names_are_unique_also_with_the_suffixes_of_histograms)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        CHECK_EQ(rows_of_name(metric_row(i)->name), 1);
        CHECK_EQ(rows_of_parts(metric_row(i)->name), 0);
    }
}

TEST(help_ends_in_a_full_stop_and_needs_no_escaping)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = metric_row(i);
        if (strpbrk(row->help, "\\\n|`") != NULL || !ends_with(row->help, ".") ||
            strcspn(row->help, "abcdefghijklmnopqrstuvwxyz") > 4) {
            test_fail(__FILE__, __LINE__, "%s: %s", row->name, row->help);
        }
    }
}

TEST(the_table_begins_with_a_section)
{
    static const bool is_section[] = {
#define GROUP(title, text) true,
#define METRIC(id, type, name, labels, decimals, help) false,
#include "metrics/metrics.def"
#undef METRIC
#undef GROUP
    };
    CHECK(is_section[0]);
}

// SOURCE_ROOT comes from meson.build.
static const char docs_path[] = SOURCE_ROOT "/docs/metrics.md";

static char page[65536];

static size_t write_page(void)
{
    struct text text = text_over(page, sizeof(page) - 1);
    metric_manual_write(&text);
    ASSERT(!text.overflow);
    page[text.size] = '\0';
    return text.size;
}

static bool is_metric(struct slice name)
{
    static const char *const suffixes[] = {"", "_bucket", "_sum", "_count"};
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const char *row = metric_row(i)->name;
        for (size_t j = 0; j < ARRAY_COUNT(suffixes); j++) {
            if (slice_starts_with(name, row) &&
                slice_is(slice_of(name.bytes + strlen(row), name.size - strlen(row)),
                         suffixes[j])) {
                return true;
            }
        }
    }
    return false;
}

TEST(queries_of_the_manual_name_existing_metrics)
{
    uint32_t count = 0;
    write_page();
    const char *end = strstr(page, "\n## Values of labels\n");
    CHECK(end != NULL);
    for (const char *at = page; (at = strstr(at, "warmpath_")) != NULL && at < end; count++) {
        size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (!is_metric(slice_of(at, size))) {
            test_fail(__FILE__, __LINE__, "%.*s does not exist", (int)size, at);
        }
        at += size;
    }
    CHECK(count > 10);
}

TEST(docs_metrics_md_is_up_to_date_with_the_rows)
{
    size_t size = write_page();
    if (secure_getenv("WRITE_DOCS") != NULL) {
        FILE *out = fopen(docs_path, "w");
        ASSERT(out != NULL);
        fputs(page, out);
        fclose(out);
    }
    static char found[sizeof(page)];
    FILE *in = fopen(docs_path, "r");
    size_t found_size = in != NULL ? fread(found, 1, sizeof(found), in) : 0;
    if (in != NULL) {
        fclose(in);
    }
    if (found_size != size || memcmp(found, page, size) != 0) {
        test_fail(__FILE__, __LINE__,
                  "docs/metrics.md is out of date; write it anew with: "
                  "WRITE_DOCS=1 build/debug/metric_table_test");
    }
}
