// SPDX-License-Identifier: Apache-2.0

#include "http/sse.h"

#include "http/sse_twin.h"
#include "test.h"

enum { plenty = 4096 };

// All events of `text`, fed at once, as [name|data] each; ! for one that was passed over.
static const char *events_of(const char *text, uint32_t capacity)
{
    static uint8_t buffer[plenty];
    static char trace[plenty];
    struct text out = text_over(trace, sizeof(trace) - 1);
    struct slice bytes = slice_str(text);
    struct sse sse;
    struct sse_event event;

    sse_begin(&sse, capacity > 0 ? buffer : NULL, capacity);
    while (sse_next(&sse, &bytes, &event)) {
        text_add_str(&out, "[");
        text_add(&out, event.name);
        text_add_str(&out, event.is_complete ? "|" : "!");
        text_add(&out, event.data);
        text_add_str(&out, "]");
    }
    trace[out.size] = '\0';
    return trace;
}

TEST(an_event_ends_at_an_empty_line_whatever_ends_its_lines)
{
    CHECK_STR(events_of("data: a\n\ndata: b\n\n", 0), "[|a][|b]");
    CHECK_STR(events_of("data: a\r\n\r\ndata: b\r\n\r\n", 0), "[|a][|b]");
    CHECK_STR(events_of("data: a\r\rdata: b\r\r", 0), "[|a][|b]");
    CHECK_STR(events_of("data: a\r\n\ndata: b\n\r\ndata: c\n\rdata: d\r\r\n", 0),
              "[|a][|b][|c][|d]");
}

TEST(an_event_without_its_empty_line_is_not_reported)
{
    CHECK_STR(events_of("data: a", plenty), "");
    CHECK_STR(events_of("data: a\n", plenty), "");
    CHECK_STR(events_of("data: a\r\n", plenty), "");
    CHECK_STR(events_of("", plenty), "");
}

TEST(one_space_after_the_colon_is_not_data)
{
    CHECK_STR(events_of("data:a\n\n", 0), "[|a]");
    CHECK_STR(events_of("data:  a \n\n", 0), "[| a ]");
    CHECK_STR(events_of("data:\ta:b\n\n", 0), "[|\ta:b]");
    CHECK_STR(events_of("data: \n\n", 0), "[|]");
    CHECK_STR(events_of("data\n\n", 0), "[|]");
}

TEST(data_lines_are_joined_with_lf)
{
    CHECK_STR(events_of("data: a\ndata: b\r\ndata:c\rdata\n\n", plenty), "[|a\nb\nc\n]");
    CHECK_STR(events_of("data\ndata\n\n", plenty), "[|\n]");
    CHECK_STR(events_of("data: a\nevent: n\ndata: b\nevent: m\n\n", plenty), "[m|a\nb]");
}

TEST(fields_other_than_data_and_event_are_ignored)
{
    CHECK_STR(events_of(":\n\n", 0), "[|]");
    CHECK_STR(events_of(": data: a\n\n", 0), "[|]");
    CHECK_STR(events_of("id: 1\nretry: 10\nDATA: a\ndata : b\n data: c\ndatas: d\ndat\n\n", 0),
              "[|]");
    CHECK_STR(events_of(": ping\nevent: response.created\ndata: {}\n\n", 0),
              "[response.created|{}]");
    CHECK_STR(events_of("event: a\nevent\ndata: x\n\n", 0), "[|x]");
}

TEST(a_byte_order_mark_counts_at_the_very_start_alone)
{
    CHECK_STR(events_of("\xef\xbb\xbf"
                        "data: a\n\n",
                        0),
              "[|a]");
    CHECK_STR(events_of("\xef\xbb\xbf\xef\xbb\xbf"
                        "data: a\n\n",
                        0),
              "[|]");
    CHECK_STR(events_of("data: a\n\n\xef\xbb\xbf"
                        "data: b\n\n",
                        0),
              "[|a][|]");
    CHECK_STR(events_of(":\n\xef\xbb\xbf"
                        "data: b\n\n",
                        0),
              "[|]");
}

