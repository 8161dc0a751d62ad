// SPDX-License-Identifier: Apache-2.0
//
// sim_grid.h -- from the words of `warmpath sim` to the lists of a sweep.
//
// Errors are printed to standard error, with the word that was probably meant.
#pragma once

#include "config/option/flags.h"
#include "lab/trace_file.h"
#include "sim/workload/mooncake.h"
#include "sweep/sweep.h"

enum { sim_grid_max = flag_numbers_max }; // of each list

// The words of the command line; an empty list takes its default.
struct sim_words {
    struct flag_list trace;
    struct flag_list workload;    // may be empty if there is a trace
    struct flag_list policy;      // all
    struct flag_list model;       // llama-3.1-8b
    struct flag_numbers backends; // 8
    struct flag_numbers load;     // 0.7, or the recorded times if there are only traces
    struct flag_numbers rate;
    struct flag_numbers users;
    struct flag_list change; // none
    const char *sync;        // 20ms
    const char *calibration; // where the models are from; NULL: those that we ship
};

struct sim_grid {
    struct mooncake_trace traces[sim_grid_max];
    char trace_names[sim_grid_max][trace_file_name_size];
    struct sweep_workload workloads[sim_grid_max];
    struct profile profiles[sim_grid_max];
    struct contender policies[sweep_policy_max];
    uint32_t backends[sim_grid_max];
    double levels[sim_grid_max];
    struct lab_change changes[lab_change_max];
    uint32_t trace_count;
    struct sweep_options options; // its lists are those above
};

// Sets the lists of `out->options`.  `out` starts zeroed but for the other options, must outlive
// the sweep and needs sim_grid_fini in any case.
bool sim_grid_read(const struct sim_words *words, struct sim_grid *out);
void sim_grid_fini(struct sim_grid *grid);

// The place of the policy in the grid; UINT32_MAX: it is not there.
uint32_t sim_grid_find_policy(const struct sim_grid *grid, const char *name);
