// SPDX-License-Identifier: Apache-2.0

#include "sweep/sweep.h"

#include "base/base.h"
#include "base/text.h"
#include "lab/jobs.h"
#include "sys/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The grid is a number with a digit for each list; the last list is the fastest.
static uint32_t take_digit(uint32_t *number, uint32_t base)
{
    uint32_t digit = *number % base;
    *number /= base;
    return digit;
}

static void place_points(struct sweep *sweep)
{
    const struct sweep_options *options = &sweep->options;
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        uint32_t rest = i;
        struct sweep_point *point = &sweep->points[i];
        point->level = options->levels[take_digit(&rest, options->level_count)];
        point->backend_count = options->backends[take_digit(&rest, options->backends_count)];
        point->profile = &options->profiles[take_digit(&rest, options->profile_count)];
        point->workload = &options->workloads[rest];
        point->cells = sweep->cells + (size_t)i * options->policy_count;
        for (uint32_t p = 0; p < options->policy_count; p++) {
            size_t cell = (size_t)i * options->policy_count + p;
            point->cells[p].runs = sweep->runs + cell * options->seed_count;
        }
    }
}

struct sweep *sweep_create(const struct sweep_options *options)
{
    uint64_t fleets =
        (uint64_t)options->workload_count * options->profile_count * options->backends_count;
    uint64_t points = fleets * options->level_count;
    uint64_t cells = points * options->policy_count;
    uint64_t runs = cells * options->seed_count;
    ASSERT(runs > 0);
    ASSERT(options->policy_count <= sweep_policy_max);
    ASSERT(options->level_count <= sweep_level_max);
    struct sweep *sweep = runs <= sweep_run_max ? calloc(1, sizeof(*sweep)) : NULL;
    if (sweep == NULL) {
        return NULL;
    }
    *sweep = (struct sweep){.options = *options,
                            .points = calloc(points, sizeof(*sweep->points)),
                            .cells = calloc(cells, sizeof(*sweep->cells)),
                            .runs = calloc(runs, sizeof(*sweep->runs)),
                            .saturations = calloc(fleets, sizeof(*sweep->saturations)),
                            .fleet_count = (uint32_t)fleets,
                            .point_count = (uint32_t)points,
                            .run_count = (uint32_t)runs};
    if (sweep->points == NULL || sweep->cells == NULL || sweep->runs == NULL ||
        sweep->saturations == NULL) {
        sweep_destroy(&sweep);
        return NULL;
    }
    place_points(sweep);
    return sweep;
}

void sweep_destroy(struct sweep **sweep_ptr)
{
    struct sweep *sweep = *sweep_ptr;
    *sweep_ptr = NULL;

    if (sweep != NULL) {
        free(sweep->points);
        free(sweep->cells);
        free(sweep->runs);
        free(sweep->saturations);
        free(sweep);
    }
}

// State of one sweep_run that its threads share.
struct tour {
    struct sweep *sweep;
    const struct sweep_lab *lab;
    uint32_t *order; // of the runs: the longest first, so that no core idles at the end
    uint32_t saturation_count;
    bool is_saturated; // the saturations are done
    char *error;

    // Written by the first thread that fails.
    struct {
        _Alignas(64) atomic_flag failed;
    } shared;
};

// Cost of finding a saturation, in runs: 15 to 45 on the built-in workloads, since fleets are
// overloaded.
enum { saturation_runs = 24 };

// Keeps the error of the first run that fails.
static bool sweep_fail(struct tour *tour, const struct sweep_point *point, const char *why)
{
    if (!atomic_flag_test_and_set_explicit(&tour->shared.failed, memory_order_relaxed)) {
        snprintf(tour->error, sweep_error_size, "%s on %u backends: %s", point->workload->name,
                 point->backend_count, why);
    }
    return false;
}

static struct lab_options lab_options(const struct sweep *sweep, const struct sweep_point *point)
{
    const struct sweep_options *options = &sweep->options;
    return (struct lab_options){
        .profile = point->profile,
        .backend_count = point->backend_count,
        .policy = options->policies[0].policy,
        .workload = {.kind = point->workload->kind,
                     .trace = point->workload->trace,
                     .requests = options->requests,
                     .share = options->share,
                     .seed = options->seed},
        .seed = options->seed,
        .scrape_ms = options->scrape_ms,
        .warm_up = options->warm_up,
        .limit_s = options->limit_s,
        .changes = options->changes,
        .change_count = options->change_count,
        .sharing = options->sharing,
    };
}

