// SPDX-License-Identifier: Apache-2.0

#include "http/traceparent.h"

#include "base/text.h"
#include "http/head.h"
#include "test.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define REST TRACE "-" PARENT

static bool is_read(const char *value)
{
    struct traceparent out;
    return traceparent_parse(slice_str(value), &out);
}

TEST(all_parts_are_read)
{
    struct traceparent out;
    CHECK(traceparent_parse(slice_str("00-" REST "-01"), &out));
    CHECK(out.trace[0] == 0x4bf92f3577b34da6 && out.trace[1] == 0xa3ce929d0e0e4736);
    CHECK(out.parent == 0x00f067aa0ba902b7);
    CHECK_EQ(out.flags, TRACEPARENT_SAMPLED);
    CHECK(traceparent_parse(slice_str("00-" REST "-00"), &out));
    CHECK_EQ(out.flags, 0);
}

TEST(flags_without_a_meaning_are_not_kept)
{
    struct traceparent out;
    CHECK(traceparent_parse(slice_str("00-" REST "-ff"), &out));
    CHECK_EQ(out.flags, TRACEPARENT_SAMPLED | TRACEPARENT_RANDOM);
    CHECK(traceparent_parse(slice_str("00-" REST "-fc"), &out));
    CHECK_EQ(out.flags, 0);
    CHECK(traceparent_parse(slice_str("01-" REST "-ff"), &out));
    CHECK_EQ(out.flags, TRACEPARENT_SAMPLED);
}

TEST(a_malformed_version_00_is_refused)
{
    static const char *const values[] = {
        "",
        "00",
        "00-" REST,
        "00-" REST "-",
        "00-" REST "-1",
        "00-" REST "-01-",
        "00-" REST "-01-what-the-future-will-be-like",
        "00-" REST "-01 ",
        " 00-" REST "-01",
        "00-" REST "-0x",
        "00-" REST "-0A",
        "0-" REST "-01",
        "0A-" REST "-01",
        "ff-" REST "-01",
        "ff-" REST "-01-more",
        "00_" REST "-01",
        "00-" TRACE "_" PARENT "-01",
        "00-" REST "_01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
        "00-" TRACE "-00F067AA0BA902B7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-" PARENT "-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-0" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE "-0000000000000000-01",
    };
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        if (is_read(values[i])) {
            test_fail(__FILE__, __LINE__, "\"%s\" is read", values[i]);
        }
    }
}

TEST(half_an_id_may_be_zero)
{
    CHECK(is_read("00-0000000000000000a3ce929d0e0e4736-" PARENT "-01"));
    CHECK(is_read("00-4bf92f3577b34da60000000000000000-" PARENT "-01"));
}

TEST(a_later_version_is_read_as_far_as_we_know_it)
{
    struct traceparent out;
    CHECK(traceparent_parse(slice_str("cc-" REST "-01"), &out));
    CHECK(out.parent == 0x00f067aa0ba902b7 && out.flags == TRACEPARENT_SAMPLED);
    CHECK(is_read("cc-" REST "-01-what-the-future-will-be-like"));
    CHECK(is_read("cc-" REST "-01-"));
    CHECK(!is_read("cc-" REST "-01.what-the-future-will-be-like"));
    CHECK(!is_read("cc-" REST "-011"));
}

TEST(a_value_that_is_refused_leaves_the_result_alone)
{
    struct traceparent out = {.parent = 7};
    CHECK(!traceparent_parse(slice_str("00-" TRACE "-0000000000000000-01"), &out));
    CHECK_EQ(out.parent, 7);
    CHECK_EQ(out.trace[0], 0);
}

static const char *written(const struct traceparent *traceparent)
{
    static char space[traceparent_size + 1];
    struct text out = text_over(space, traceparent_size);
    traceparent_write(traceparent, &out);
    ASSERT(!out.overflow && out.size == traceparent_size);
    space[out.size] = '\0';
    return space;
}

TEST(a_written_field_has_all_its_zeros_and_is_read_again)
{
    struct traceparent in = {.trace = {0x1, 0xa}, .parent = 0xfedcba9876543210, .flags = 1};
    CHECK_STR(written(&in), "00-0000000000000001000000000000000a-fedcba9876543210-01");
    struct traceparent out;
    CHECK(traceparent_parse(slice_str(written(&in)), &out));
    CHECK(out.trace[0] == 1 && out.trace[1] == 10 && out.parent == in.parent && out.flags == 1);
}

static bool is_found(const char *fields, struct traceparent *out)
{
    static struct http_head head;
    char text[1024];
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", fields);
    http_head_start(&head, HTTP_KIND_REQUEST, (struct http_limits){4096, 1024});
    ASSERT(http_head_feed(&head, slice_str(text)) == STATUS_OK);
    return traceparent_find(&head, out);
}

TEST(the_field_is_found_in_any_case_and_only_if_it_is_the_only_one)
{
    struct traceparent out;
    CHECK(is_found("TraceParent:  00-" REST "-01 \r\n", &out));
    CHECK(out.parent == 0x00f067aa0ba902b7);
    CHECK(!is_found("trace-parent: 00-" REST "-01\r\n", &out));
    CHECK(!is_found("traceparent: \r\n", &out));
    CHECK(
        !is_found("traceparent: 00-" REST "-01\r\nX: 1\r\ntraceparent: 00-" REST "-01\r\n", &out));
}
