// SPDX-License-Identifier: Apache-2.0
//
// template_memory.h -- memory of one compiled template: given out piece by piece, freed as a whole.
//
// Bounded: a template may be 1 MB, and its tree at most the bound below.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { template_memory_max = 256 << 20 };

struct template_memory {
    struct template_block *blocks;
    size_t left; // in the first of them
    size_t total;
};

// Zeroed and aligned for anything.  NULL when memory or the bound is used up.
void *template_memory_take(struct template_memory *memory, size_t size);

// Frees everything; `memory` can be used again.
void template_memory_clear(struct template_memory *memory);
