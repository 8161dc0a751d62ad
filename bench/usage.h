// SPDX-License-Identifier: Apache-2.0
//
// usage.h -- what threads of other processes have spent of their cores: read here, at the very
// edges of what is measured, because a driver that is told of the edges comes late on a busy
// machine.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { usage_threads_max = 64 };

struct usage {
    uint64_t ran_ns;
    uint64_t waited_ns; // was ready to run while someone else had the core
};

// Zero-initialised: watches no thread.
struct usage_watch {
    int files[usage_threads_max];
    uint32_t count;
};

// `threads` are numbers with a comma between them; more than fit are left out.  False when one is
// not there.
bool usage_watch_open(struct usage_watch *watch, const char *threads);

// The sum over all watched threads since they began.
struct usage usage_read(const struct usage_watch *watch);

void usage_watch_close(struct usage_watch *watch);
