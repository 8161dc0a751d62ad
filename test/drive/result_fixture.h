// SPDX-License-Identifier: Apache-2.0
//
// result_fixture.h -- a run that went well, to be changed by a test; and a page as text.
#pragma once

#include "base/base.h"
#include "drive/drive_result.h"

#include <stdlib.h>

enum { page_size = 1 << 17 };

static struct drive_tally fixture_tally;
static struct load_flags fixture_flags;

static inline struct drive_result result_fixture(void)
{
    memset(&fixture_tally, 0, sizeof(fixture_tally));
    fixture_tally.sent = fixture_tally.done = fixture_tally.responded = 12;
    fixture_tally.counted = fixture_tally.sample_count = 10;
    fixture_tally.knows_cached = true;
    histogram_add(&fixture_tally.late, 500000);
    histogram_add(&fixture_tally.gaps, 20000000);
    fixture_flags =
        (struct load_flags){.url = "http://127.0.0.1:1", .model = "m", .rate = 5, .seed = 3};
    return (struct drive_result){
        .flags = &fixture_flags,
        .workload = "stress",
        .connections_max = 100,
        .tally = &fixture_tally,
        .figures = {.request_count = 10,
                    .span_s = 2,
                    .requests_per_s = 5,
                    .output_per_s = 500,
                    .hit_rate = 0.875,
                    .goodput = 1,
                    .bound_rate = -1,
                    .ttft = {100, 90, 150, 200, 210},
                    .tpot = {20, 20, 21, 22, 23},
                    .e2e = {2000, 1900, 2100, 2200, 2300}},
        .counts = {.in_flight_max = 4, .connections = 4},
        .elapsed_s = 2.5,
        .cpu_s = 0.1,
    };
}

// Good until the next call.
static inline const char *written(const struct drive_result *result,
                                  void (*write)(const struct drive_result *result, FILE *out))
{
    static char page[page_size];
    FILE *out = tmpfile();
    ASSERT(out != NULL);
    write(result, out);
    rewind(out);
    size_t size = fread(page, 1, sizeof(page) - 1, out);
    ASSERT(size < sizeof(page) - 1);
    page[size] = '\0';
    fclose(out);
    return page;
}
