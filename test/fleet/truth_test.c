// SPDX-License-Identifier: Apache-2.0

#include "fleet/truth.h"

#include "base/rng.h"
#include "sys/thread.h"
#include "test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static struct truth truth;
static struct truth_view view;

static void note(uint32_t predicted, uint32_t actual, uint64_t now_ms)
{
    truth_note(&truth, TRUTH_BY_EVENTS, predicted, actual, now_ms);
}

static void read_at(uint64_t now_ms)
{
    truth_read(&truth, TRUTH_BY_EVENTS, now_ms, &view);
}

TEST(without_samples_all_figures_are_zero)
{
    truth = (struct truth){0};
    read_at(0);
    CHECK_EQ(view.all.count, 0);
    CHECK_EQ(view.recent.count, 0);
    CHECK(view.all.equal_share == 0);
    CHECK(view.all.wrong_percent == 0);
    CHECK_EQ(view.all.p99, 0);
}

TEST(an_equal_prediction_has_a_bucket_of_its_own)
{
    truth = (struct truth){0};
    note(512, 512, 1000);
    note(512, 512, 1000);
    note(512, 512, 1000);
    note(513, 512, 1000);
    read_at(1000);
    CHECK_EQ(view.all.count, 4);
    CHECK_EQ(view.all.equal, 3);
    CHECK(view.all.equal_share == 0.75);
    CHECK_EQ(view.all.p50, 0);
    CHECK_EQ(view.all.p99, 16);
}

TEST(predicting_too_much_is_above_zero_and_too_little_below)
{
    truth = (struct truth){0};
    note(160, 128, 1000);
    read_at(1000);
    CHECK_EQ(view.all.p50, 32);
    note(0, 128, 1000);
    note(0, 128, 1000);
    read_at(1000);
    CHECK_EQ(view.all.p50, -128);
    CHECK_EQ(view.last_predicted, 0);
    CHECK_EQ(view.last_actual, 128);
    CHECK_EQ(view.all.predicted_tokens, 160);
    CHECK_EQ(view.all.actual_tokens, 3 * 128);
    CHECK_EQ(view.all.wrong_tokens, 32 + 128 + 128);
    CHECK(view.all.wrong_percent == 75);
}

TEST(predicting_tokens_where_none_were_cached_is_infinitely_wrong)
{
    truth = (struct truth){0};
    note(16, 0, 1000);
    read_at(1000);
    CHECK(isinf(view.all.wrong_percent));
    truth = (struct truth){0};
    note(0, 0, 1000);
    read_at(1000);
    CHECK(view.all.wrong_percent == 0);
    CHECK(view.all.equal_share == 1);
}

TEST(the_kinds_do_not_mix)
{
    truth = (struct truth){0};
    note(512, 512, 1000);
    truth_note(&truth, TRUTH_BELIEVED, 512, 0, 1000);
    read_at(1000);
    CHECK_EQ(view.all.count, 1);
    CHECK_EQ(view.all.equal, 1);
    truth_read(&truth, TRUTH_BELIEVED, 1000, &view);
    CHECK_EQ(view.all.count, 1);
    CHECK_EQ(view.all.equal, 0);
}

TEST(old_errors_leave_the_recent_figures_only)
{
    truth = (struct truth){0};
    for (int i = 0; i < 100; i++) {
        note(4096, 0, 1000);
    }
    read_at(1000);
    CHECK(view.recent.equal_share == 0);
    for (int i = 0; i < 100; i++) {
        note(4096, 4096, 1000 + 2 * truth_half_ms);
    }
    read_at(1000 + 2 * truth_half_ms);
    CHECK_EQ(view.recent.count, 100);
    CHECK(view.recent.equal_share == 1);
    CHECK(view.recent.wrong_percent == 0);
    CHECK_EQ(view.recent.p99, 0);
    CHECK_EQ(view.all.count, 200);
    CHECK(view.all.equal_share == 0.5);
    CHECK_EQ(view.all.p99, 4096);
}

TEST(without_new_samples_the_recent_figures_become_empty)
{
    truth = (struct truth){0};
    note(512, 512, 1000);
    read_at(1000 + truth_half_ms);
    CHECK_EQ(view.recent.count, 1);
    read_at(1000 + 2 * truth_half_ms);
    CHECK_EQ(view.recent.count, 0);
    CHECK_EQ(view.all.count, 1);
}

TEST(a_clock_that_is_behind_restores_no_old_sample)
{
    truth = (struct truth){0};
    note(512, 512, 1000 + 2 * truth_half_ms);
    note(512, 0, 1000);
    read_at(1000 + 2 * truth_half_ms);
    CHECK_EQ(view.recent.count, 2);
    CHECK_EQ(view.all.count, 2);
}

