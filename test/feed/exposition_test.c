// SPDX-License-Identifier: Apache-2.0

#include "feed/exposition.h"

#include "test.h"

static struct exposition_series first_of(const char *page)
{
    struct exposition text = exposition_open(slice_str(page));
    struct exposition_series series = {0};
    ASSERT(exposition_next(&text, &series));
    return series;
}

TEST(comments_and_empty_lines_are_passed_over)
{
    struct exposition page = exposition_open(slice_str("# HELP a\n\n  a 1\r\n#\nb{} 2"));
    struct exposition_series series;
    CHECK(exposition_next(&page, &series));
    CHECK(slice_is(series.name, "a"));
    CHECK(exposition_next(&page, &series));
    CHECK(slice_is(series.name, "b"));
    CHECK(!exposition_next(&page, &series));
}

TEST(a_page_without_bytes_has_no_series)
{
    struct exposition page = exposition_open((struct slice){0});
    struct exposition_series series;
    CHECK(!exposition_next(&page, &series));
    CHECK(!exposition_is_json((struct slice){0}));
}

TEST(a_name_loses_the_prefix_of_ray_and_the_suffix_of_counters)
{
    CHECK(slice_is(first_of("ray_vllm_x_total 1").name, "vllm_x"));
    CHECK(exposition_name_is(slice_str("vllm_x"), "vllm:x"));
    CHECK(exposition_name_is(slice_str("trtllm:x"), "trtllm_x"));
    CHECK(!exposition_name_is(slice_str("vllm_x"), "vllm:xy"));
    CHECK(!exposition_name_is(slice_str("vllm_xy"), "vllm:x"));
    CHECK(!exposition_name_is(slice_of("vllm:x\0", 7), "vllm:x"));
    CHECK(!exposition_name_is(slice_str("vllm-x"), "vllm:x"));
}

TEST(labels_and_value_are_found)
{
    struct exposition_series series = first_of("a{x=\"1\\\"}\",le=\"0.5\",} 2.5e3 1700000000\n");
    struct exposition_sample sample;
    CHECK(exposition_sample(&series, &sample));
    CHECK(sample.has_value && sample.value == 2500);
    CHECK(slice_is(exposition_label(sample.labels, "le"), "0.5"));
    CHECK(slice_is(exposition_label(sample.labels, "x"), "1\\\"}"));
    CHECK_EQ(exposition_label(sample.labels, "y").size, 0);
}

TEST(labels_that_do_not_end_are_no_sample)
{
    struct exposition_sample sample;
    struct exposition_series series = first_of("a{x=\"1 2\nb 3\n");
    CHECK(!exposition_sample(&series, &sample));
    series = first_of("a{x=\"1\" 2");
    CHECK(!exposition_sample(&series, &sample));
    series = first_of("a{x} 2");
    CHECK(!exposition_sample(&series, &sample));
}

TEST(only_plain_numbers_from_zero_on_are_numbers)
{
    static const char *const none[] = {"",    "NaN",   "+Inf", "-1",  "0x10", "1e99",
                                       "1 2", "1e15x", "1,5",  "--1", "."};
    double value = 7;
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        CHECK(!exposition_number(slice_str(none[i]), &value) && value == 7);
    }
    CHECK(exposition_number(slice_str("1e15"), &value) && value == 1e15);
    CHECK(exposition_number(slice_str("0.25"), &value) && value == 0.25);
}

TEST(json_begins_with_a_bracket)
{
    CHECK(exposition_is_json(slice_str(" \r\n[]")));
    CHECK(exposition_is_json(slice_str("{")));
    CHECK(!exposition_is_json(slice_str("a{} 1")));
}
