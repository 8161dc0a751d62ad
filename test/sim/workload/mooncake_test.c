// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/mooncake.h"

#include "base/rng.h"
#include "base/text.h"
#include "test.h"

#include <stdlib.h>

#define LINE(at, in, out, ids)                                                                     \
    "{\"timestamp\": " #at ", \"input_length\": " #in ", \"output_length\": " #out                 \
    ", \"hash_ids\": " ids "}\n"
#define SESSION(id)                                                                                \
    "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [], "             \
    "\"session_id\": " id "}\n"

static enum status read(const char *text, struct mooncake_trace *out,
                        char error[mooncake_error_size])
{
    return mooncake_read(slice_str(text), out, error);
}

TEST(reads_every_field_of_a_line)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read("{\"timestamp\": 27, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": "
                  "[46, 18446744073709551615], \"session_id\": 9, \"turn\": 3, \"block_size\": 64}",
                  &trace, error),
             STATUS_OK);
    CHECK_EQ(trace.request_count, 1);
    CHECK_EQ(trace.span_us, 0);
    CHECK_EQ(trace.requests[0].at_us, 0);
    CHECK_EQ(trace.requests[0].input_tokens, 600);
    CHECK_EQ(trace.requests[0].output_tokens, 5);
    CHECK_EQ(trace.requests[0].id_count, 2);
    CHECK_EQ(trace.requests[0].session, 9);
    CHECK_EQ(trace.requests[0].turn, 3);
    CHECK_EQ(trace.requests[0].block_tokens, 64);
    CHECK_EQ(trace.ids[0], 46);
    CHECK(trace.ids[1] == UINT64_MAX);
    mooncake_destroy(&trace);
}

TEST(absent_fields_have_the_published_defaults)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read(LINE(0, 600, 5, "[1, 2]"), &trace, error), STATUS_OK);
    CHECK_EQ(trace.requests[0].session, 0);
    CHECK_EQ(trace.requests[0].turn, 0);
    CHECK_EQ(trace.requests[0].block_tokens, 512);
    mooncake_destroy(&trace);
}

TEST(other_fields_and_empty_lines_are_passed_over)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read("\n{\"hash_ids\": [7], \"model\": {\"name\": [\"x\", 1]}, \"output_length\": 2, "
                  "\"timestamp\": 5.5, \"input_length\": 3}\r\n \r\n" LINE(7, 1, 1, "[]"),
                  &trace, error),
             STATUS_OK);
    CHECK_EQ(trace.request_count, 2);
    CHECK_EQ(trace.requests[0].input_tokens, 3);
    CHECK_EQ(trace.ids[0], 7);
    CHECK_EQ(trace.requests[1].at_us, 1500);
    mooncake_destroy(&trace);
}

TEST(equal_stamps_are_spread_over_the_quantum)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read(LINE(3000, 1, 1, "[]") LINE(3000, 2, 1, "[]") LINE(3000, 3, 1, "[]")
                      LINE(6000, 4, 1, "[]") LINE(60000, 5, 1, "[]") LINE(60000, 6, 1, "[]"),
                  &trace, error),
             STATUS_OK);
    const uint64_t times[] = {0, 1000000, 2000000, 3000000, 57000000, 58500000};
    CHECK_EQ(trace.request_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        CHECK_EQ(trace.requests[i].at_us, times[i]);
        CHECK_EQ(trace.requests[i].input_tokens, i + 1);
    }
    CHECK_EQ(trace.span_us, 58500000);
    mooncake_destroy(&trace);
}

TEST(requests_with_one_stamp_stay_at_one_time)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read(LINE(9, 1, 1, "[]") LINE(9, 2, 1, "[]"), &trace, error), STATUS_OK);
    CHECK_EQ(trace.requests[1].at_us, 0);
    CHECK_EQ(trace.span_us, 0);
    mooncake_destroy(&trace);
}