TEST(a_whole_event_of_one_line_is_not_copied)
{
    static const char text[] = ": ping\n\ndata: {\"a\":1}\n\ndata: [DONE]\n\n";
    struct slice bytes = slice_str(text);
    struct sse sse;
    struct sse_event event;

    sse_begin(&sse, NULL, 0);
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.whole, ": ping\n\n"));
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(event.is_complete);
    CHECK_EQ(event.data.bytes - (const uint8_t *)text, 14);
    CHECK(slice_is(event.data, "{\"a\":1}"));
    CHECK(slice_is(event.whole, "data: {\"a\":1}\n\n"));
    CHECK(slice_is(bytes, "data: [DONE]\n\n"));
}

TEST(the_whole_of_an_event_in_pieces_is_its_last_piece)
{
    uint8_t buffer[64];
    struct slice bytes = slice_str("data: a\n\nda");
    struct sse sse;
    struct sse_event event;

    sse_begin(&sse, buffer, sizeof(buffer));
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(!sse_is_inside(&sse));
    CHECK(!sse_next(&sse, &bytes, &event));
    CHECK_EQ(bytes.size, 0);
    CHECK(sse_is_inside(&sse));

    bytes = slice_str("ta: b\n\r\ndata: c");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.data, "b"));
    CHECK(slice_is(event.whole, "ta: b\n\r\n"));
    CHECK(slice_is(bytes, "data: c"));
}

TEST(the_lf_of_a_crlf_that_was_cut_belongs_to_the_event_before)
{
    uint8_t buffer[64];
    struct slice bytes = slice_str("data: a\r\n\r");
    struct sse sse;
    struct sse_event event;

    sse_begin(&sse, buffer, sizeof(buffer));
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.whole, "data: a\r\n\r"));
    CHECK(!sse_next(&sse, &bytes, &event));

    bytes = slice_str("\n");
    CHECK(!sse_next(&sse, &bytes, &event));
    CHECK_EQ(bytes.size, 0);
    CHECK(!sse_is_inside(&sse));

    // It was one LF; the second is an empty line of its own.
    bytes = slice_str("\ndata: b\r");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.whole, "\n"));
    CHECK(!sse_next(&sse, &bytes, &event));

    // Inside of an event it belongs to that one.
    bytes = slice_str("\n\r\n");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.whole, "\n\r\n"));
    CHECK(slice_is(event.data, "b"));
}

TEST(an_event_larger_than_the_buffer_is_passed_over_and_the_next_one_is_right)
{
    uint8_t buffer[16];
    struct slice bytes = slice_str("event: n\ndata: 0123");
    struct sse sse;
    struct sse_event event;

    sse_begin(&sse, buffer, sizeof(buffer));
    CHECK(!sse_next(&sse, &bytes, &event));
    CHECK(sse_is_inside(&sse));
    bytes = slice_str("45\n\ndata: b");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(!event.is_complete);
    CHECK_EQ(event.data.size + event.name.size, 0);
    CHECK(slice_is(event.whole, "45\n\n"));
    CHECK(!sse_next(&sse, &bytes, &event));
    bytes = slice_str("\n\n");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(event.is_complete);
    CHECK(slice_is(event.data, "b"));
}

TEST(a_buffer_is_filled_to_its_last_byte)
{
    static const char text[] = "data: 01\n\n";
    const size_t size = sizeof(text) - 1;

    for (size_t cut = 1; cut < size; cut++) {
        struct slice stream = slice_of(text, size);
        CHECK_EQ(sse_compare(stream, NULL, cut, (uint32_t)size).complete, 1);
        CHECK_EQ(sse_compare(stream, NULL, cut, (uint32_t)size - 1).passed_over, 1);
    }
}

