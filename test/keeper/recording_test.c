// SPDX-License-Identifier: Apache-2.0

#include "keeper/recording.h"

#include "base/rng.h"
#include "sim/workload/mooncake.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { text_size_max = 1 << 22, again_ms = 10000 };

static const uint64_t span = 2048;

static char directory[] = "/tmp/recording_test_XXXXXX";
static char path[64];
static char aside[64];
static char text[text_size_max];

static void make_place(void)
{
    if (path[0] == '\0') {
        ASSERT(mkdtemp(directory) != NULL);
        snprintf(path, sizeof(path), "%s/trace", directory);
        snprintf(aside, sizeof(aside), "%s/aside", directory);
    }
    unlink(path);
    unlink(aside);
    log_set_level(LOG_LEVEL_ERROR); // trouble is what some tests are about
}

__attribute__((destructor)) static void clear_place(void)
{
    if (path[0] != '\0') {
        unlink(path);
        unlink(aside);
        rmdir(directory);
    }
}

static struct recording *start(uint64_t size_max)
{
    struct recording *recording = NULL;
    struct recording_options options = {
        .path = path, .size_max = size_max, .worker_count = 2, .span_tokens = 512};
    ASSERT(recording_open(&options, &recording) == STATUS_OK);
    return recording;
}

static struct slice content_of(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ASSERT(fd != -1);
    ssize_t size = read(fd, text, sizeof(text));
    ASSERT(size >= 0 && size < text_size_max);
    close(fd);
    return slice_of(text, (size_t)size);
}

// The trace as the simulator reads it.
static struct mooncake_trace read_trace(const char *name)
{
    struct mooncake_trace trace = {0};
    char error[mooncake_error_size];
    if (mooncake_read(content_of(name), &trace, error) != STATUS_OK) {
        test_fail(__FILE__, __LINE__, "%s", error);
    }
    return trace;
}

// A prompt of that many bytes, whose spans have these keys; four bytes a token.
static struct recorder_entry prompt_of(uint64_t size)
{
    return (struct recorder_entry){.arrived_us = 1000000,
                                   .prompt_size = size,
                                   .output_tokens = 7,
                                   .span_size = (uint32_t)span,
                                   .span_tokens = (uint32_t)span / 4,
                                   .is_text = true};
}

static void put(struct recording *recording, struct recorder_entry entry, const uint64_t *keys)
{
    recorder_put(recording_recorder(recording), 0, &entry, keys,
                 (uint32_t)(entry.prompt_size / span), 1);
}

static const uint64_t some_keys[] = {11, 22, 33, 44};
static const uint64_t other_keys[] = {11, 22, 35, 46};

TEST(a_line_says_what_the_request_was_like)
{
    make_place();
    uint64_t before_us = clock_wall_ms() * 1000;
    uint64_t now_us = clock_monotonic_ns() / 1000;
    struct recording *recording = start(1 << 20);
    struct recorder_entry entry = prompt_of(4 * span + 40);
    entry.arrived_us = now_us;
    entry.session_key = 99;
    entry.turn = 3;
    put(recording, entry, some_keys);
    entry.arrived_us += 1500;
    entry.output_tokens = 0; // none was seen
    entry.session_key = 0;
    put(recording, entry, some_keys);
    recording_drain(recording, 0);
    CHECK_EQ(recording_totals(recording)->recorded, 2);
    CHECK_EQ(recording_totals(recording)->dropped, 0);

    double stamp_ms = strtod(strchr((const char *)content_of(path).bytes, ':') + 1, NULL);
    CHECK(stamp_ms * 1000 > (double)before_us - 1e6 && stamp_ms * 1000 < (double)before_us + 10e6);
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 2);
    CHECK_EQ(trace.requests[0].input_tokens, 2058);
    CHECK_EQ(trace.requests[0].output_tokens, 7);
    CHECK_EQ(trace.requests[0].turn, 3);
    CHECK(trace.requests[0].session != 0 && trace.requests[0].session != 99);
    CHECK_EQ(trace.requests[0].id_count, 5);
    CHECK_EQ(trace.requests[0].block_tokens, 512);
    CHECK_EQ(trace.requests[1].at_us, 1500);
    CHECK_EQ(trace.requests[1].output_tokens, 1);
    CHECK_EQ(trace.requests[1].session, 0);
    mooncake_destroy(&trace);
    recording_close(&recording, 0);
    CHECK(recording == NULL);
    recording_close(&recording, 0);
}

