// SPDX-License-Identifier: Apache-2.0

#include "fleet/traffic.h"

#include "base/rng.h"
#include "sys/thread.h"
#include "test.h"

#include <math.h>
#include <stdbool.h>

static bool is_near(double actual, double expected, double percent)
{
    return fabs(actual - expected) <= expected * percent / 100;
}

static struct traffic_view read_at(const struct traffic *traffic, uint64_t now_us)
{
    struct traffic_view view;
    traffic_read(traffic, now_us, &view);
    return view;
}

TEST(shipped_values_hold_before_the_first_request)
{
    struct traffic traffic;
    traffic_init(&traffic);
    struct traffic_view view = read_at(&traffic, 1000000);
    CHECK(view.arrivals_per_ms == 0);
    CHECK(view.decode_ms == 0);
    CHECK(view.output_tokens == 200);
    CHECK(view.prefill_ms == 0);
    CHECK(view.scarcity < 0);
    CHECK_EQ(view.completion_count, 0);
    traffic_arrive(&traffic, 1000000);
    CHECK(read_at(&traffic, 1000000).arrivals_per_ms == 0);
}

TEST(the_rate_is_that_of_the_last_arrivals_however_many_there_are)
{
    struct traffic traffic;
    traffic_init(&traffic);
    uint64_t now_us = 5000000;
    traffic_arrive(&traffic, now_us);
    for (int i = 0; i < 1000; i++) {
        now_us += 4000;
        traffic_arrive(&traffic, now_us);
        CHECK(is_near(read_at(&traffic, now_us).arrivals_per_ms, 0.25, 1));
    }
    for (int i = 0; i < traffic_arrival_window; i++) {
        now_us += 1000;
        traffic_arrive(&traffic, now_us);
    }
    CHECK(is_near(read_at(&traffic, now_us).arrivals_per_ms, 1, 1));
}

TEST(the_rate_falls_while_nothing_arrives)
{
    struct traffic traffic;
    traffic_init(&traffic);
    uint64_t now_us = 0;
    for (int i = 0; i < 300; i++) {
        now_us += 1000;
        traffic_arrive(&traffic, now_us);
    }
    float before = read_at(&traffic, now_us).arrivals_per_ms;
    CHECK(is_near(before, 1, 1));
    CHECK(is_near(read_at(&traffic, now_us + 127000).arrivals_per_ms, 0.5, 1));
    CHECK(read_at(&traffic, now_us + 600000000).arrivals_per_ms < 0.001F);
    // A reader whose clock is behind changes nothing.
    CHECK(isfinite(read_at(&traffic, 0).arrivals_per_ms));
}

TEST(arrivals_in_one_instant_are_many_and_not_infinite)
{
    struct traffic traffic;
    traffic_init(&traffic);
    for (int i = 0; i < 500; i++) {
        traffic_arrive(&traffic, 77);
    }
    CHECK(is_near(read_at(&traffic, 77).arrivals_per_ms, 127, 1));
}

TEST(means_hold_back_until_there_are_twenty_completions)
{
    struct traffic traffic;
    traffic_init(&traffic);
    for (int i = 0; i < 19; i++) {
        traffic_complete(&traffic, 3000, 50);
    }
    CHECK(read_at(&traffic, 1).decode_ms == 0);
    CHECK(read_at(&traffic, 1).output_tokens == 200);
    traffic_complete(&traffic, 3000, 50);
    CHECK(is_near(read_at(&traffic, 1).decode_ms, 3000, 1));
    CHECK(is_near(read_at(&traffic, 1).output_tokens, 50, 1));
    CHECK_EQ(read_at(&traffic, 1).completion_count, 20);
}

TEST(means_follow_the_last_few_hundred)
{
    struct traffic traffic;
    traffic_init(&traffic);
    struct rng rng = {.state = 4};
    for (int i = 0; i < 2000; i++) {
        traffic_arrive(&traffic, (uint64_t)i * 1000);
        traffic_routed(&traffic, (float)rng_below(&rng, 200));
        traffic_complete(&traffic, (float)rng_below(&rng, 2000), rng_below(&rng, 400));
    }
    struct traffic_view view = read_at(&traffic, 2000000);
    CHECK(is_near(view.prefill_ms, 100, 15));
    CHECK(is_near(view.decode_ms, 1000, 15) && is_near(view.output_tokens, 200, 15));
    for (int i = 0; i < 768; i++) {
        traffic_routed(&traffic, 500);
        traffic_complete(&traffic, 9000, 900);
    }
    view = read_at(&traffic, 2000000);
    CHECK(is_near(view.prefill_ms, 500, 6));
    CHECK(is_near(view.decode_ms, 9000, 6) && is_near(view.output_tokens, 900, 6));
}

static void arrive_often(struct traffic *traffic, int count)
{
    for (int i = 0; i < count; i++) {
        traffic_arrive(traffic, 1);
    }
}

