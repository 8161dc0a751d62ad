// SPDX-License-Identifier: Apache-2.0
//
// short_memory.h -- allocations of the router that fail.
//
//     short_memory_after(3); // the next three succeed
//     ...
//     bool was_short = short_memory_end() > 0;
//
// The linker wraps the allocator for tests that include this (meson.build).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(bugprone-reserved-identifier): the linker chose these names.
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static uint32_t short_memory_left = UINT32_MAX; // allocations that succeed
static uint32_t short_memory_refused;

static bool short_memory_refuses(void)
{
    if (short_memory_left == 0) {
        short_memory_refused++;
        return true;
    }
    short_memory_left -= short_memory_left != UINT32_MAX;
    return false;
}

void *__wrap_malloc(size_t size)
{
    return short_memory_refuses() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return short_memory_refuses() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return short_memory_refuses() ? NULL : __real_realloc(old, size);
}
// NOLINTEND(bugprone-reserved-identifier)

static inline void short_memory_after(uint32_t good_count)
{
    short_memory_left = good_count;
    short_memory_refused = 0;
}

// Returns how many allocations failed.
static inline uint32_t short_memory_end(void)
{
    short_memory_left = UINT32_MAX;
    return short_memory_refused;
}