TEST(equal_beginnings_have_equal_ids_and_tails_are_their_own)
{
    make_place();
    struct recording *recording = start(1 << 20);
    put(recording, prompt_of(4 * span + 40), some_keys);
    put(recording, prompt_of(4 * span + 40), some_keys);
    put(recording, prompt_of(4 * span), other_keys);
    recording_close(&recording, 0); // what was not drained is written now
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 3);
    const uint64_t *a = trace.ids + trace.requests[0].first;
    const uint64_t *b = trace.ids + trace.requests[1].first;
    const uint64_t *c = trace.ids + trace.requests[2].first;
    CHECK_EQ(trace.requests[2].id_count, 4); // nothing is behind the last
    for (int i = 0; i < 4; i++) {
        CHECK(a[i] == b[i]);
        CHECK((a[i] == c[i]) == (i < 2));
        CHECK(a[i] != some_keys[i] && a[i] < (uint64_t)1 << 53);
    }
    CHECK(a[4] != b[4]);
    mooncake_destroy(&trace);
}

TEST(two_runs_have_no_id_and_no_session_in_common)
{
    make_place();
    for (int run = 0; run < 2; run++) {
        struct recording *recording = start(1 << 20);
        struct recorder_entry entry = prompt_of(4 * span);
        entry.session_key = 5;
        put(recording, entry, some_keys);
        recording_close(&recording, 0);
    }
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 2); // the second was appended
    for (int i = 0; i < 4; i++) {
        CHECK(trace.ids[i] != trace.ids[4 + i]);
    }
    CHECK(trace.requests[0].session != trace.requests[1].session);
    mooncake_destroy(&trace);
}

TEST(the_tokens_of_an_id_stay_until_they_are_an_eighth_off)
{
    static const uint32_t seen[] = {480, 500, 430, 541, 520, 600};
    static const uint32_t settled[] = {480, 480, 480, 541, 541, 541};
    make_place();
    struct recording *recording = start(1 << 20);
    for (uint32_t i = 0; i < ARRAY_COUNT(seen); i++) {
        struct recorder_entry entry = prompt_of(4 * span);
        entry.arrived_us = i;
        entry.span_tokens = seen[i];
        put(recording, entry, some_keys);
        entry.arrived_us = 100 + i;
        entry.pool = 1; // has its own
        entry.span_tokens = 300;
        put(recording, entry, some_keys);
    }
    recording_close(&recording, 0);
    struct mooncake_trace trace = read_trace(path);
    for (uint32_t i = 0; i < ARRAY_COUNT(seen); i++) {
        CHECK_EQ(trace.requests[i].block_tokens, settled[i]);
        CHECK_EQ(trace.requests[i].input_tokens, 4 * settled[i]);
        CHECK_EQ(trace.requests[ARRAY_COUNT(seen) + i].block_tokens, 300);
    }
    mooncake_destroy(&trace);
}

TEST(ids_cover_a_prompt_exactly_whatever_its_size_and_rate)
{
    static uint64_t keys[64];
    struct rng rng = {.state = 3};
    make_place();
    struct recording *recording = start(1 << 22);
    for (uint32_t i = 0; i < 500; i++) {
        struct recorder_entry entry = prompt_of(1 + rng_below(&rng, 64 * (uint32_t)span));
        entry.pool = i % 64;
        entry.span_tokens = 200 + entry.pool * 10;
        // The engine's count of this one is half as much again, and is not taken.
        entry.told_tokens = entry.prompt_size * entry.span_tokens * 3 / (2 * span);
        put(recording, entry, keys);
    }
    recording_close(&recording, 0);
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 500);
    for (uint32_t i = 0; i < 500; i++) {
        const struct mooncake_request *request = &trace.requests[i];
        uint32_t blocks =
            (request->input_tokens + request->block_tokens - 1) / request->block_tokens;
        CHECK_EQ(request->id_count, blocks);
    }
    mooncake_destroy(&trace);
}

TEST(token_ids_are_counted_and_images_are_what_the_engine_says)
{
    make_place();
    struct recording *recording = start(1 << 20);
    struct recorder_entry entry = prompt_of((uint64_t)1000 * 4);
    entry.is_text = false;
    entry.told_tokens = 4000; // with what the engine adds, perhaps; the ids are what they are
    entry.arrived_us = 1;
    put(recording, entry, some_keys);
    entry = prompt_of(400);
    entry.told_tokens = 3000;
    entry.arrived_us = 2;
    put(recording, entry, some_keys);
    entry.prompt_size = 0;
    entry.told_tokens = 0;
    entry.arrived_us = 3;
    put(recording, entry, some_keys);
    recording_close(&recording, 0);
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.requests[0].input_tokens, 1000);
    CHECK_EQ(trace.requests[0].block_tokens, 512);
    CHECK_EQ(trace.requests[0].id_count, 2);
    CHECK_EQ(trace.requests[1].input_tokens, 3000);
    CHECK_EQ(trace.requests[2].input_tokens, 1);
    CHECK_EQ(trace.requests[2].id_count, 0);
    mooncake_destroy(&trace);
}

