// SPDX-License-Identifier: Apache-2.0
//
// docs/metrics.md is what the rows say today.

#include "metrics/metric_manual.h"

#include "base/text.h"
#include "metrics/metric_table.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

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

TEST(queries_name_metrics_that_there_are)
{
    uint32_t count = 0;
    write_page();
    const char *end = strstr(page, "\n## Values of labels\n");
    CHECK(end != NULL);
    for (const char *at = page; (at = strstr(at, "warmpath_")) != NULL && at < end; count++) {
        size_t size = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (!is_metric(slice_of(at, size))) {
            test_fail(__FILE__, __LINE__, "there is no %.*s", (int)size, at);
        }
        at += size;
    }
    CHECK(count > 10);
}

TEST(docs_metrics_md_is_what_the_rows_generate)
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
                  "WRITE_DOCS=1 build/debug/metric_manual_test");
    }
}
