// SPDX-License-Identifier: Apache-2.0
//
// process.h -- what the kernel says of this process.
#pragma once

#include <stdint.h>

struct process_figures {
    uint64_t cpu_us; // of user and system, all threads
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;  // UINT64_MAX: no limit
    uint64_t start_ms; // when the process began, since 1970; see process_start_ms
};

// What cannot be had is 0.  `start_ms` is left as it is.
void process_figures(struct process_figures *out);

// By the wall clock of now, so that two calls may differ by a little: whoever shows it asks once.
uint64_t process_start_ms(void);

// open_fds as kernels before 6.2 have it told: by a list of all, which takes milliseconds for ten thousand.
uint64_t process_listed_fds(void);
