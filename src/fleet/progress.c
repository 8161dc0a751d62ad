// SPDX-License-Identifier: Apache-2.0

#include "fleet/progress.h"

#include "base/base.h"

#include <math.h>

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), value, memory_order_relaxed)

// Shorter than this, a pause may be the network's or our own.
static const float stall_min_ms = 2000;
static const float gaps_allowed = 8;
static const float wholes_allowed = 4;
static const float queues_allowed = 4;
// The longest fades to zero in a minute, or a quarter of an hour, without a longer one.
static const float gap_fade_per_ms = 1.0F / 60000;
static const float whole_fade_per_ms = 1.0F / 900000;
// One gap raises the longest at most so far, so that a stall that ends does not become usual.  A
// whole response has shown that its time was well spent.
static const float rise_max = 4;
static const float rise_from_ms = 500;

// `fade`: since the last sample.
static void learn_longest(_Atomic float *longest, float sample_ms, float fade)
{
    float value = LOAD(*longest);
    STORE(*longest, fmaxf(value - value * fminf(fade, 1), fmaxf(sample_ms, 1)));
}

static void progress_join_begun(struct progress *progress, uint64_t now_ms)
{
    if (atomic_fetch_add_explicit(&progress->begun, 1, memory_order_relaxed) == 0) {
        STORE(progress->went_on_ms, now_ms);
        STORE(progress->excused_ms, 0);
    }
}

void progress_begin(struct progress *progress, struct progress_request request, uint64_t now_ms)
{
    if (atomic_fetch_add_explicit(&progress->requests, 1, memory_order_relaxed) == 0) {
        STORE(progress->moved_ms, now_ms);
    }
    if (request.is_streamed) {
        atomic_fetch_add_explicit(&progress->streams, 1, memory_order_relaxed);
    }
    if (request.has_begun) {
        progress_join_begun(progress, now_ms);
    }
}

static void progress_leave(atomic_uint *count)
{
    unsigned before = atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
    ASSERT(before > 0);
}

void progress_end(struct progress *progress, struct progress_request request)
{
    if (request.has_begun) {
        progress_leave(&progress->begun);
    }
    if (request.is_streamed) {
        progress_leave(&progress->streams);
    }
    progress_leave(&progress->requests);
}

uint32_t progress_requests(const struct progress *progress)
{
    return LOAD(progress->requests);
}

// Milliseconds since that clock stood still; it is now.  Other workers' clocks may be ahead.
static float progress_move(atomic_uint_fast64_t *clock_ms, uint64_t now_ms)
{
    uint64_t before_ms = LOAD(*clock_ms);

    if (now_ms <= before_ms) {
        return 0;
    }
    STORE(*clock_ms, now_ms);
    return (float)(now_ms - before_ms);
}

static void progress_learn_gap(struct progress *progress, float gap_ms)
{
    if (gap_ms > 0) {
        float most = rise_max * fmaxf(LOAD(progress->gap_ms), rise_from_ms);
        learn_longest(&progress->gap_ms, fminf(gap_ms, most), gap_ms * gap_fade_per_ms);
    }
}

void progress_first(struct progress *progress, uint64_t sent_ms, uint64_t now_ms)
{
    float gap_ms = progress_move(&progress->moved_ms, now_ms);
    float waited_ms = now_ms > sent_ms ? (float)(now_ms - sent_ms) : 0;

    progress_learn_gap(progress, gap_ms);
    STORE(progress->excused_ms, LOAD(progress->excused_ms) + fminf(gap_ms, waited_ms));
    progress_join_begun(progress, now_ms);
}

void progress_output(struct progress *progress, uint64_t now_ms)
{
    float gap_ms = progress_move(&progress->went_on_ms, now_ms);
    progress_learn_gap(progress, fmaxf(gap_ms - LOAD(progress->excused_ms), 0));
    STORE(progress->excused_ms, 0);
    progress_move(&progress->moved_ms, now_ms);
}

void progress_whole(struct progress *progress, uint64_t sent_ms, uint64_t now_ms)
{
    progress_move(&progress->went_on_ms, now_ms);
    STORE(progress->excused_ms, 0);
    float passed_ms = progress_move(&progress->moved_ms, now_ms);
    float whole_ms = now_ms > sent_ms ? (float)(now_ms - sent_ms) : 0;
    learn_longest(&progress->whole_ms, whole_ms, passed_ms * whole_fade_per_ms);
}

static float progress_limit_ms(const struct progress *progress,
                               const struct progress_limits *limits)
{
    float configured_ms = (float)limits->configured_ms;

    if (LOAD(progress->streams) > 0) {
        float least_ms = LOAD(progress->begun) > 0 ? stall_min_ms : configured_ms;
        float gap_ms = LOAD(progress->gap_ms);
        return gap_ms > 0 ? fmaxf(gaps_allowed * gap_ms, least_ms) : configured_ms;
    }
    return fmaxf(wholes_allowed * LOAD(progress->whole_ms), configured_ms);
}

uint64_t progress_moved_ms(const struct progress *progress)
{
    return LOAD(progress->begun) > 0 ? LOAD(progress->went_on_ms) : LOAD(progress->moved_ms);
}

uint64_t progress_stalled_ms(const struct progress *progress, const struct progress_limits *limits,
                             uint64_t now_ms)
{
    uint64_t moved_ms = progress_moved_ms(progress);
    float still_ms = now_ms > moved_ms ? (float)(now_ms - moved_ms) : 0;
    if (LOAD(progress->begun) > 0) {
        still_ms -= fminf(LOAD(progress->excused_ms), (float)limits->configured_ms);
    }

    if (limits->configured_ms == 0 || still_ms < stall_min_ms || progress_requests(progress) == 0) {
        return 0;
    }
    float most_ms = fmaxf(progress_limit_ms(progress, limits), queues_allowed * limits->queue_ms);
    return still_ms >= most_ms ? (uint64_t)still_ms : 0;
}
