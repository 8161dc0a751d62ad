// SPDX-License-Identifier: Apache-2.0
//
// drive_progress.h -- how a run goes, while it goes: one line that is written over on a terminal,
// and a line every few seconds elsewhere.
//
//     1234/2000  30 in flight  41.2/s  first token 210 ms  2 failed
#pragma once

#include "drive/drive_run.h"

#include <stdio.h>

struct drive_progress {
    FILE *out;
    bool is_terminal;
    bool is_whole;          // responses are not streamed, so the first token has no time of its own
    uint64_t request_count; // in all; 0: not known
    double duration_s;      // 0: not known
    double last_s;          // of the last line
    uint64_t last_done;
};

// How often to show it.
uint32_t drive_progress_ms(const struct drive_progress *progress);

void drive_progress_show(struct drive_progress *progress, const struct drive_run *run);

// Leaves the line clean for what follows.
void drive_progress_end(struct drive_progress *progress);
