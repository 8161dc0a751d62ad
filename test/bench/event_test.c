// SPDX-License-Identifier: Apache-2.0
//
// The benchmark counts what its load tool recognizes as an event.

#include "event.h"

#include "base/histogram.h"
#include "test.h"

struct seen {
    uint32_t count;
    uint64_t time_sum;
    uint32_t stream;
};

static void event_seen(void *owner, uint64_t written_ns, uint32_t stream)
{
    struct seen *seen = owner;
    seen->count++;
    seen->time_sum += written_ns;
    seen->stream = stream;
}

#define EVENT(time, stream) EVENT_HEAD time EVENT_MIDDLE stream EVENT_TAIL

TEST(finds_events_in_portions_of_any_size)
{
    static const char text[] =
        EVENT("0000000000000000100", "00016") EVENT("0000000000000000100", "00017");
    CHECK_EQ(strlen(text), 2 * event_size);
    for (size_t portion = 1; portion <= strlen(text); portion++) {
        struct event_reader reader = {0};
        struct seen seen = {0};
        for (size_t at = 0; at < strlen(text); at += portion) {
            size_t left = strlen(text) - at;
            event_read(&reader, slice_of(text + at, left < portion ? left : portion), event_seen,
                       &seen);
        }
        CHECK_EQ(reader.size, 2 * event_size);
        CHECK_EQ(seen.count, 2);
        CHECK_EQ(seen.time_sum, 200);
        CHECK_EQ(seen.stream, 17);
    }
}

TEST(an_incomplete_event_is_not_counted)
{
    struct event_reader reader = {0};
    struct seen seen = {0};
    event_read(&reader, slice_of(EVENT("0000000000000000100", "00017"), event_size - 1), event_seen,
               &seen);
    CHECK_EQ(seen.count, 0);
}

TEST(quantiles_are_exact_to_a_hundredth)
{
    static struct histogram histogram;
    for (uint64_t us = 1; us <= 10000; us++) {
        histogram_add(&histogram, us * 1000);
    }
    uint64_t p50 = histogram_quantile(&histogram, 0.5);
    uint64_t p99 = histogram_quantile(&histogram, 0.99);
    CHECK(p50 > 4950000 && p50 <= 5001000);
    CHECK(p99 > 9800000 && p99 <= 9901000);
    CHECK_EQ(histogram.max_ns, 10000000);
}
