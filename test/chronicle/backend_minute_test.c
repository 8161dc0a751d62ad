// SPDX-License-Identifier: Apache-2.0

#include "chronicle/backend_minute.h"

#include "base/rng.h"
#include "chronicle/account_internal.h"
#include "chronicle/timeline.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { member_max = 3, note_max = 40000 };

struct noted {
    uint64_t step;
    double ttft_ms;
    uint32_t number;
    uint32_t tokens;
};

static struct noted all[note_max];
static double waits[note_max];

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static bool is_near(double a, double b, double share)
{
    return fabs(a - b) <= share * b;
}

// Percentiles are those of all waits of the last minute, as near as coarse buckets tell.
static bool agrees(const struct backend_minute *minutes, uint32_t number, uint64_t step,
                   uint32_t noted)
{
    struct chronicle_figures figures;
    uint64_t tokens = 0;
    uint32_t count = 0;

    backend_minute_sum(minutes, number, step, &figures);
    for (uint32_t i = 0; i < noted; i++) {
        if (all[i].number == number && all[i].step + timeline_minute_steps > step) {
            waits[count++] = all[i].ttft_ms;
            tokens += all[i].tokens;
        }
    }
    if (count == 0) {
        return figures.requests == 0 && isnan(figures.ttft_ms[0]) && isnan(figures.ttft_ms[1]);
    }
    qsort(waits, count, sizeof(waits[0]), by_size);
    return figures.requests == count && figures.prompt_tokens == tokens &&
           figures.cached_tokens == tokens / 2 && isnan(figures.shadow_ttft_ms[0]) &&
           (count < 200 || (is_near(figures.ttft_ms[0], waits[count / 2], 0.08) &&
                            is_near(figures.ttft_ms[1], waits[count * 95 / 100], 0.12)));
}

TEST(the_last_minute_of_each_is_that_of_a_list_of_all)
{
    struct backend_minute *minutes = backend_minute_create(member_max);
    struct rng rng = {5};
    uint64_t step = 1000;

    for (uint32_t i = 0; i < note_max; i++) {
        // Mostly steps follow each other; now and then nothing comes for long.
        step += rng_below(&rng, 300) == 0 ? 1 + rng_below(&rng, 20) / 18 * 30 : 0;
        uint32_t tokens = 2 * rng_below(&rng, 500);
        double ttft_ms = exp((double)rng_below(&rng, 1000) / 150);
        all[i] = (struct noted){
            .step = step, .number = rng_below(&rng, 2), .ttft_ms = ttft_ms, .tokens = tokens};
        backend_minute_note(minutes, all[i].number, step,
                            &(struct receipt_share){.sums = {.requests = 1,
                                                             .prompt_tokens = tokens,
                                                             .told_prompt_tokens = tokens,
                                                             .cached_tokens = tokens / 2},
                                                    .ttft_ms = ttft_ms});
        bool is_time = i % 500 == 499;
        CHECK(!is_time || agrees(minutes, i / 500 % member_max, step, i + 1));
    }
    backend_minute_forget(minutes, 0);
    struct chronicle_figures figures;
    backend_minute_sum(minutes, 0, step, &figures);
    CHECK_EQ(figures.requests, 0);
    backend_minute_destroy(&minutes);
}

TEST(a_wait_that_is_not_known_is_in_no_percentile)
{
    struct backend_minute *minutes = backend_minute_create(1);
    struct chronicle_figures figures;

    backend_minute_note(
        minutes, 0, 7,
        &(struct receipt_share){.sums = {.requests = 1, .failures = 1}, .ttft_ms = (double)NAN});
    backend_minute_sum(minutes, 0, 7, &figures);
    CHECK_EQ(figures.requests, 1);
    CHECK_EQ(figures.failures, 1);
    CHECK(isnan(figures.ttft_ms[0]));
    backend_minute_destroy(&minutes);
}
