// SPDX-License-Identifier: Apache-2.0

#include "fleet/progress.h"

#include "test.h"

enum { limit_ms = 10000 };

static const struct progress_request new_stream = {.is_streamed = true};
static const struct progress_request begun_stream = {.is_streamed = true, .has_begun = true};
static const struct progress_request new_whole = {0};

static uint64_t stalled(const struct progress *progress, uint64_t now_ms)
{
    return progress_stalled_ms(progress, &(struct progress_limits){.configured_ms = limit_ms},
                               now_ms);
}

// Outputs of one stream every `gap_ms`, from `from_ms` on; the time of the last.
static uint64_t stream(struct progress *progress, uint64_t from_ms, uint64_t gap_ms, int count)
{
    for (int i = 1; i <= count; i++) {
        bool is_first = atomic_load(&progress->begun) == 0;
        if (is_first) {
            progress_first(progress, from_ms + (uint64_t)i * gap_ms,
                           from_ms + (uint64_t)i * gap_ms);
        } else {
            progress_output(progress, from_ms + (uint64_t)i * gap_ms);
        }
    }
    return from_ms + (uint64_t)count * gap_ms;
}

TEST(a_backend_without_requests_is_never_stalled)
{
    struct progress progress = {0};
    CHECK_EQ(stalled(&progress, 100000), 0);
    progress_begin(&progress, new_stream, 100000);
    progress_end(&progress, new_stream);
    CHECK_EQ(stalled(&progress, 200000), 0);
    CHECK_EQ(progress_requests(&progress), 0);
}

TEST(the_first_request_ever_has_the_configured_time)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    CHECK_EQ(stalled(&progress, 1000 + limit_ms - 1), 0);
    CHECK_EQ(stalled(&progress, 1000 + limit_ms), limit_ms);
}

TEST(streams_are_judged_by_their_usual_gap_and_have_two_seconds)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 100);
    CHECK_EQ(stalled(&progress, now_ms + 1999), 0);
    CHECK_EQ(stalled(&progress, now_ms + 2000), 2000);
    now_ms = stream(&progress, now_ms, 500, 20);
    CHECK_EQ(stalled(&progress, now_ms + 3999), 0);
    CHECK(stalled(&progress, now_ms + 4001) > 0);
}

TEST(a_long_gap_is_forgotten_within_minutes_of_short_ones)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 1000, 10);
    CHECK_EQ(stalled(&progress, now_ms + 7900), 0);
    now_ms = stream(&progress, now_ms, 50, 6000);
    CHECK(stalled(&progress, now_ms + 2000) > 0);
}

TEST(one_stall_that_ends_does_not_become_usual)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 100);
    now_ms = stream(&progress, now_ms, 100000, 1);
    CHECK_EQ(stalled(&progress, now_ms + 15000), 0);
    CHECK(stalled(&progress, now_ms + 16000) > 0);
}

TEST(until_a_stream_has_begun_the_configured_time_holds)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 100);
    progress_begin(&progress, new_stream, now_ms);
    progress_end(&progress, begun_stream);
    struct progress_limits limits = {.configured_ms = limit_ms};
    CHECK_EQ(progress_stalled_ms(&progress, &limits, now_ms + limit_ms - 1), 0);
    CHECK(progress_stalled_ms(&progress, &limits, now_ms + limit_ms) > 0);
}

TEST(first_outputs_of_new_streams_do_not_hide_that_begun_ones_hang)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 10);
    for (uint64_t i = 1; i <= 4; i++) {
        progress_begin(&progress, new_stream, now_ms + i * 500);
        progress_first(&progress, now_ms + i * 500 - 30, now_ms + i * 500);
    }
    CHECK_EQ(stalled(&progress, now_ms + 1999), 0);
    CHECK(stalled(&progress, now_ms + 4200) > 0);
    progress_output(&progress, now_ms + 4300);
    CHECK_EQ(stalled(&progress, now_ms + 5000), 0);
}

