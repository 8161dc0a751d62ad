// SPDX-License-Identifier: Apache-2.0
//
// lab.h -- runs a fleet of simulated engines behind the real router, in virtual time.
//
// Route, policy, prefix index, load and fleet are the program's own, linked, not imitated; only the
// proxy between them and the engines is left out.  The lab reports to the router what the proxy
// would: a request was sent, its tokens came, it ended, so many tokens were cached, the engine's
// metrics were scraped.
//
//     workload --due--> route_choose --> engine --tokens--> outcome ... workload_done
//
// Several routers may share the engines, each with its own fleet, knowledge and route
// (lab_cluster.h).
//
// Pure: the same options give the same result, bit for bit.  Threads: any number of runs side by
// side, each with its own everything.  Memory: all of it from the heap, given back before lab_run
// returns.
#pragma once

#include "policy/policy.h"
#include "sim/engine/profile.h"
#include "sim/figures.h"
#include "sim/lab_change.h"
#include "sim/lab_cluster.h"
#include "sim/workload/workload.h"

struct lab_options {
    const struct profile *profile;
    const struct policy *policy;
    const struct policy_knobs *knobs; // NULL: the defaults
    uint32_t backend_count;
    struct workload_options workload;
    uint64_t seed;
    uint32_t router_block_tokens; // 0: 64, about a block of text
    uint32_t scrape_ms;           // 0: the engines' metrics are not read
    double warm_up;               // share of the requests that do not count
    double limit_s;               // of virtual time; unfinished requests have failed then.  0: none
    const struct lab_change *changes; // of the fleet, while it runs
    uint32_t change_count;
    struct lab_sharing sharing; // zeroed: one router
};

struct lab_result {
    struct figures figures;
    double virtual_s;
    double completed_per_s; // while requests still came, after the warm-up
    uint64_t step_count;
    struct lab_change_figures changes[lab_change_max]; // of each change
};

enum { lab_error_size = 160 };

// False, and the reason in `error`.
bool lab_run(const struct lab_options *options, struct lab_result *out, char error[lab_error_size]);

// The rate in requests/s at which that workload saturates the fleet: the best of a few policies
// completes this much when a quarter more is offered.  Without its changes, and with one router.
bool lab_saturation(const struct lab_options *options, double *rate, char error[lab_error_size]);

// Upper bound: the hit rate of that workload with one infinite cache.
bool lab_bound(const struct lab_options *options, double *rate, char error[lab_error_size]);
