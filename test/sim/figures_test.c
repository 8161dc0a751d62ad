// SPDX-License-Identifier: Apache-2.0

#include "sim/figures.h"

#include "base/rng.h"
#include "test.h"

#include <math.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

// One that computes 10 tokens, on backend 0.
static const struct figure_sample plain = {
    .first_ms = 100, .last_ms = 190, .prompt_tokens = 5, .cached_tokens = 5, .output_tokens = 10};

TEST(percentiles_lie_between_the_two_nearest_in_proportion)
{
    struct figure_sample samples[5];
    for (int i = 0; i < 5; i++) {
        samples[i] = plain;
        samples[i].first_ms = (double[]){30, 10, 50, 20, 40}[i];
        samples[i].last_ms = samples[i].first_ms + 90;
    }
    struct figures figures;
    figures_sum(samples, 5, 0, 1, &figures);
    CHECK_EQ(figures.request_count, 5);
    CHECK(is_near(figures.ttft.mean, 30));
    CHECK(is_near(figures.ttft.p50, 30));
    CHECK(is_near(figures.ttft.p90, 46));
    CHECK(is_near(figures.ttft.p99, 49.6));
    CHECK(is_near(figures.ttft.max, 50));
    CHECK(is_near(figures.e2e.p90, 136));
    CHECK(is_near(figures.tpot.mean, 10));
    CHECK(is_near(figures.ttft_curve[0], 10));
    CHECK(is_near(figures.ttft_curve[25], 20));
    CHECK(is_near(figures.ttft_curve[100], 50));
}

TEST(a_response_of_one_token_has_no_tpot)
{
    struct figure_sample samples[2] = {plain, plain};
    samples[0].output_tokens = 1;
    samples[0].last_ms = samples[0].first_ms;
    struct figures figures;
    figures_sum(samples, 2, 0, 1, &figures);
    CHECK(is_near(figures.tpot.mean, 10));
    samples[0].output_tokens = samples[1].output_tokens = 1;
    figures_sum(samples, 2, 0, 1, &figures);
    CHECK(figures.tpot.mean == 0);
    CHECK(is_near(figures.goodput, 1));
}

TEST(requests_due_during_the_warm_up_do_not_count)
{
    struct figure_sample samples[3] = {plain, plain, plain};
    samples[0].due_ms = 999;
    samples[0].first_ms = 7777;
    samples[1].due_ms = 1000;
    samples[2].due_ms = 1810;
    struct figures figures;
    figures_sum(samples, 3, 1000, 1, &figures);
    CHECK_EQ(figures.request_count, 2);
    CHECK(is_near(figures.ttft.max, 100));
    CHECK(is_near(figures.span_s, 1));
    CHECK(is_near(figures.requests_per_s, 2));
    CHECK(is_near(figures.output_per_s, 20));
}

TEST(goodput_needs_an_early_first_token_and_a_steady_pace)
{
    struct figure_sample samples[4] = {plain, plain, plain, plain};
    samples[1].first_ms = 1000; // not below one second
    samples[1].last_ms = 1090;
    samples[2].last_ms = 100 + 9 * 50.0; // not below 50 ms a token
    samples[3].last_ms = 100 + 9 * 49.0;
    struct figures figures;
    figures_sum(samples, 4, 0, 1, &figures);
    CHECK(is_near(figures.goodput, 0.5));
}

TEST(hits_are_counted_in_tokens_not_in_requests)
{
    struct figure_sample samples[2] = {plain, plain};
    samples[0].prompt_tokens = 300;
    samples[0].cached_tokens = 0;
    samples[1].prompt_tokens = 100;
    samples[1].cached_tokens = 100;
    struct figures figures;
    figures_sum(samples, 2, 0, 1, &figures);
    CHECK(is_near(figures.hit_rate, 0.25));
    CHECK(figures.bound_rate < 0);
    CHECK(figures.affinity < 0);
}

TEST(an_engine_that_claims_more_hits_than_there_was_prompt_is_not_believed)
{
    struct figure_sample sample = plain;
    sample.cached_tokens = sample.prompt_tokens + 1;
    struct figures figures;
    figures_sum(&sample, 1, 0, 1, &figures);
    CHECK(is_near(figures.hit_rate, 1));
    CHECK(is_near(figures.balance, 1));
}

