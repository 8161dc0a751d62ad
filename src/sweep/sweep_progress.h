// SPDX-License-Identifier: Apache-2.0
//
// sweep_progress.h -- how far a sweep is: a line that is rewritten for a terminal, a line now and
// then for a log.
//
//     123/552 runs, 22%, 1m12s, 4m15s to go
//
// Threads: one at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sweep_progress {
    FILE *out;
    bool is_terminal;
    uint64_t began_ns;
    uint64_t told_ns; // when last; 0: not yet
};

struct sweep_state {
    uint32_t done_count;
    uint32_t count;
    double share; // of the work that is done
};

// Says so when it is time to, and at the end in any case.
void sweep_progress_tell(struct sweep_progress *progress, const struct sweep_state *state,
                         uint64_t now_ns);

// "12.3s", "4m05s", "1h02m"
enum { sweep_duration_size = 24 };
void sweep_format_duration(double seconds, char out[sweep_duration_size]);