TEST(thousands_of_long_prompts_are_written_in_portions)
{
    static uint64_t keys[512];
    make_place();
    struct recording *recording = start(64 << 20);
    for (uint32_t i = 0; i < 200; i++) {
        put(recording, prompt_of(512 * span), keys);
    }
    recording_drain(recording, 0);
    CHECK_EQ(recording_totals(recording)->recorded, 200);
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 200);
    CHECK_EQ(trace.id_count, 200 * 512);
    mooncake_destroy(&trace);
    recording_close(&recording, 0);
}

static bool records(struct recording *recording, uint64_t now_ms)
{
    uint64_t before = recording_totals(recording)->recorded;
    uint64_t dropped = recording_totals(recording)->dropped;
    put(recording, prompt_of(4 * span), some_keys);
    recording_drain(recording, now_ms);
    bool is_recorded = recording_totals(recording)->recorded == before + 1;
    ASSERT(recording_totals(recording)->dropped == dropped + (is_recorded ? 0 : 1));
    return is_recorded;
}

TEST(a_file_that_is_full_ends_until_a_smaller_one_takes_its_place)
{
    make_place();
    struct recording *recording = start(4096);
    uint32_t count = 0;
    while (records(recording, 0)) {
        count++;
    }
    CHECK(count > 20 && content_of(path).size <= 4096);
    CHECK(!records(recording, again_ms)); // still there
    CHECK(rename(path, aside) == 0);
    CHECK(!records(recording, again_ms + 1)); // nobody said so
    recording_reopen(recording, 4096);
    CHECK(records(recording, again_ms + 2));
    struct mooncake_trace trace = read_trace(path);
    CHECK_EQ(trace.request_count, 1);
    mooncake_destroy(&trace);
    trace = read_trace(aside);
    CHECK_EQ(trace.request_count, count);
    mooncake_destroy(&trace);
    // One that is cut in place is seen without a word.
    while (records(recording, again_ms + 3)) {
    }
    CHECK(truncate(path, 0) == 0);
    CHECK(!records(recording, 2 * again_ms + 2));
    CHECK(records(recording, 2 * again_ms + 3));
    recording_close(&recording, 0);
}

TEST(a_file_that_cannot_be_opened_again_is_tried_every_ten_seconds)
{
    make_place();
    struct recording *recording = start(1 << 20);
    CHECK(records(recording, 0));
    CHECK(rename(path, aside) == 0 && mkdir(path, 0700) == 0);
    recording_reopen(recording, 1 << 20);
    CHECK(!records(recording, 1000));
    CHECK(rmdir(path) == 0);
    CHECK(!records(recording, 1000 + again_ms - 1));
    CHECK(records(recording, 1000 + again_ms));
    CHECK_EQ(recording_totals(recording)->dropped, 2);
    recording_close(&recording, 0);
}

TEST(a_full_disk_drops_and_counts_and_never_stops)
{
    struct recording *recording = NULL;
    struct recording_options options = {
        .path = "/dev/full", .size_max = 1 << 20, .worker_count = 2, .span_tokens = 512};
    make_place();
    CHECK_EQ(recording_open(&options, &recording), STATUS_OK);
    for (uint32_t now_ms = 0; now_ms < 50000; now_ms += 100) {
        CHECK(!records(recording, now_ms));
    }
    CHECK_EQ(recording_totals(recording)->dropped, 500);
    recording_close(&recording, 0);
}

TEST(entries_lost_by_the_rings_count_as_dropped)
{
    static uint64_t keys[8192];
    make_place();
    struct recording *recording = start(1 << 20);
    for (uint32_t i = 0; i < 20; i++) {
        put(recording, prompt_of(8192 * span), keys);
    }
    recording_drain(recording, 0);
    const struct recorder_totals *totals = recording_totals(recording);
    CHECK(totals->dropped > 0);
    CHECK_EQ(totals->recorded + totals->dropped, 20);
    recording_close(&recording, 0);
}

TEST(a_file_that_cannot_be_opened_at_the_start_is_an_error)
{
    struct recording *recording = NULL;
    struct recording_options options = {.path = "/nowhere/at/all", .worker_count = 1};
    CHECK_EQ(recording_open(&options, &recording), STATUS_IO);
    CHECK_EQ(errno, ENOENT);
    CHECK(recording == NULL);
}