TEST(scarcity_is_unknown_before_600_requests_and_20_hits)
{
    struct traffic traffic;
    traffic_init(&traffic);
    arrive_often(&traffic, 600);
    for (int i = 0; i < 19; i++) {
        traffic_reused(&traffic, true);
        CHECK(read_at(&traffic, 1).scarcity < 0);
    }
    traffic_reused(&traffic, true);
    CHECK(read_at(&traffic, 1).scarcity == 0);

    traffic_init(&traffic);
    arrive_often(&traffic, 599);
    for (int i = 0; i < 100; i++) {
        traffic_reused(&traffic, true);
    }
    CHECK(read_at(&traffic, 1).scarcity < 0);
    traffic_arrive(&traffic, 1);
    CHECK(read_at(&traffic, 1).scarcity == 0);
}

TEST(scarcity_is_the_share_that_would_not_last_of_the_last_few_hundred)
{
    struct traffic traffic;
    traffic_init(&traffic);
    arrive_often(&traffic, 600);
    for (int i = 0; i < 1000; i++) {
        traffic_reused(&traffic, i % 4 != 0);
    }
    CHECK(is_near(read_at(&traffic, 1).scarcity, 0.25, 3));
    for (int i = 0; i < 768; i++) {
        traffic_reused(&traffic, false);
    }
    CHECK(is_near(read_at(&traffic, 1).scarcity, 1, 5));
}

TEST(an_invalid_time_is_not_counted)
{
    struct traffic traffic;
    traffic_init(&traffic);
    traffic_arrive(&traffic, 1);
    traffic_routed(&traffic, 10);
    traffic_routed(&traffic, NAN);
    traffic_routed(&traffic, -5);
    CHECK(read_at(&traffic, 1).prefill_ms == 10);
}

static void run_worker(void *owner)
{
    struct traffic *traffic = owner;
    for (uint64_t i = 0; i < 20000; i++) {
        traffic_arrive(traffic, 1000000 + i * 1000);
        traffic_routed(traffic, 50);
        traffic_complete(traffic, 100, 10);
        traffic_reused(traffic, true);
        struct traffic_view view;
        traffic_read(traffic, 1000000 + i * 1000, &view);
        ASSERT(isfinite(view.arrivals_per_ms) && view.arrivals_per_ms >= 0);
    }
}

TEST(four_workers_lose_samples_at_most)
{
    struct traffic traffic;
    traffic_init(&traffic);
    struct thread *threads[4] = {0};
    for (int i = 0; i < 4; i++) {
        CHECK(thread_start("worker", run_worker, &traffic, &threads[i]) == STATUS_OK);
    }
    for (int i = 0; i < 4; i++) {
        thread_join(&threads[i]);
    }
    struct traffic_view view = read_at(&traffic, 21000000);
    CHECK_EQ(view.completion_count, 80000);
    CHECK(is_near(view.prefill_ms, 50, 1));
    CHECK(is_near(view.decode_ms, 100, 1));
    CHECK(view.scarcity == 0);
}

TEST(text_is_four_bytes_a_token_until_the_engine_counts)
{
    struct traffic traffic;
    traffic_init(&traffic);
    CHECK_EQ(traffic_tokens_of(&traffic, 4000), 1000);
    CHECK_EQ(traffic_tokens_of(&traffic, 0), 0);
    CHECK_EQ(traffic_tokens_of(&traffic, UINT64_MAX), UINT32_MAX);
    for (int i = 0; i < 30; i++) {
        traffic_learn_text(&traffic, 30000, 10000);
        traffic_learn_text(&traffic, 0, 10000);
        traffic_learn_text(&traffic, 30000, 0);
        traffic_learn_text(&traffic, 1 << 30, 300); // an image
        traffic_learn_text(&traffic, 100, 3000);    // an image behind a short address
        traffic_learn_text(&traffic, 100, UINT64_MAX);
    }
    CHECK_EQ(traffic_tokens_of(&traffic, 6000), 2000);
}

TEST(arrivals_at_other_routers_are_added_to_ours)
{
    struct traffic traffic;
    traffic_init(&traffic);
    traffic_set_others(&traffic, 0.5F);
    CHECK(read_at(&traffic, 1000000).arrivals_per_ms == 0.5F);
    for (uint64_t i = 0; i < 100; i++) {
        traffic_arrive(&traffic, 1000000 + i * 1000);
    }
    CHECK(is_near(read_at(&traffic, 1099000).arrivals_per_ms, 1.5, 1));
    // Ours alone are told to the others.
    CHECK(is_near(traffic_own_arrivals(&traffic, 1099000), 1, 1));
    traffic_set_others(&traffic, 0);
    CHECK(is_near(read_at(&traffic, 1099000).arrivals_per_ms, 1, 1));
}
