// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/draw.h"

#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { draws = 200000 };

static double mean_of(const struct draw *draw)
{
    struct rng rng = {.state = 7};
    double sum = 0;
    for (int i = 0; i < draws; i++) {
        sum += draw_value(draw, &rng);
    }
    return sum / draws;
}

TEST(the_mean_of_draws_is_the_given_mean)
{
    const struct draw all[] = {DRAW_FIXED(7), DRAW_UNIFORM(500, 1500), DRAW_LOGNORMAL(300, 0.6),
                               DRAW_EXPONENTIAL(20)};
    const double means[] = {7, 1000, 300, 20};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        CHECK(draw_mean(&all[i]) == means[i]);
        // Five standard errors of the widest.
        CHECK(fabs(mean_of(&all[i]) / means[i] - 1) < 0.012);
    }
}

TEST(a_uniform_one_stays_within_its_bounds)
{
    const struct draw draw = DRAW_UNIFORM(5, 6);
    struct rng rng = {.state = 1};
    for (int i = 0; i < draws; i++) {
        double value = draw_value(&draw, &rng);
        CHECK(value > 5 && value < 6);
    }
}

TEST(half_of_lognormal_draws_are_below_the_median)
{
    const struct draw draw = DRAW_LOGNORMAL(300, 0.6);
    const double median = 300 * exp(-0.18); // the mean over e^(sigma^2 / 2)
    struct rng rng = {.state = 3};
    int below = 0;
    for (int i = 0; i < draws; i++) {
        below += draw_value(&draw, &rng) < median;
    }
    CHECK(abs(below - draws / 2) < 1200); // five standard deviations
}

TEST(a_whole_number_takes_both_of_its_bounds)
{
    struct rng rng = {.state = 9};
    int counts[4] = {0};
    for (int i = 0; i < 4000; i++) {
        uint32_t value = draw_between(10, 13, &rng);
        CHECK(value >= 10 && value <= 13);
        counts[value - 10]++;
    }
    for (int i = 0; i < 4; i++) {
        CHECK(counts[i] > 850 && counts[i] < 1150);
    }
}

TEST(the_nth_of_zipf_comes_one_nth_as_often_as_the_first)
{
    struct zipf zipf;
    struct rng rng = {.state = 5};
    double counts[100] = {0};
    zipf_init(&zipf, 100, 1.0);
    for (int i = 0; i < draws; i++) {
        uint32_t number = zipf_pick(&zipf, &rng);
        CHECK(number < 100);
        counts[number]++;
    }
    zipf_fini(&zipf);
    CHECK(fabs(counts[0] / counts[1] - 2) < 0.1);
    CHECK(fabs(counts[0] / counts[9] - 10) < 0.8);
    CHECK(counts[99] > 0);
}

TEST(an_exponent_of_0_makes_all_alike)
{
    struct zipf zipf;
    struct rng rng = {.state = 5};
    int counts[10] = {0};
    zipf_init(&zipf, 10, 0);
    for (int i = 0; i < draws; i++) {
        counts[zipf_pick(&zipf, &rng)]++;
    }
    zipf_fini(&zipf);
    for (int i = 0; i < 10; i++) {
        CHECK(abs(counts[i] - draws / 10) < 700);
    }
}
