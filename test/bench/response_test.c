// SPDX-License-Identifier: Apache-2.0
//
// What the load tool takes for a whole answer decides what the benchmark counts.

#include "response.h"

#include "base/histogram.h"
#include "event.h"
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

// Reads `text` in pieces of `step` bytes and returns how it ended; `left` bytes were not taken.
static enum response_phase read_in_steps(const char *text, size_t step, struct response *response,
                                         struct seen *seen, size_t *left)
{
    const struct response_observer observer = {.event = event_seen, .owner = seen};
    *seen = (struct seen){0};
    response_start(response);
    size_t size = strlen(text);
    size_t at = 0;
    while (at < size) {
        size_t piece = size - at < step ? size - at : step;
        size_t taken = response_read(response, slice_of(text + at, piece), &observer);
        at += taken;
        if (taken < piece) {
            break;
        }
    }
    *left = size - at;
    return response->phase;
}

static enum response_phase end_of(const char *text)
{
    struct response response;
    struct seen seen;
    size_t left;
    return read_in_steps(text, SIZE_MAX, &response, &seen, &left);
}

TEST(reads_a_sized_answer_however_it_is_cut)
{
    const char *text = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 5\r\n\r\nhello";
    for (size_t step = 1; step <= strlen(text); step++) {
        struct response response;
        struct seen seen;
        size_t left;
        CHECK_EQ(read_in_steps(text, step, &response, &seen, &left), RESPONSE_DONE);
        CHECK_EQ(response.status, 200);
        CHECK_EQ(response.body_size, 5);
        CHECK_EQ(left, 0);
        CHECK(!response.closes);
    }
}

// How many ways there are of cutting `text` into pieces of one size in which both events are found.
static size_t two_events_are_found(const char *text)
{
    size_t found = 0;
    for (size_t step = 1; step <= strlen(text); step++) {
        struct response response;
        struct seen seen;
        size_t left;
        found += read_in_steps(text, step, &response, &seen, &left) == RESPONSE_DONE &&
                 response.body_size == UINT64_C(2) * event_size && seen.count == 2 &&
                 seen.time_sum == 200 && seen.stream == 17;
    }
    return found;
}

#define EVENT(time, stream) EVENT_HEAD time EVENT_MIDDLE stream EVENT_TAIL

TEST(finds_events_whatever_the_chunks_and_the_reads)
{
    const char *event = EVENT("0000000000000000100", "00017");
    CHECK_EQ(strlen(event), event_size);
    // Two events as one chunk, as two, and cut within the first one's time.
    char one[512], two[512], odd[512];
    snprintf(one, sizeof(one), "%x\r\n%s%s\r\n", 2 * event_size, event, event);
    snprintf(two, sizeof(two), "%x\r\n%s\r\n%x\r\n%s\r\n", event_size, event, event_size, event);
    snprintf(odd, sizeof(odd), "%x\r\n%.20s\r\n%X\r\n%s%s\r\n", 20, event, 2 * event_size - 20,
             event + 20, event);
    const char *const bodies[] = {one, two, odd};
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\nA: b\r\n\r\n",
                 bodies[i]);
        CHECK_EQ(two_events_are_found(text), strlen(text));
    }
}

TEST(leaves_bytes_behind_an_answer_alone)
{
    struct response response;
    struct seen seen;
    size_t left;
    const char *text = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP";
    CHECK_EQ(read_in_steps(text, SIZE_MAX, &response, &seen, &left), RESPONSE_DONE);
    CHECK_EQ(left, 4);
}

TEST(an_answer_cut_short_is_not_done)
{
    CHECK_EQ(end_of("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), RESPONSE_SIZED);
    CHECK_EQ(end_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
             RESPONSE_CHUNK_SIZE);
    CHECK_EQ(end_of("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"),
             RESPONSE_TRAILER);
}

TEST(what_could_be_read_in_two_ways_is_broken)
{
    const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-x\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        CHECK_EQ(end_of(heads[i]), RESPONSE_BROKEN);
    }
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
