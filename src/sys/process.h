// SPDX-License-Identifier: Apache-2.0
//
// process.h -- the kernel's figures about this process.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct process_figures {
    uint64_t cpu_us; // of user and system, all threads
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;  // UINT64_MAX: no limit
    uint64_t start_ms; // when the process began, since 1970; see process_start_ms
};

// Figures that cannot be read are 0.  `start_ms` is not changed.
void process_figures(struct process_figures *out);

// Computed from the wall clock of now, so two calls may differ a little: call it once.
uint64_t process_start_ms(void);

// "host/4711": the host and the number of the process, for people; cut to the size.
void process_name(char *name, size_t size);

// open_fds on kernels before 6.2: counts a directory listing, which takes milliseconds for ten
// thousand.
uint64_t process_listed_fds(void);
