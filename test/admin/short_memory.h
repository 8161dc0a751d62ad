// SPDX-License-Identifier: Apache-2.0
//
// short_memory.h -- a process that gets no more than some bytes from its system.
//
//     short_memory_settle();
//     short_memory_begin(1 << 20);
//     ...
//     short_memory_end();
//
// Sanitizers end the process when memory is short: there, is_supported is false.
#pragma once

#include "base/base.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
static const bool short_memory_is_supported = false;
#else
static const bool short_memory_is_supported = true;
#endif

static struct rlimit short_memory_before;

// From now on each block of some size comes from the system, and goes back to it.
static inline void short_memory_settle(void)
{
    ASSERT(mallopt(M_MMAP_THRESHOLD, 65536) == 1); // NOLINT(concurrency-mt-unsafe): one thread
}

static inline void short_memory_begin(size_t room)
{
    char figures[128]; // pages of address space, and more
    FILE *statm = fopen("/proc/self/statm", "r");
    ASSERT(statm != NULL && fgets(figures, sizeof(figures), statm) != NULL);
    fclose(statm);
    size_t taken = strtoul(figures, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
    ASSERT(getrlimit(RLIMIT_AS, &short_memory_before) == 0);
    struct rlimit tight = {taken + room, short_memory_before.rlim_max};
    ASSERT(setrlimit(RLIMIT_AS, &tight) == 0);
}

static inline void short_memory_end(void)
{
    ASSERT(setrlimit(RLIMIT_AS, &short_memory_before) == 0);
}
