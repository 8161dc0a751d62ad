// SPDX-License-Identifier: Apache-2.0
//
// For any input: each value is negative or a finite number; a histogram never falls; and the
// difference between a page and itself is zero.  The input is copied to a block of its exact size,
// so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "feed/engine_counters.h"
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

static void check_histogram(const struct counter_histogram *histogram)
{
    ASSERT(histogram->bucket_count <= counter_bucket_max);
    for (uint32_t i = 0; i < histogram->bucket_count; i++) {
        ASSERT(isfinite(histogram->bounds[i]) && histogram->bounds[i] >= 0);
        ASSERT(isfinite(histogram->counts[i]) && histogram->counts[i] >= 0);
        ASSERT(i == 0 || histogram->bounds[i] > histogram->bounds[i - 1]);
        ASSERT(i == 0 || histogram->counts[i] >= histogram->counts[i - 1]);
        ASSERT(histogram->counts[i] <= histogram->count);
    }
}

static void check(const struct engine_counters *counters)
{
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        ASSERT(counters->values[i] == -1 ||
               (counters->values[i] >= 0 && isfinite(counters->values[i])));
    }
    check_histogram(&counters->ttft);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct engine_counters counters;
    struct engine_counters nothing;
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    engine_counters_read(slice_of(copy, size), &counters);
    free(copy);
    check(&counters);
    ASSERT(engine_counters_since(&counters, &counters, &nothing));
    for (uint32_t i = 0; i < COUNTER_COUNT; i++) {
        ASSERT(nothing.values[i] == (counters.values[i] < 0 ? -1 : 0));
    }
    engine_counters_complete(&nothing, &counters);
    check(&nothing);
    return 0;
}
