// SPDX-License-Identifier: Apache-2.0

#include "sim/mooncake.h"

#include "base/text.h"
#include "test.h"

#define LINE(at, in, out, ids)                                                                     \
    "{\"timestamp\": " #at ", \"input_length\": " #in ", \"output_length\": " #out                 \
    ", \"hash_ids\": " #ids "}\n"

static enum status read(const char *text, struct mooncake_trace *out,
                        char error[mooncake_error_size])
{
    return mooncake_read(slice_str(text), out, error);
}

TEST(reads_what_a_line_says)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(
        read("{\"timestamp\": 27, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [46, "
             "18446744073709551615], \"session_id\": 9, \"turn\": 3, \"block_size\": 64}",
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

TEST(equal_stamps_are_spread_over_the_quantum)
{
    char error[mooncake_error_size];
    struct mooncake_trace trace;
    CHECK_EQ(read(LINE(3000, 1, 1, []) LINE(3000, 2, 1, []) LINE(3000, 3, 1, [])
                      LINE(6000, 4, 1, []) LINE(60000, 5, 1, []) LINE(60000, 6, 1, []),
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
