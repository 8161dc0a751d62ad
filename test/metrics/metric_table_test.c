// SPDX-License-Identifier: Apache-2.0
//
// What Prometheus expects of names, held against every row.

#include "metrics/metric_table.h"

#include "base/slice.h"
#include "test.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

TEST(counters_and_nothing_else_end_in_total)
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

TEST(names_are_ours_or_those_of_every_process_and_in_base_units)
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

TEST(no_name_is_given_twice_nor_that_of_a_part_of_another)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        CHECK_EQ(rows_of_name(metric_row(i)->name), 1);
        CHECK_EQ(rows_of_parts(metric_row(i)->name), 0);
    }
}

TEST(help_is_one_sentence_or_more_and_needs_no_escaping)
{
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        const struct metric_row *row = metric_row(i);
        if (strpbrk(row->help, "\\\n|`") != NULL || !ends_with(row->help, ".") ||
            strcspn(row->help, "abcdefghijklmnopqrstuvwxyz") > 4) {
            test_fail(__FILE__, __LINE__, "%s: %s", row->name, row->help);
        }
    }
}

TEST(every_metric_stands_in_one_section)
{
    const struct metric_line *line;
    uint32_t seen[METRIC_COUNT] = {0};

    CHECK(metric_line(0)->title != NULL);
    for (uint32_t i = 0; (line = metric_line(i)) != NULL; i++) {
        seen[line->metric] += line->title == NULL;
    }
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        CHECK_EQ(seen[i], 1);
    }
}
