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
    // By any thread, one at a time: so many have ended.  Not after each of them.  May be NULL.
    void (*progress)(void *owner, uint32_t done_count);
};

// Whether all were run and none said false.  Returns when every begun job has ended.
bool jobs_run(const struct jobs *jobs);