TEST(lines_to_be_joined_need_a_buffer_with_room)
{
    CHECK_STR(events_of("data: ab\ndata: c\n\ndata: d\n\n", 0), "[!][|d]");
    CHECK_STR(events_of("data: ab\ndata: c\n\ndata: d\n\n", 1), "[!][|d]");
    CHECK_STR(events_of("data: ab\ndata: c\n\ndata: d\n\n", 2), "[!][|d]");
    CHECK_STR(events_of("data: ab\ndata: c\n\ndata: d\n\n", 3), "[!][|d]");
    CHECK_STR(events_of("data: ab\ndata: c\n\ndata: d\n\n", 4), "[|ab\nc][|d]");
}

TEST(a_line_without_end_costs_no_memory_and_little_time)
{
    static uint8_t noise[65536];
    uint8_t buffer[256];
    struct sse sse;
    struct sse_event event;

    memset(noise, 'x', sizeof(noise));
    sse_begin(&sse, buffer, sizeof(buffer));
    for (int i = 0; i < 1000; i++) {
        struct slice bytes = slice_of(noise, sizeof(noise));
        CHECK(!sse_next(&sse, &bytes, &event));
    }
    struct slice bytes = slice_str("\n\ndata: a\n\n");
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(!event.is_complete);
    CHECK(sse_next(&sse, &bytes, &event));
    CHECK(slice_is(event.data, "a"));
}

static const char sample[] = "\xef\xbb\xbf"
                             ": hello\r\n\r\nevent: message_start\r\ndata: {\"a\":1}\r\n\r\n"
                             "data: one\ndata\ndata: three, which is longer than a vector is\n\n"
                             "\n\r\r\n:\n\ndata: a\revent: name\rdata:  b\rid: 4\rdata:c\r\r"
                             "data: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n\n"
                             "data: [DONE]\n\nevent: none\ndata: cut off\n";

TEST(events_do_not_depend_on_how_the_bytes_were_cut)
{
    struct slice text = slice_of(sample, sizeof(sample) - 1);

    for (size_t portion = 1; portion <= text.size; portion++) {
        struct sse_count count = sse_compare(text, NULL, portion, plenty);
        CHECK(count.is_same);
        CHECK_EQ(count.complete, 10);
        CHECK_EQ(count.passed_over, 0);
    }
    for (uint32_t i = 0; i < 80 * 40; i++) {
        CHECK(sse_compare(text, NULL, 1 + i % 40, i / 40).is_same);
    }
}

// Mostly what means something, so that every rule meets every other.
static size_t random_stream(uint8_t *out, size_t capacity, struct rng *rng)
{
    static const char *const pieces[] = {
        "\n",      "\n",   "\r",     "\r\n",  "\r\n\r\n",     "\n\n", "data: ",
        "data:",   "data", "event:", "event", "\xef\xbb\xbf", ":",    " ",
        "{\"a\":", "x",    "id: 7",  "data",  "data: one\n",  "",     "0123456789abcdefghijk",
    };
    struct text text = text_over(out, capacity);
    uint32_t count = rng_below(rng, 60);

    for (uint32_t i = 0; i < count; i++) {
        text_add_str(&text, pieces[rng_below(rng, ARRAY_COUNT(pieces))]);
    }
    return text.size;
}

TEST(any_stream_cut_anyhow_has_the_events_of_the_simple_twin)
{
    static uint8_t stream[plenty];
    struct rng rng = {.state = 1};
    uint64_t complete = 0;
    uint64_t passed_over = 0;

    for (int round = 0; round < 20000; round++) {
        struct slice text = slice_of(stream, random_stream(stream, sizeof(stream), &rng));
        uint32_t capacity = round % 2 == 0 ? 2 * plenty : rng_below(&rng, 64);
        struct sse_count count = sse_compare(text, &rng, 1 + rng_below(&rng, 50), capacity);
        CHECK(count.is_same);
        CHECK(count.passed_over == 0 || round % 2 != 0);
        complete += count.complete;
        passed_over += count.passed_over;
    }
    CHECK(complete > 50000);
    CHECK(passed_over > 5000);
}
