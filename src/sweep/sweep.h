// SPDX-License-Identifier: Apache-2.0
//
// sweep.h -- many runs of the lab: a grid, on all cores.
//
//     workloads x profiles x backends    a fleet: has a rate at which it is saturated
//               x loads                  a point: what a table shows
//               x policies               a cell: a row of the table, the median of
//               x seeds                  ... its runs
//
// Every run has a place of its own, independent of the thread that computes it: equal options give
// equal bytes.  Only wall times differ.
//
// Threads: one owner; sweep_run starts its own and waits for them.  Memory: taken by sweep_create.
#pragma once

#include "sim/contender.h"
#include "sim/lab.h"

struct sweep_workload {
    const char *name;
    const char *kind;                   // NULL: the trace
    const struct mooncake_trace *trace; // the caller's
};

// The meaning of the values of `levels`.
enum sweep_axis {
    SWEEP_AS_IS, // one level without a meaning: the trace at its recorded times
    SWEEP_LOAD,  // a share of the rate that saturates the fleet
    SWEEP_RATE,  // requests/s
    SWEEP_USERS, // users of a closed loop
};

// The lab, or what stands in for it.
struct sweep_lab {
    bool (*run)(const struct lab_options *options, struct lab_result *out,
                char error[lab_error_size]);
    bool (*saturation)(const struct lab_options *options, double *rate, char error[lab_error_size]);
    bool (*bound)(const struct lab_options *options, double *rate, char error[lab_error_size]);
};

enum { sweep_policy_max = 128, sweep_level_max = 64 };

// All lists are the caller's while the sweep lives, and not empty.
struct sweep_options {
    const struct sweep_workload *workloads;
    const struct profile *profiles;
    const struct contender *policies;
    const uint32_t *backends;
    const double *levels; // growing
    uint32_t workload_count;
    uint32_t profile_count;
    uint32_t policy_count;
    uint32_t backends_count;
    uint32_t level_count;
    enum sweep_axis axis;
    uint64_t seed; // of the first run of a cell; the next one has the next
    uint32_t seed_count;
    uint32_t requests; // 0: as many as the workload likes
    double share;
    uint32_t scrape_ms;
    double warm_up;
    double limit_s;
    const struct lab_change *changes; // of every run; may be none
    uint32_t change_count;
    struct lab_sharing sharing; // of every run
    uint32_t thread_count;      // 0: one for each core
    void *owner;
    // `done_count` of `count` runs and saturations have ended, about that share of the work.
    // May be NULL.
    void (*progress)(void *owner, uint32_t done_count, uint32_t count, double share);
};

struct sweep_run {
    struct lab_result result;
    double wall_s;
};

struct sweep_cell {
    struct figures figures;                            // of each the median over the seeds
    struct lab_change_figures changes[lab_change_max]; // likewise, of each change
    double wall_s;
    struct sweep_run *runs; // one for each seed
};

struct sweep_point {
    const struct sweep_workload *workload;
    const struct profile *profile;
    uint32_t backend_count;
    double level;
    double saturation;        // requests/s; 0: it was not asked for
    double rate;              // requests/s; 0: what the trace or the users make
    double bound;             // hit rate of one cache without end
    struct sweep_cell *cells; // one for each policy
};

struct sweep {
    struct sweep_options options;
    struct sweep_point *points;
    struct sweep_cell *cells;
    struct sweep_run *runs;
    double *saturations;
    uint32_t fleet_count;
    uint32_t point_count;
    uint32_t run_count;
};

// NULL when memory is short or the grid has more than sweep_run_max runs.
enum { sweep_run_max = 1 << 20 };
struct sweep *sweep_create(const struct sweep_options *options);
void sweep_destroy(struct sweep **sweep);

// False: a run failed, and `error` says why.
enum { sweep_error_size = 2 * lab_error_size };
bool sweep_run(struct sweep *sweep, const struct sweep_lab *lab, char error[sweep_error_size]);

// "rag, llama-3.1-8b, 8 backends, load 0.7 (5.23 requests/s)"
enum { sweep_name_size = 256 };
void sweep_point_name(const struct sweep *sweep, const struct sweep_point *point,
                      char out[sweep_name_size]);