TEST(requests_come_by_time_and_equals_in_the_order_of_their_lines)
{
    enum { lines = 500 };
    static char bytes[lines * 128];
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    struct rng rng = {.state = 4};
    struct text text = text_over(bytes, sizeof(bytes));
    uint32_t stamps[lines];

    for (uint32_t i = 0; i < lines; i++) {
        // The first is the earliest, so that times are the stamps.
        stamps[i] = i == 0 ? 0 : rng_below(&rng, 50);
        struct mooncake_request request = {
            .at_us = 1000000 * (uint64_t)stamps[i], .input_tokens = i, .block_tokens = 512};
        mooncake_write(&request, NULL, &text);
    }
    CHECK_EQ(mooncake_read(text_slice(&text), &trace, error), STATUS_OK);
    CHECK_EQ(trace.request_count, lines);
    for (uint32_t i = 0; i < lines; i++) {
        const struct mooncake_request *request = &trace.requests[i];
        const struct mooncake_request *before = &trace.requests[i > 0 ? i - 1 : 0];
        CHECK_EQ(request->at_us / 1000000, stamps[request->input_tokens]);
        CHECK(i == 0 || before->at_us < request->at_us);
        CHECK(i == 0 || stamps[before->input_tokens] != stamps[request->input_tokens] ||
              before->input_tokens < request->input_tokens);
    }
    mooncake_destroy(&trace);
}

TEST(sessions_are_numbers_or_strings)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read(SESSION("12") SESSION("\"a\"") SESSION("\"b\"") SESSION("\"a\"") SESSION("0")
                      SESSION("null"),
                  &trace, error),
             STATUS_OK);
    CHECK_EQ(trace.requests[0].session, 12);
    CHECK(trace.requests[1].session != 0);
    CHECK(trace.requests[1].session != trace.requests[2].session);
    CHECK(trace.requests[1].session == trace.requests[3].session);
    CHECK(trace.requests[4].session != 0); // it is one, whose number is 0
    CHECK_EQ(trace.requests[5].session, 0);
    mooncake_destroy(&trace);
}

TEST(an_error_names_the_line_and_the_field)
{
    static const struct {
        const char *line;
        const char *error;
    } cases[] = {
        {"{\"timestamp\": 1", "line 3: not JSON"},
        {"nothing", "line 3: not JSON"},
        {"{} {}", "line 3: not JSON"},
        {"[1]", "line 3: not an object"},
        {"{}", "line 3: timestamp is missing"},
        {"{\"timestamp\": 1, \"input_length\": 1, \"output_length\": 1}",
         "line 3: hash_ids is missing"},
        {LINE(-1, 1, 1, "[]"), "line 3: timestamp is not a number of milliseconds from 0 to 4e+12"},
        {LINE(1e400, 1, 1, "[]"),
         "line 3: timestamp is not a number of milliseconds from 0 to 4e+12"},
        {LINE("1", 1, 1, "[]"),
         "line 3: timestamp is not a number of milliseconds from 0 to 4e+12"},
        {LINE(1, 1.5, 1, "[]"), "line 3: input_length is not a whole number from 0 to 16777216"},
        {LINE(1, 1, 16777217, "[]"),
         "line 3: output_length is not a whole number from 0 to 16777216"},
        {LINE(1, 1, 1, "7"), "line 3: hash_ids is not a list"},
        {LINE(1, 1, 1, "[1, 2, \"3\"]"), "line 3: hash_ids has no whole number at place 2"},
        {"{\"timestamp\": 1, \"hash_ids\": [1, 2", "line 3: not JSON"},
        {"{\"hash_ids\": [1], \"hash_ids\": []}", "line 3: hash_ids comes twice"},
        {SESSION("[1]"), "line 3: session_id is neither a number nor a string"},
        {SESSION("1, \"block_size\": 0"),
         "line 3: block_size is not a whole number from 1 to 16777216"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char text[512];
        char error[mooncake_error_size] = "";
        struct mooncake_trace trace = {.span_us = 42};
        (void)snprintf(text, sizeof(text), "%s\n%s", LINE(0, 1, 1, "[1]"), cases[i].line);
        CHECK_EQ(read(text, &trace, error), STATUS_MALFORMED);
        CHECK_STR(error, cases[i].error);
        CHECK_EQ(trace.span_us, 42);
    }
}

TEST(a_trace_has_at_least_one_request)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read("", &trace, error), STATUS_MALFORMED);
    CHECK_STR(error, "line 1: no request");
    CHECK_EQ(read("\n\n", &trace, error), STATUS_MALFORMED);
}

