// SPDX-License-Identifier: Apache-2.0

#include "sweep/sweep.h"

#include "grid.h"
#include "test.h"

#include <math.h>
#include <stdatomic.h>

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9 * (1 + fabs(b));
}

static char why[sweep_error_size];

TEST(every_combination_is_one_point_in_the_order_of_the_lists)
{
    struct sweep_options options = grid_options();
    struct sweep *sweep = sweep_create(&options);
    CHECK_EQ(sweep->point_count, 16);
    CHECK_EQ(sweep->run_count, 48);
    CHECK(sweep_run(sweep, &grid_lab, why));
    for (uint32_t i = 0; i < 16; i++) {
        const struct sweep_point *point = &sweep->points[i];
        CHECK(point->workload == &grid_workloads[i / 8]);
        CHECK(point->profile == &grid_profiles[i / 4 % 2]);
        CHECK_EQ(point->backend_count, grid_backends[i / 2 % 2]);
        CHECK(point->level == grid_levels[i % 2]);
        double first = i < 8 ? 100 * point->rate : 200 * point->rate;
        CHECK(is_near(point->cells[0].figures.ttft.mean, first));
        CHECK(is_near(point->cells[1].figures.ttft.mean, 2 * first));
        CHECK(is_near(point->cells[2].figures.ttft.mean, 3 * first));
    }
    sweep_destroy(&sweep);
}

TEST(load_is_a_fraction_of_the_rate_that_saturates_the_fleet)
{
    struct sweep_options options = grid_options();
    struct sweep *sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &grid_lab, why));
    CHECK(is_near(sweep->points[0].rate, 0.5));
    CHECK(is_near(sweep->points[3].saturation, 2));
    CHECK(is_near(sweep->points[3].rate, 1.8));
    CHECK(is_near(sweep->points[3].bound, 0.5));
    CHECK(is_near(sweep->points[3].cells[2].figures.bound_rate, 0.5));
    char name[sweep_name_size];
    sweep_point_name(sweep, &sweep->points[3], name);
    CHECK_STR(name, "rag, small, 8 backends, load 0.9 (1.8 requests/s)");
    sweep->options.sharing.router_count = 3;
    sweep_point_name(sweep, &sweep->points[3], name);
    CHECK_STR(name, "rag, small, 8 backends, 3 routers, load 0.9 (1.8 requests/s)");
    sweep_destroy(&sweep);
}

static bool refuse_saturation(const struct lab_options *options, double *rate,
                              char error[lab_error_size])
{
    (void)options;
    *rate = 0;
    snprintf(error, lab_error_size, "nobody asked");
    return false;
}

TEST(rates_and_users_need_no_saturation)
{
    static const double levels[] = {3};
    const struct sweep_lab lab = {grid_run, refuse_saturation, grid_bound};
    struct sweep_options options = grid_options();
    options.levels = levels;
    options.level_count = 1;
    options.axis = SWEEP_RATE;
    struct sweep *sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &lab, why));
    CHECK(sweep->points[0].rate == 3);
    CHECK(is_near(sweep->points[0].cells[0].figures.ttft.mean, 300));
    sweep_destroy(&sweep);

    options.axis = SWEEP_USERS;
    sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &lab, why));
    CHECK(sweep->points[0].rate == 0);
    CHECK(is_near(sweep->points[0].cells[0].figures.ttft.mean, 300));
    sweep_destroy(&sweep);
}

TEST(several_seeds_give_the_median)
{
    struct sweep_options options = grid_options();
    options.seed = 1;
    options.seed_count = 4; // -7, 0, 7, 14 ms beside
    struct sweep *sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &grid_lab, why));
    const struct sweep_cell *cell = &sweep->points[0].cells[1];
    CHECK(is_near(cell->figures.ttft.mean, 100 + 3.5));
    CHECK(is_near(cell->figures.ttft_curve[100], 4 * (100 + 3.5)));
    CHECK_EQ(cell->figures.request_count, 100);
    CHECK(is_near(cell->runs[3].result.figures.ttft.mean, 114));
    sweep_destroy(&sweep);
}

TEST(the_number_of_threads_changes_nothing_but_the_wall_times)
{
    struct sweep_options options = grid_options();
    options.seed_count = 3;
    options.thread_count = 1;
    struct sweep *one = sweep_create(&options);
    options.thread_count = 8;
    struct sweep *eight = sweep_create(&options);
    CHECK(sweep_run(one, &grid_lab, why));
    CHECK(sweep_run(eight, &grid_lab, why));
    for (uint32_t i = 0; i < one->run_count; i++) {
        CHECK(one->runs[i].result.figures.ttft.p99 == eight->runs[i].result.figures.ttft.p99);
        CHECK(one->runs[i].result.figures.balance == eight->runs[i].result.figures.balance);
    }
    sweep_destroy(&one);
    sweep_destroy(&eight);
}

TEST(a_run_that_fails_ends_the_sweep_with_its_reason)
{
    static const uint32_t backends[] = {4, grid_failing_backends};
    struct sweep_options options = grid_options();
    options.backends = backends;
    options.workload_count = 1;
    struct sweep *sweep = sweep_create(&options);
    CHECK(!sweep_run(sweep, &grid_lab, why));
    CHECK_STR(why, "rag on 13 backends: an unlucky number");
    sweep_destroy(&sweep);
}

static struct {
    uint32_t last;
    uint32_t count;
    double first_share;
    double share;
} told;

static void progress(void *owner, uint32_t done_count, uint32_t count, double share)
{
    (void)owner;
    told.first_share = done_count == 1 ? share : told.first_share;
    told.share = share;
    told.last = done_count;
    told.count = count;
}

TEST(progress_counts_runs_and_saturations)
{
    struct sweep_options options = grid_options();
    options.progress = progress;
    options.thread_count = 1;
    struct sweep *sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &grid_lab, why));
    CHECK_EQ(told.count, 8 + 48);
    CHECK_EQ(told.last, told.count);
    CHECK(is_near(told.share, 1));
    // A saturation takes several runs.
    CHECK(told.first_share > 2.0 / (8 + 48));
    sweep_destroy(&sweep);
}

static atomic_uint first_size;

static bool note_size(const struct lab_options *options, struct lab_result *out,
                      char error[lab_error_size])
{
    unsigned none = 0;
    atomic_compare_exchange_strong(&first_size, &none, options->backend_count);
    return grid_run(options, out, error);
}

TEST(the_largest_fleets_come_first)
{
    const struct sweep_lab lab = {note_size, grid_saturation, grid_bound};
    struct sweep_options options = grid_options();
    options.thread_count = 1;
    struct sweep *sweep = sweep_create(&options);
    CHECK(sweep_run(sweep, &lab, why));
    CHECK_EQ(atomic_load(&first_size), 8);
    sweep_destroy(&sweep);
}

TEST(a_grid_beyond_the_limit_is_refused)
{
    struct sweep_options options = grid_options();
    options.seed_count = sweep_run_max;
    CHECK(sweep_create(&options) == NULL);
}
