// SPDX-License-Identifier: Apache-2.0

#include "chronicle/timeline.h"

#include "base/rng.h"
#include "chronicle/account_internal.h"
#include "metrics/wait_scale.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { note_max = 60000, point_room = 1000 };

static const uint64_t begin_ms = 1700000000000;

struct noted {
    uint64_t wall_ms;
    double ttft_ms;
};

static struct noted all[note_max];
static double waits[note_max];
static struct chronicle_point points[point_room];

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static bool is_near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

static void note(struct timeline *timeline, double ttft_ms, double model_ms, double shadow_ms)
{
    timeline_note(timeline, &(struct receipt_share){.sums = {.requests = 1, .saved_s = 0.5},
                                                    .ttft_ms = ttft_ms,
                                                    .model_ms = model_ms,
                                                    .shadow_model_ms = shadow_ms});
}

// Count and percentiles of those that were noted from one time to another.
static bool agrees(const struct chronicle_figures *figures, uint32_t noted, uint64_t from_ms,
                   uint64_t to_ms)
{
    static const double bucket = 1.0 / (1 << wait_fine);
    uint32_t count = 0;
    for (uint32_t i = 0; i < noted; i++) {
        if (all[i].wall_ms >= from_ms && all[i].wall_ms < to_ms) {
            waits[count++] = all[i].ttft_ms;
        }
    }
    if (count == 0) {
        return figures->requests == 0 && isnan(figures->ttft_ms[0]) &&
               isnan(figures->shadow_ttft_ms[0]);
    }
    qsort(waits, count, sizeof(waits[0]), by_size);
    return figures->requests == count && is_near(figures->saved_s, count * 0.5, 1e-9) &&
           (count < 300 || (is_near(figures->ttft_ms[0], waits[count / 2], bucket) &&
                            is_near(figures->ttft_ms[1], waits[count * 95 / 100], bucket) &&
                            is_near(figures->ttft_ms[2], waits[count * 99 / 100], bucket)));
}

static bool minute_agrees(const struct timeline *timeline, uint32_t noted, uint64_t now_ms)
{
    uint64_t step = now_ms / chronicle_step_ms;
    uint64_t from_ms = (step + 1 - timeline_minute_steps) * chronicle_step_ms;
    uint64_t seen_ms = now_ms - (from_ms > begin_ms ? from_ms : begin_ms);
    struct chronicle_figures recent;

    timeline_recent(timeline, &recent);
    return agrees(&recent, noted, from_ms, now_ms + 1) &&
           is_near(recent.span_s, (double)seen_ms / 1000, 0.01) &&
           is_near(recent.shadow_ttft_ms[1], recent.ttft_ms[1], 1e-9);
}

// Those since the last time.
static bool points_agree(const struct timeline *timeline, uint32_t noted, uint64_t *last_ms)
{
    uint32_t count = timeline_points(timeline, *last_ms, points, point_room);
    bool is_so = true;
    for (uint32_t k = 0; k < count; k++) {
        is_so = is_so && points[k].wall_ms > *last_ms;
        *last_ms = points[k].wall_ms;
        is_so = is_so && agrees(&points[k].figures, noted, *last_ms, *last_ms + chronicle_step_ms);
    }
    return is_so;
}

TEST(points_and_the_last_minute_are_those_of_a_list_of_all)
{
    struct timeline *timeline = timeline_create();
    struct rng rng = {9};
    uint64_t now_ms = begin_ms;
    uint64_t last_ms = 0;

    for (uint32_t i = 0; i < note_max; i++) {
        now_ms += rng_below(&rng, 20);
        uint64_t step = timeline_tick(timeline, now_ms);
        CHECK_EQ(step, now_ms / chronicle_step_ms);
        // Between 1 ms and a second; both models are the same.
        double ttft_ms = exp((double)rng_below(&rng, 1000) / 145);
        all[i] = (struct noted){.wall_ms = now_ms, .ttft_ms = ttft_ms};
        note(timeline, ttft_ms, ttft_ms / 2, ttft_ms / 2);
        if (i % 1000 != 999) {
            continue;
        }
        CHECK(minute_agrees(timeline, i + 1, now_ms));
        CHECK(points_agree(timeline, i + 1, &last_ms));
    }
    timeline_destroy(&timeline);
}