static bool saturate(void *owner, uint32_t job)
{
    struct tour *tour = owner;
    struct sweep *sweep = tour->sweep;
    const struct sweep_point *point = &sweep->points[(size_t)job * sweep->options.level_count];
    struct lab_options options = lab_options(sweep, point);
    char why[lab_error_size];

    options.change_count = 0;
    return tour->lab->saturation(&options, &sweep->saturations[job], why) ||
           sweep_fail(tour, point, why);
}

static void set_rates(struct sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->point_count; i++) {
        struct sweep_point *point = &sweep->points[i];
        point->saturation = sweep->saturations[i / sweep->options.level_count];
        if (sweep->options.axis == SWEEP_LOAD) {
            point->rate = point->level * point->saturation;
        } else if (sweep->options.axis == SWEEP_RATE) {
            point->rate = point->level;
        }
    }
}

// The first run of a point finds its bound too.
static bool run_one(void *owner, uint32_t job)
{
    struct tour *tour = owner;
    struct sweep *sweep = tour->sweep;
    uint32_t index = tour->order[job];
    uint32_t rest = index;
    uint32_t seed = take_digit(&rest, sweep->options.seed_count);
    uint32_t policy = take_digit(&rest, sweep->options.policy_count);
    struct sweep_point *point = &sweep->points[rest];
    struct sweep_run *run = &sweep->runs[index];
    struct lab_options options = lab_options(sweep, point);
    char why[lab_error_size];

    options.policy = sweep->options.policies[policy].policy;
    options.knobs = &sweep->options.policies[policy].knobs;
    options.seed += seed;
    options.workload.seed = options.seed;
    options.workload.rate = point->rate;
    options.workload.users = sweep->options.axis == SWEEP_USERS ? (uint32_t)point->level : 0;
    uint64_t began_ns = clock_monotonic_ns();
    bool is_good = tour->lab->run(&options, &run->result, why);
    run->wall_s = (double)(clock_monotonic_ns() - began_ns) / 1e9;
    if (is_good && policy == 0 && seed == 0) {
        is_good = tour->lab->bound(&options, &point->bound, why);
    }
    return is_good || sweep_fail(tour, point, why);
}

static void sweep_tell(void *owner, uint32_t done_count)
{
    struct tour *tour = owner;
    const struct sweep_options *options = &tour->sweep->options;
    if (options->progress == NULL) {
        return;
    }
    uint32_t saturated = tour->is_saturated ? tour->saturation_count : done_count;
    uint32_t ran = tour->is_saturated ? done_count : 0;
    double work = (double)tour->saturation_count * saturation_runs + tour->sweep->run_count;
    options->progress(options->owner, saturated + ran,
                      tour->saturation_count + tour->sweep->run_count,
                      ((double)saturated * saturation_runs + ran) / work);
}

static uint32_t *longest_first(const struct sweep *sweep)
{
    const struct sweep_options *options = &sweep->options;
    uint32_t runs_of_point = options->policy_count * options->seed_count;
    uint32_t *order = calloc(sweep->run_count, sizeof(*order));
    uint32_t count = 0;

    // Fleets by size, the largest first, equal ones in their order.
    for (uint64_t below = UINT64_MAX; order != NULL && count < sweep->run_count;) {
        uint32_t largest = 0;
        for (uint32_t i = 0; i < sweep->point_count; i++) {
            uint32_t size = sweep->points[i].backend_count;
            largest = size < below && size > largest ? size : largest;
        }
        for (uint32_t i = 0; i < sweep->run_count; i++) {
            if (sweep->points[i / runs_of_point].backend_count == largest) {
                order[count++] = i;
            }
        }
        below = largest;
    }
    return order;
}

// Behind its two counts a struct figures has nothing but numbers, the curve included.
enum {
    figure_numbers = (sizeof(struct figures) - offsetof(struct figures, span_s)) / sizeof(double)
};
_Static_assert(offsetof(struct figures, span_s) == 2 * sizeof(uint32_t), "the counts come first");

static double *numbers_of(struct figures *figures)
{
    return (double *)(void *)((char *)figures + offsetof(struct figures, span_s));
}

enum { change_numbers = sizeof(struct lab_change_figures) / sizeof(double) };
_Static_assert(change_numbers == lab_change_windows + 2, "nothing but numbers");