TEST(a_line_is_written_as_the_format_says)
{
    char bytes[256];
    const uint64_t ids[] = {5, 46, UINT64_MAX};
    struct text text = text_over(bytes, sizeof(bytes));
    mooncake_write(&(struct mooncake_request){.at_us = 3000000,
                                              .input_tokens = 600,
                                              .output_tokens = 5,
                                              .block_tokens = 512,
                                              .first = 1,
                                              .id_count = 2},
                   ids, &text);
    mooncake_write(&(struct mooncake_request){.at_us = 27005,
                                              .session = 9,
                                              .turn = 3,
                                              .input_tokens = 1,
                                              .output_tokens = 2,
                                              .block_tokens = 64},
                   ids, &text);
    text_add(&text, slice_of("", 1));
    CHECK(!text.overflow);
    CHECK_STR(bytes, "{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 5, "
                     "\"hash_ids\": [46, 18446744073709551615]}\n"
                     "{\"timestamp\": 27.005, \"input_length\": 1, \"output_length\": 2, "
                     "\"hash_ids\": [], \"session_id\": 9, \"turn\": 3, \"block_size\": 64}\n");
}

// Times grow, so that none are spread.
static void make_requests(struct mooncake_request *requests, uint32_t count, uint64_t *ids)
{
    struct rng rng = {.state = 8};
    uint64_t at_us = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool has_session = rng_below(&rng, 2) == 0;
        requests[i] = (struct mooncake_request){
            .at_us = at_us,
            .session = has_session ? 1 + rng_below(&rng, 100) : 0,
            .turn = has_session ? rng_below(&rng, 9) : 0,
            .input_tokens = rng_below(&rng, 100000),
            .output_tokens = rng_below(&rng, 3000),
            .block_tokens = rng_below(&rng, 2) == 0 ? 512 : 64,
            .first = first,
            .id_count = rng_below(&rng, 9),
        };
        for (uint32_t k = 0; k < requests[i].id_count; k++) {
            ids[first++] = rng_next(&rng);
        }
        at_us += 1 + rng_below(&rng, 5000000);
    }
}

TEST(a_written_trace_is_read_as_the_same)
{
    enum { count = 3000 };
    static struct mooncake_request requests[count];
    static uint64_t ids[count * 8];
    static char bytes[count * 400];
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    struct text text = text_over(bytes, sizeof(bytes));

    make_requests(requests, count, ids);
    for (uint32_t i = 0; i < count; i++) {
        mooncake_write(&requests[i], ids, &text);
    }
    CHECK(!text.overflow);
    CHECK_EQ(mooncake_read(text_slice(&text), &trace, error), STATUS_OK);
    CHECK_EQ(trace.request_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mooncake_request *read = &trace.requests[i];
        CHECK_EQ(read->at_us, requests[i].at_us);
        CHECK_EQ(read->session, requests[i].session);
        CHECK_EQ(read->turn, requests[i].turn);
        CHECK_EQ(read->input_tokens, requests[i].input_tokens);
        CHECK_EQ(read->output_tokens, requests[i].output_tokens);
        CHECK_EQ(read->block_tokens, requests[i].block_tokens);
        CHECK_EQ(read->first, requests[i].first);
        CHECK_EQ(read->id_count, requests[i].id_count);
    }
    CHECK(memcmp(trace.ids, ids, trace.id_count * sizeof(ids[0])) == 0);
    mooncake_destroy(&trace);
}