TEST(balance_is_the_busiest_over_the_mean_of_all_also_of_the_idle)
{
    struct figure_sample samples[4] = {plain, plain, plain, plain};
    samples[1].backend = 2;
    samples[2].backend = 2;
    samples[3].backend = UINT32_MAX; // its backend is unknown
    struct figures figures;
    figures_sum(samples, 4, 0, 4, &figures);
    CHECK(is_near(figures.balance, 20 / (30 / 4.0)));
    CHECK(is_near(figures.request_balance, 2 / (3 / 4.0)));
    for (int i = 0; i < 4; i++) {
        samples[i].backend = (uint32_t)i;
    }
    figures_sum(samples, 4, 0, 4, &figures);
    CHECK(is_near(figures.balance, 1));
    CHECK(is_near(figures.request_balance, 1));
}

// One long request weighs as much as many short ones, and is one.
TEST(requests_have_a_balance_of_their_own)
{
    struct figure_sample samples[4] = {plain, plain, plain, plain};
    samples[0].backend = 1;
    samples[0].output_tokens = 3 * (plain.prompt_tokens + plain.output_tokens);
    samples[0].cached_tokens = samples[0].prompt_tokens;
    for (int i = 1; i < 4; i++) {
        samples[i].backend = 0;
        samples[i].cached_tokens = 0;
    }
    struct figures figures;
    figures_sum(samples, 4, 0, 2, &figures);
    CHECK(is_near(figures.balance, 1));
    CHECK(is_near(figures.request_balance, 1.5));
}

TEST(no_sample_makes_no_figure)
{
    struct figure_sample sample = plain;
    struct figures figures;
    figures_sum(&sample, 1, 1, 4, &figures);
    CHECK_EQ(figures.request_count, 0);
    CHECK(figures.ttft.mean == 0);
    CHECK(figures.requests_per_s == 0);
}

static bool is_same(const struct distribution *a, const struct distribution *b)
{
    return a->mean == b->mean && a->p50 == b->p50 && a->p90 == b->p90 && a->p99 == b->p99 &&
           a->max == b->max;
}

TEST(the_order_of_the_samples_does_not_change_a_bit)
{
    enum { count = 1000 };
    static struct figure_sample samples[count];
    static struct figure_sample shuffled[count];
    struct rng rng = {.state = 7};
    for (uint32_t i = 0; i < count; i++) {
        double first = rng_below(&rng, 100000) / 7.0;
        samples[i] = (struct figure_sample){
            .due_ms = rng_below(&rng, 100000) / 3.0,
            .first_ms = first,
            .last_ms = first + rng_below(&rng, 100000) / 11.0,
            .prompt_tokens = 1000,
            .cached_tokens = rng_below(&rng, 1000),
            .output_tokens = 1 + rng_below(&rng, 50),
            .backend = rng_below(&rng, 8),
        };
    }
    memcpy(shuffled, samples, sizeof(samples));
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t other = rng_below(&rng, i + 1);
        struct figure_sample moved = shuffled[i];
        shuffled[i] = shuffled[other];
        shuffled[other] = moved;
    }
    static struct figures one;
    static struct figures two;
    figures_sum(samples, count, 5000, 8, &one);
    figures_sum(shuffled, count, 5000, 8, &two);
    CHECK(is_same(&one.ttft, &two.ttft));
    CHECK(is_same(&one.tpot, &two.tpot));
    CHECK(is_same(&one.e2e, &two.e2e));
    CHECK(one.balance == two.balance && one.request_balance == two.request_balance);
    CHECK(one.hit_rate == two.hit_rate);
    CHECK(one.goodput == two.goodput && one.requests_per_s == two.requests_per_s);
    for (int i = 0; i < figure_curve_points; i++) {
        CHECK(one.ttft_curve[i] == two.ttft_curve[i]);
    }
}

TEST(the_median_of_an_even_number_lies_between_the_middle_two)
{
    double odd[] = {9, 1, 5};
    double even[] = {8, 1, 2, 4};
    CHECK(figures_median(odd, 3) == 5);
    CHECK(figures_median(even, 4) == 3);
}
