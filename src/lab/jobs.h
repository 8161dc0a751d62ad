// SPDX-License-Identifier: Apache-2.0
//
// jobs.h -- many independent jobs on several cores.
//
//     job 0 1 2 3 4 5 ...      each thread takes the next number until there is none
//
// The calling thread works too: with one thread, no other is started.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct jobs {
    uint32_t count;
    uint32_t thread_count; // 0: one for each core
    void *owner;
    // By any thread, once for each number.  False: no further job is begun.
    bool (*run)(void *owner, uint32_t job);
    // Called by any thread, one at a time, with the number of jobs that have ended; calls may be
    // skipped.  May be NULL.
    void (*progress)(void *owner, uint32_t done_count);
};

// True if all jobs were run and returned true.  Returns when every begun job has ended.
bool jobs_run(const struct jobs *jobs);