static void sum_change(struct sweep_cell *cell, uint32_t change, uint32_t seed_count, double *space)
{
    double *numbers = (double *)(void *)&cell->changes[change];
    for (size_t i = 0; i < change_numbers; i++) {
        for (uint32_t s = 0; s < seed_count; s++) {
            space[s] = ((const double *)(const void *)&cell->runs[s].result.changes[change])[i];
        }
        numbers[i] = figures_median(space, seed_count);
    }
}

static void sum_cell(struct sweep_cell *cell, uint32_t seed_count, double *space)
{
    cell->figures = cell->runs[0].result.figures;
    double *numbers = numbers_of(&cell->figures);
    for (size_t i = 0; i < figure_numbers; i++) {
        for (uint32_t s = 0; s < seed_count; s++) {
            space[s] = numbers_of(&cell->runs[s].result.figures)[i];
        }
        numbers[i] = figures_median(space, seed_count);
    }
    for (uint32_t s = 0; s < seed_count; s++) {
        space[s] = cell->runs[s].wall_s;
        // A failure of any run is worth knowing.
        uint32_t failed = cell->runs[s].result.figures.failed_count;
        cell->figures.failed_count =
            failed > cell->figures.failed_count ? failed : cell->figures.failed_count;
    }
    cell->wall_s = figures_median(space, seed_count);
}

static void sum_cells(struct sweep *sweep, double *space)
{
    const struct sweep_options *options = &sweep->options;
    for (uint32_t i = 0; i < sweep->run_count; i++) {
        uint32_t point = i / (options->policy_count * options->seed_count);
        sweep->runs[i].result.figures.bound_rate = sweep->points[point].bound;
    }
    for (size_t i = 0; i < (size_t)sweep->point_count * options->policy_count; i++) {
        sum_cell(&sweep->cells[i], options->seed_count, space);
        for (uint32_t c = 0; c < options->change_count; c++) {
            sum_change(&sweep->cells[i], c, options->seed_count, space);
        }
    }
}

static bool run_phases(struct tour *tour)
{
    struct sweep *sweep = tour->sweep;
    struct jobs jobs = {.thread_count = sweep->options.thread_count,
                        .owner = tour,
                        .run = saturate,
                        .progress = sweep_tell};
    tour->saturation_count = sweep->options.axis == SWEEP_LOAD ? sweep->fleet_count : 0;
    jobs.count = tour->saturation_count;
    if (!jobs_run(&jobs)) {
        return false;
    }
    set_rates(sweep);
    tour->is_saturated = true;
    jobs.count = sweep->run_count;
    jobs.run = run_one;
    return jobs_run(&jobs);
}

bool sweep_run(struct sweep *sweep, const struct sweep_lab *lab, char error[sweep_error_size])
{
    struct tour tour = {.sweep = sweep,
                        .lab = lab,
                        .error = error,
                        .order = longest_first(sweep),
                        .shared = {.failed = ATOMIC_FLAG_INIT}};
    double *space = calloc(sweep->options.seed_count, sizeof(*space));
    bool is_good = tour.order != NULL && space != NULL;

    if (!is_good) {
        snprintf(error, sweep_error_size, "memory is short");
    }
    is_good = is_good && run_phases(&tour);
    if (is_good) {
        sum_cells(sweep, space);
    }
    free(space);
    free(tour.order);
    return is_good;
}

static void name_level(const struct sweep *sweep, const struct sweep_point *point,
                       struct text *name)
{
    switch (sweep->options.axis) {
    case SWEEP_LOAD:
        text_add_format(name, ", load %g (%.4g requests/s)", point->level, point->rate);
        return;
    case SWEEP_RATE:
        text_add_format(name, ", %g requests/s", point->level);
        return;
    case SWEEP_USERS:
        text_add_format(name, ", %g users", point->level);
        return;
    case SWEEP_AS_IS:
        break;
    }
}

void sweep_point_name(const struct sweep *sweep, const struct sweep_point *point,
                      char out[sweep_name_size])
{
    struct text name = text_over(out, sweep_name_size - 1);

    text_add_format(&name, "%s, %s, %u backends", point->workload->name, point->profile->name,
                    point->backend_count);
    if (sweep->options.sharing.router_count > 1) {
        text_add_format(&name, ", %u routers", sweep->options.sharing.router_count);
    }
    name_level(sweep, point, &name);
    out[name.size] = '\0';
}
