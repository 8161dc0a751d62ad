// SPDX-License-Identifier: Apache-2.0
//
// grid.h -- a sweep over a lab that computes nothing: what its figures are follows from the
// options, so that tests know them.
//
// TTFT is 100 ms x policy (1, 2, ... in the order of the options) x workload x level; three times
// that at its p99, ten times that end to end.
#pragma once

#include "sweep/sweep.h"

#include <stdio.h>
#include <string.h>

enum { grid_policy_count = 3, grid_failing_backends = 13 };

static const struct contender grid_policies[grid_policy_count] = {
    {.name = "warm", .policy = &policy_warm},
    {.name = "round_robin", .policy = &policy_round_robin},
    {.name = "random", .policy = &policy_random}};
static const struct sweep_workload grid_workloads[] = {{.name = "rag", .kind = "rag"},
                                                       {.name = "hot<1>", .kind = "hot"}};
static const struct profile grid_profiles[] = {{.name = "small"}, {.name = "large"}};
static const uint32_t grid_backends[] = {4, 8};
static const double grid_levels[] = {0.5, 0.9};
static const struct lab_change grid_change = {.name = "join:2@60s", .number = 2, .at_s = 60};

static inline double grid_ttft(const struct lab_options *options)
{
    double policy = 0;
    for (uint32_t i = 0; i < grid_policy_count; i++) {
        policy = options->policy == grid_policies[i].policy ? i + 1 : policy;
    }
    double workload = strcmp(options->workload.kind, "rag") == 0 ? 1 : 2;
    return 100 * policy * workload * (options->workload.rate + options->workload.users);
}

static inline bool grid_run(const struct lab_options *options, struct lab_result *out,
                            char error[lab_error_size])
{
    if (options->backend_count == grid_failing_backends) {
        snprintf(error, lab_error_size, "an unlucky number");
        return false;
    }
    // Seeds 1, 2, 3 ... lie beside the middle one.
    double ttft = grid_ttft(options) + 7 * ((double)options->seed - 2);
    *out = (struct lab_result){.virtual_s = 10, .step_count = 5};
    struct figures *figures = &out->figures;
    figures->request_count = 100;
    figures->ttft = (struct distribution){ttft, ttft, 2 * ttft, 3 * ttft, 4 * ttft};
    figures->e2e = (struct distribution){10 * ttft, 10 * ttft, 20 * ttft, 30 * ttft, 40 * ttft};
    figures->tpot = (struct distribution){20, 20, 20, 20, 20};
    for (int i = 0; i < figure_curve_points; i++) {
        figures->ttft_curve[i] = ttft * (1 + i * 0.03);
    }
    figures->hit_rate = 0.25;
    figures->bound_rate = -1;
    figures->balance = 1 + ttft / 1000;
    figures->goodput = 1 / (1 + ttft / 1000);
    figures->requests_per_s = options->workload.rate;
    for (uint32_t i = 0; i < options->change_count; i++) {
        out->changes[i] = (struct lab_change_figures){{-1, 0.5, 1}, ttft, 3 * ttft};
    }
    return true;
}

// One request a second, but two for eight backends.
static inline bool grid_saturation(const struct lab_options *options, double *rate,
                                   char error[lab_error_size])
{
    error[0] = '\0';
    *rate = options->backend_count / 4.0;
    return true;
}

static inline bool grid_bound(const struct lab_options *options, double *rate,
                              char error[lab_error_size])
{
    error[0] = '\0';
    *rate = options->backend_count / 16.0;
    return true;
}

static const struct sweep_lab grid_lab = {grid_run, grid_saturation, grid_bound};

// Two workloads, two models, two sizes, two loads: 16 points.
static inline struct sweep_options grid_options(void)
{
    return (struct sweep_options){
        .workloads = grid_workloads,
        .profiles = grid_profiles,
        .policies = grid_policies,
        .backends = grid_backends,
        .levels = grid_levels,
        .workload_count = 2,
        .profile_count = 2,
        .policy_count = grid_policy_count,
        .backends_count = 2,
        .level_count = 2,
        .axis = SWEEP_LOAD,
        .seed = 2,
        .seed_count = 1,
        .warm_up = 0.25,
    };
}
