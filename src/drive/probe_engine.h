// SPDX-License-Identifier: Apache-2.0
//
// probe_engine.h -- measures the rows of a calibration by timing requests to a live engine.
//
// The engine should be idle otherwise.  Each point is measured in several rounds, as time allows,
// and the median is kept:
//
//     prefill   time to the first token of a prompt that is new, or whose prefix was sent just
//               before; minus the time of an HTTP response that needs no computation
//     decode    time between tokens of several streams at once; they share a cached prefix, so
//               that little time passes until all of them run
//
// The engine's usage says how many tokens a prompt had and how many were cached.  An engine that
// does not report cached tokens is assumed to have cached whole blocks of the prefix sent just
// before.
//
// Blocks until it is done; SIGINT ends it early, with the rows measured so far.
#pragma once

#include "sim/engine/calibration.h"

#include <stdio.h>

enum { probe_engine_error_size = 256 }; // as drive_error_size

struct probe_engine_options {
    const char *url;
    const char *model;
    const char *key; // NULL: none
    double seconds;
    uint64_t kv_tokens;     // 0: as its metrics say
    uint32_t step_tokens;   // largest step; prompts that are measured are not longer
    uint32_t sequences_max; // most in one step
    uint32_t context_max;
    FILE *progress; // NULL: none
};

// One model with its rows.  False: `error` says why there are none.
bool probe_engine(const struct probe_engine_options *options, struct calibration *out,
                  char error[probe_engine_error_size]);