// The naive twin of the buckets: a list of bounds, searched from the front.
static int32_t naive_edge(int64_t difference)
{
    int64_t size = difference < 0 ? -difference : difference;
    int64_t bound = 0;
    int64_t step = 16;

    while (bound < size && bound < 1 << 20) {
        bound += step;
        // Four more of the same length before the next power of two.
        step = bound >= 128 && (bound & (bound - 1)) == 0 ? bound / 4 : step;
    }
    return (int32_t)(difference < 0 ? -bound : bound);
}

TEST(every_difference_lies_in_the_bucket_that_a_list_of_bounds_says)
{
    for (int64_t difference = -5000; difference <= 5000; difference++) {
        CHECK_EQ(truth_bucket_edge(truth_bucket(difference)), naive_edge(difference));
    }
    for (int64_t size = 4095; size <= UINT32_MAX; size = size * 2 + 1) {
        CHECK_EQ(truth_bucket_edge(truth_bucket(size)), naive_edge(size));
        CHECK_EQ(truth_bucket_edge(truth_bucket(size + 1)), naive_edge(size + 1));
        CHECK_EQ(truth_bucket_edge(truth_bucket(-size - 2)), naive_edge(-size - 2));
    }
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        CHECK_EQ(truth_bucket(truth_bucket_edge(i)), i);
    }
}

// The naive twin of the record: every sample, sorted.
enum { sample_max = 4000 };

static struct sample {
    int64_t difference;
    uint64_t when_ms;
    uint32_t predicted;
    uint32_t actual;
} samples[sample_max];

static int by_difference(const void *a, const void *b)
{
    const struct sample *left = a;
    const struct sample *right = b;
    return (left->difference > right->difference) - (left->difference < right->difference);
}

static bool twin_agrees(const struct truth_figures *figures, uint32_t count, uint64_t since_ms)
{
    static struct sample kept[sample_max];
    uint64_t wrong = 0;
    uint64_t predicted = 0;
    uint64_t actual = 0;
    uint32_t equal = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (samples[i].when_ms < since_ms) {
            continue;
        }
        kept[n++] = samples[i];
        predicted += samples[i].predicted;
        actual += samples[i].actual;
        wrong += (uint64_t)llabs(samples[i].difference);
        equal += samples[i].predicted == samples[i].actual;
    }
    qsort(kept, n, sizeof(*kept), by_difference);
    return figures->count == n && figures->equal == equal &&
           figures->predicted_tokens == predicted && figures->actual_tokens == actual &&
           figures->wrong_tokens == wrong &&
           figures->p1 == (n > 0 ? naive_edge(kept[n / 100].difference) : 0) &&
           figures->p50 == (n > 0 ? naive_edge(kept[n / 2].difference) : 0) &&
           figures->p99 == (n > 0 ? naive_edge(kept[n * 99 / 100].difference) : 0);
}

TEST(figures_are_those_of_the_sorted_samples)
{
    struct rng rng = {.state = 7};
    uint64_t now_ms = 0;

    truth = (struct truth){0};
    for (uint32_t i = 0; i < sample_max; i++) {
        now_ms += rng_below(&rng, 200) == 0 ? rng_below(&rng, 3 * truth_half_ms) : 10;
        uint32_t actual = rng_below(&rng, 1U << rng_below(&rng, 22));
        uint32_t predicted = rng_below(&rng, 2) == 0 ? actual : rng_below(&rng, 1 << 17);
        samples[i] = (struct sample){(int64_t)predicted - actual, now_ms, predicted, actual};
        note(predicted, actual, now_ms);
        if (i % 37 != 0) {
            continue;
        }
        // The recent past begins with the half before the present one.
        uint64_t half = now_ms / truth_half_ms;
        read_at(now_ms);
        CHECK(twin_agrees(&view.all, i + 1, 0));
        CHECK(twin_agrees(&view.recent, i + 1, (half > 0 ? half - 1 : 0) * truth_half_ms));
    }
}

enum { thread_count = 4, thread_samples = 50000 };

static void note_many(void *seed)
{
    struct rng rng = {.state = *(const uint64_t *)seed};
    for (uint64_t i = 0; i < thread_samples; i++) {
        // A new half every fifty samples, so that threads meet at its beginning.
        note(rng_below(&rng, 4096), 2048, i * truth_half_ms / 50);
    }
}

TEST(many_threads_lose_nothing_of_the_whole)
{
    static uint64_t seeds[thread_count] = {1, 2, 3, 4};
    struct thread *threads[thread_count] = {0};

    truth = (struct truth){0};
    for (int i = 0; i < thread_count; i++) {
        CHECK(thread_start("notes", note_many, &seeds[i], &threads[i]) == STATUS_OK);
    }
    for (int i = 0; i < thread_count; i++) {
        thread_join(&threads[i]);
    }
    read_at((uint64_t)thread_samples * truth_half_ms / 50);
    CHECK_EQ(view.all.count, thread_count * thread_samples);
    CHECK_EQ(view.all.actual_tokens, 2048ULL * thread_count * thread_samples);
    // Samples that were added while a half began may be missing from the recent figures; none is
    // invented.
    CHECK(view.recent.count > 0);
    CHECK(view.recent.count <= view.all.count);
}
