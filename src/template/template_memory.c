// SPDX-License-Identifier: Apache-2.0

#include "template/template_memory.h"

#include "base/base.h"

#include <stdlib.h>

enum { block_size = 32 << 10 };

struct template_block {
    struct template_block *next;
    size_t size;
    _Alignas(16) unsigned char bytes[];
};

static bool memory_add_block(struct template_memory *memory, size_t size)
{
    ASSERT(memory->total <= template_memory_max);
    size_t wanted = size > block_size ? size : block_size;
    if (wanted > template_memory_max - memory->total) {
        return false;
    }
    struct template_block *block = calloc(1, sizeof(*block) + wanted);
    if (block == NULL) {
        return false;
    }
    block->next = memory->blocks;
    block->size = wanted;
    memory->blocks = block;
    memory->left = wanted;
    memory->total += wanted;
    return true;
}

void *template_memory_take(struct template_memory *memory, size_t size)
{
    if (size > template_memory_max) {
        return NULL;
    }
    size_t rounded = (size + 15) & ~(size_t)15;
    if ((memory->blocks == NULL || rounded > memory->left) && !memory_add_block(memory, rounded)) {
        return NULL;
    }
    void *taken = memory->blocks->bytes + (memory->blocks->size - memory->left);
    ASSERT(rounded <= memory->left);
    memory->left -= rounded;
    return taken;
}

void template_memory_clear(struct template_memory *memory)
{
    while (memory->blocks != NULL) {
        struct template_block *next = memory->blocks->next;
        free(memory->blocks);
        memory->blocks = next;
    }
    *memory = (struct template_memory){0};
}
