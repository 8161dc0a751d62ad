// SPDX-License-Identifier: Apache-2.0
//
// For any input: each field is negative or a finite number in its range; and a page of text
// repeated twice gives twice the counts, the same usage and the same block.  The input is copied to
// a block of its exact size, so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "feed/engine_metrics.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

static void check_ranges(const struct load_report *report)
{
    ASSERT(report->running == -1 || (report->running >= 0 && isfinite(report->running)));
    ASSERT(report->waiting == -1 || (report->waiting >= 0 && isfinite(report->waiting)));
    ASSERT(report->kv_usage == -1 || (report->kv_usage >= 0 && report->kv_usage <= 1));
    ASSERT(report->cache_tokens == -1 ||
           (report->cache_tokens > 0 && isfinite(report->cache_tokens)));
    ASSERT(report->block_tokens == -1 ||
           (report->block_tokens > 0 && isfinite(report->block_tokens)));
}

static bool is_about(double actual, double expected)
{
    return expected < 0 ? actual == expected
                        : fabs(actual - expected) <= 1e-5 * (fabs(expected) + 1e-30);
}

static double doubled(double value)
{
    return value < 0 ? value : 2 * value;
}

static bool is_text(const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size &&
           (bytes[at] == ' ' || bytes[at] == '\t' || bytes[at] == '\r' || bytes[at] == '\n')) {
        at++;
    }
    return at == size || (bytes[at] != '[' && bytes[at] != '{');
}

static void check_twice(const uint8_t *bytes, size_t size, uint32_t rank,
                        const struct load_report *once)
{
    struct load_report twice;
    uint8_t *copy = malloc(2 * size + 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
        memcpy(copy + size + 1, bytes, size);
    }
    copy[size] = '\n';
    engine_metrics_read(slice_of(copy, 2 * size + 1), rank, &twice);
    ASSERT(is_about(twice.running, doubled(once->running)));
    ASSERT(is_about(twice.waiting, doubled(once->waiting)));
    ASSERT(is_about(twice.kv_usage, once->kv_usage));
    ASSERT(is_about(twice.block_tokens, once->block_tokens));
    // Above a limit it is nonsense, which twice as much may be.
    ASSERT(twice.cache_tokens == -1 || is_about(twice.cache_tokens, doubled(once->cache_tokens)));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct load_report report;
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    static const uint32_t ranks[] = {exposition_all_ranks, 0, 1};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        engine_metrics_read(slice_of(copy, size), ranks[i], &report);
        check_ranges(&report);
        if (is_text(copy, size)) {
            check_twice(copy, size, ranks[i], &report);
        }
    }
    free(copy);
    return 0;
}