TEST(an_hour_is_kept_and_what_is_idle_has_points_too)
{
    struct timeline *timeline = timeline_create();
    uint64_t now_ms = begin_ms;

    for (uint32_t i = 0; i < 5000; i++) {
        timeline_tick(timeline, now_ms += 1000);
    }
    uint32_t count = timeline_points(timeline, 0, points, point_room);
    CHECK_EQ(count, chronicle_point_max);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_EQ(points[i].wall_ms, points[0].wall_ms + i * (uint64_t)chronicle_step_ms);
        CHECK_EQ(points[i].figures.requests, 0);
        CHECK_EQ(points[i].figures.span_s, 5);
    }
    CHECK_EQ(points[count - 1].wall_ms, now_ms / 5000 * 5000 - 5000);
    CHECK_EQ(timeline_points(timeline, points[count - 3].wall_ms, points, point_room), 2);
    CHECK_EQ(timeline_points(timeline, 0, points, 7), 7);
    timeline_destroy(&timeline);
}

TEST(the_clock_may_be_set)
{
    struct timeline *timeline = timeline_create();
    struct chronicle_figures recent;
    uint64_t now_ms = begin_ms;

    for (uint32_t i = 0; i < 100; i++) {
        timeline_tick(timeline, now_ms += 1000);
        note(timeline, 10, 1, 1);
    }
    // A second back and a step back: the open point stays open.
    uint64_t step = timeline_tick(timeline, now_ms);
    CHECK_EQ(timeline_tick(timeline, now_ms - 1000), step);
    CHECK_EQ(timeline_tick(timeline, now_ms - 6000), step);
    timeline_recent(timeline, &recent);
    CHECK(recent.requests >= 55 && recent.span_s > 54 && recent.span_s <= 60);

    // Forty seconds back: points that are in the future now are gone, what was open goes on.
    note(timeline, 10, 1, 1);
    timeline_tick(timeline, now_ms - 40000);
    uint32_t count = timeline_points(timeline, 0, points, point_room);
    CHECK(count >= 10 && count <= 12);
    CHECK(points[count - 1].wall_ms + chronicle_step_ms <= now_ms - 40000);
    timeline_recent(timeline, &recent);
    CHECK(recent.requests >= 1 && recent.requests <= 7);
    CHECK_EQ(recent.span_s, 0);

    // Ten years ahead: a gap, and the last minute is empty.
    timeline_tick(timeline, now_ms + 315360000000);
    CHECK_EQ(timeline_points(timeline, 0, points, point_room), count + 1);
    timeline_recent(timeline, &recent);
    CHECK_EQ(recent.requests, 0);
    CHECK(isnan(recent.ttft_ms[0]));
    CHECK(recent.span_s >= 55 && recent.span_s <= 60);

    // And to the beginning of time.
    timeline_tick(timeline, 0);
    CHECK_EQ(timeline_points(timeline, 0, points, point_room), 0);
    note(timeline, 10, 1, 1);
    timeline_tick(timeline, 5000);
    timeline_recent(timeline, &recent);
    CHECK_EQ(recent.requests, 1);
    timeline_destroy(&timeline);
}

TEST(round_robin_is_moved_by_the_difference_of_the_models_and_never_below_nothing)
{
    struct timeline *timeline = timeline_create();
    struct chronicle_figures recent;

    timeline_tick(timeline, begin_ms);
    for (uint32_t i = 1; i <= 1000; i++) {
        note(timeline, i, 0.2 * i, 0.5 * i);
    }
    timeline_recent(timeline, &recent);
    CHECK(is_near(recent.ttft_ms[0], 500, 0.01));
    CHECK(is_near(recent.shadow_ttft_ms[0], 500 + 150, 0.02));
    CHECK(is_near(recent.shadow_ttft_ms[1], 950 + 285, 0.02));
    timeline_tick(timeline, begin_ms + 100000);
    for (uint32_t i = 1; i <= 1000; i++) {
        note(timeline, i, 3 * i, 0);
    }
    timeline_recent(timeline, &recent);
    CHECK_EQ(recent.shadow_ttft_ms[0], 0);
    CHECK_EQ(recent.shadow_ttft_ms[2], 0);
    timeline_destroy(&timeline);
}

static bool is_in_its_bucket(double ms, uint32_t bits)
{
    uint32_t bucket = wait_bucket(ms, bits);
    uint32_t last = (uint32_t)wait_octaves << bits;
    return bucket <= last && ms >= wait_bound(bucket, bits) * 0.999999 &&
           (bucket == last || ms <= wait_bound(bucket + 1, bits) * 1.000001);
}

TEST(a_wait_lies_in_its_bucket_on_either_scale)
{
    double ms = 0.001;
    for (uint32_t i = 0; i < 7500; i++) {
        CHECK(is_in_its_bucket(ms, wait_coarse));
        CHECK(is_in_its_bucket(ms, wait_fine));
        ms *= 1.003;
    }
    CHECK(ms > 5e6);
    CHECK_EQ(wait_bucket(0, wait_fine), 0);
    CHECK_EQ(wait_bucket(-1, wait_fine), 0);
    CHECK_EQ(wait_bucket(NAN, wait_fine), 0);
}
