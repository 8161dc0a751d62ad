// SPDX-License-Identifier: Apache-2.0

#include "sweep/score.h"

#include "test.h"

#include <math.h>

// Two points; the first policy is judged.
static struct sweep_cell cells[2][3];
static struct sweep_point points[2] = {{.cells = cells[0], .level = 1},
                                       {.cells = cells[1], .level = 2}};
static const struct sweep sweep = {
    .options = {.policy_count = 3}, .points = points, .point_count = 2};

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void set(uint32_t point, const double *ttft)
{
    for (int i = 0; i < 3; i++) {
        struct figures *figures = &cells[point][i].figures;
        figures->ttft.mean = ttft[i];
        figures->ttft.p99 = figures->e2e.mean = figures->e2e.p99 = 1;
    }
}

TEST(the_best_peer_is_chosen_anew_for_each_point)
{
    set(0, (double[]){100, 120, 300});
    set(1, (double[]){100, 300, 80});
    CHECK(is_near(score_ratio(&sweep, &points[0], 0, score_best_peer, 0), 1.2));
    CHECK(is_near(score_ratio(&sweep, &points[1], 0, score_best_peer, 0), 0.8));
    CHECK_EQ(score_best_of(&sweep, &points[1], 0, 0), 2);

    struct score score;
    score_sum(&sweep, &(struct score_question){.judge = 0, .peer = score_best_peer}, &score);
    CHECK_EQ(score.point_count, 2);
    CHECK(is_near(score.metrics[0].mean, sqrt(1.2 * 0.8)));
    CHECK(is_near(score.metrics[0].worst, 0.8));
    CHECK(score.metrics[0].worst_at == &points[1]);
    CHECK(is_near(score.metrics[3].mean, 1));
    CHECK(is_near(score.all, pow(1.2 * 0.8, 1 / 8.0)));
}

TEST(one_peer_alone_can_be_asked_for)
{
    set(0, (double[]){100, 120, 300});
    set(1, (double[]){100, 300, 80});
    struct score score;
    score_sum(&sweep, &(struct score_question){.judge = 0, .peer = 1}, &score);
    CHECK(is_near(score.metrics[0].mean, 1.2 * sqrt(2.5)));
    CHECK(is_near(score.metrics[0].worst, 1.2));
}

static bool has_level(const struct sweep_point *point, const void *wanted)
{
    return point->level == *(const double *)wanted;
}

TEST(only_points_that_are_wanted_count)
{
    set(0, (double[]){100, 120, 300});
    set(1, (double[]){100, 300, 80});
    const double level = 1;
    struct score score;
    score_sum(&sweep,
              &(struct score_question){
                  .judge = 0, .peer = score_best_peer, .counts = has_level, .wanted = &level},
              &score);
    CHECK_EQ(score.point_count, 1);
    CHECK(is_near(score.metrics[0].mean, 1.2));
}

TEST(a_policy_without_a_number_is_not_compared)
{
    set(0, (double[]){0, 120, 300});
    set(1, (double[]){100, 300, 80});
    struct score score;
    score_sum(&sweep, &(struct score_question){.judge = 0, .peer = score_best_peer}, &score);
    CHECK(is_near(score.metrics[0].mean, 0.8));
}
