// SPDX-License-Identifier: Apache-2.0

#include "metrics/metric_writer.h"

#include "base/rng.h"
#include "base/text.h"
#include "metrics/meters.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char space[65536];

static const char *written(struct text *text)
{
    ASSERT(!text->overflow && text->size < sizeof(space));
    space[text->size] = '\0';
    return space;
}

static const char *value_of(uint64_t value, uint32_t decimals)
{
    enum metric metric = decimals == 0   ? METRIC_WORKERS
                         : decimals == 6 ? METRIC_SAVED
                                         : METRIC_TTFT;
    ASSERT(metric_row(metric)->decimals == decimals);
    struct text text = text_over(space, sizeof(space) - 1);
    metric_add(&text, metric, slice_str(""), value);
    return written(&text) + metric_row(metric)->name_size + 1;
}

TEST(a_metric_begins_with_its_help_and_its_type)
{
    struct text text = text_over(space, sizeof(space) - 1);
    metric_begin(&text, METRIC_RETRIES);
    metric_add(&text, METRIC_RETRIES, slice_str(""), 12);
    CHECK_STR(written(&text), "# HELP warmpath_retries_total Attempts after the first one.\n"
                              "# TYPE warmpath_retries_total counter\n"
                              "warmpath_retries_total 12\n");
}

TEST(values_keep_their_last_digit_and_no_zero_behind_it)
{
    CHECK_STR(value_of(0, 0), "0\n");
    CHECK_STR(value_of(0, 6), "0\n");
    CHECK_STR(value_of(9, 0), "9\n");
    CHECK_STR(value_of(10, 0), "10\n");
    CHECK_STR(value_of(UINT64_MAX, 0), "18446744073709551615\n");
    CHECK_STR(value_of(1, 9), "0.000000001\n");
    CHECK_STR(value_of(1500, 6), "0.0015\n");
    CHECK_STR(value_of(2000000, 6), "2\n");
    CHECK_STR(value_of(1763234567890123, 6), "1763234567.890123\n");
    CHECK_STR(value_of(UINT64_MAX, 9), "18446744073.709551615\n");
}

TEST(values_are_what_they_were_for_any_number)
{
    struct rng rng = {5};
    char plain[64];
    for (int i = 0; i < 20000; i++) {
        uint64_t value = rng_next(&rng) >> rng_below(&rng, 64);
        snprintf(plain, sizeof(plain), "%lu\n", (unsigned long)value);
        CHECK_STR(value_of(value, 0), plain);
        double shown = strtod(value_of(value, 6), NULL);
        CHECK(fabs(shown - (double)value * 1e-6) <= (double)value * 1e-15);
    }
}

TEST(label_values_are_escaped)
{
    struct text labels = text_over(space, sizeof(space) - 1);
    metric_label(&labels, "a", slice_str("x\"y\\z\n\xc3\xa4"));
    metric_label(&labels, "b", slice_str(""));
    CHECK_STR(written(&labels), "a=\"x\\\"y\\\\z\\n\xc3\xa4\",b=\"\"");
}

TEST(a_summary_is_its_sum_and_count)
{
    struct text text = text_over(space, sizeof(space) - 1);
    metric_add_summary(&text, METRIC_BACKEND_TTFT, slice_str("backend=\"b\""), 1250000, 3);
    CHECK_STR(written(&text),
              "warmpath_backend_time_to_first_token_seconds_sum{backend=\"b\"} 1.25\n"
              "warmpath_backend_time_to_first_token_seconds_count{backend=\"b\"} 3\n");
}

TEST(buckets_of_a_histogram_add_up)
{
    const struct meter_scale scale = {.per_octave = 2, .count = 3, .steps = {250, 354}};
    const uint64_t buckets[] = {1, 0, 2, 4};
    struct text text = text_over(space, sizeof(space) - 1);
    metric_add_histogram(&text, METRIC_STAGE, slice_str("stage=\"s\""), &scale, buckets, 5000);
    CHECK_STR(written(&text),
              "warmpath_routing_stage_seconds_bucket{stage=\"s\",le=\"0.00000025\"} 1\n"
              "warmpath_routing_stage_seconds_bucket{stage=\"s\",le=\"0.000000354\"} 1\n"
              "warmpath_routing_stage_seconds_bucket{stage=\"s\",le=\"0.0000005\"} 3\n"
              "warmpath_routing_stage_seconds_bucket{stage=\"s\",le=\"+Inf\"} 7\n"
              "warmpath_routing_stage_seconds_sum{stage=\"s\"} 0.000005\n"
              "warmpath_routing_stage_seconds_count{stage=\"s\"} 7\n");
}

TEST(a_page_that_does_not_fit_is_known_not_to)
{
    const struct slice labels = slice_str("backend=\"b\"");
    for (size_t capacity = 0; capacity < 80; capacity++) {
        struct text text = text_over(space, capacity);
        metric_add(&text, METRIC_BACKEND_WEIGHT, labels, 7);
        CHECK(text.size <= capacity);
        CHECK(text.overflow == (text.size == 0));
        metric_add(&text, METRIC_BACKEND_WEIGHT, labels, 7);
        CHECK(text.overflow);
    }
}