TEST(a_row_of_long_prefills_excuses_a_pause_of_streams_up_to_the_configured_time)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 10);
    for (int i = 1; i <= 10; i++) {
        now_ms += 500;
        progress_begin(&progress, new_stream, now_ms);
        progress_first(&progress, now_ms - 5000, now_ms);
        CHECK_EQ(stalled(&progress, now_ms + 499), 0);
    }
    for (int i = 1; i <= 30; i++) {
        now_ms += 500;
        progress_begin(&progress, new_stream, now_ms);
        progress_first(&progress, now_ms - 5000, now_ms);
    }
    CHECK(stalled(&progress, now_ms) > 0);
    progress_output(&progress, now_ms + 1);
    CHECK_EQ(stalled(&progress, now_ms + 2000), 0);
}

TEST(a_whole_response_is_progress_where_streams_have_begun)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 10);
    progress_begin(&progress, new_whole, now_ms);
    progress_whole(&progress, now_ms, now_ms + 3000);
    CHECK_EQ(stalled(&progress, now_ms + 4000), 0);
}

TEST(a_stream_whose_client_reads_again_begins_its_time_anew)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 10);
    progress_end(&progress, begun_stream);
    progress_begin(&progress, begun_stream, now_ms + 60000);
    CHECK_EQ(stalled(&progress, now_ms + 61000), 0);
    CHECK(stalled(&progress, now_ms + 62000) > 0);
}

TEST(one_long_whole_response_is_usual_from_then_on)
{
    struct progress progress = {0};
    progress_begin(&progress, new_whole, 1000);
    progress_whole(&progress, 1000, 121000);
    CHECK_EQ(stalled(&progress, 121000 + 479000), 0);
    for (uint64_t i = 0; i < 300; i++) {
        progress_whole(&progress, 121000 + i * 1000, 121000 + (i + 1) * 1000);
    }
    CHECK_EQ(stalled(&progress, 421000 + 60000), 0);
}

TEST(whole_responses_are_judged_by_their_usual_length)
{
    struct progress progress = {0};
    progress_begin(&progress, new_whole, 1000);
    for (uint64_t i = 0; i < 5; i++) {
        progress_whole(&progress, 1000 + i * 6000, 1000 + (i + 1) * 6000);
    }
    CHECK_EQ(stalled(&progress, 31000 + 20000), 0);
    CHECK(stalled(&progress, 31000 + 24001) > 0);
}

TEST(short_whole_responses_leave_the_configured_time)
{
    struct progress progress = {0};
    progress_begin(&progress, new_whole, 1000);
    progress_whole(&progress, 1000, 1020);
    CHECK_EQ(stalled(&progress, 1020 + limit_ms - 1), 0);
    CHECK(stalled(&progress, 1020 + limit_ms) > 0);
}

TEST(a_long_queue_of_prompts_has_its_time)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    uint64_t now_ms = stream(&progress, 1000, 20, 100);
    struct progress_limits limits = {.configured_ms = limit_ms, .queue_ms = 5000};
    CHECK_EQ(progress_stalled_ms(&progress, &limits, now_ms + 19999), 0);
    CHECK(progress_stalled_ms(&progress, &limits, now_ms + 20000) > 0);
}

TEST(a_configured_time_of_zero_turns_it_off)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 1000);
    CHECK_EQ(progress_stalled_ms(&progress, &(struct progress_limits){0}, 1000000), 0);
}

TEST(a_worker_whose_clock_is_behind_takes_nothing_back)
{
    struct progress progress = {0};
    progress_begin(&progress, new_stream, 5000);
    progress_first(&progress, 5000, 5500);
    progress_output(&progress, 6000);
    progress_output(&progress, 5990);
    CHECK_EQ(stalled(&progress, 7999), 0);
    CHECK_EQ(progress_moved_ms(&progress), 6000);
}
