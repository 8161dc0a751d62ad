// SPDX-License-Identifier: Apache-2.0
//
// due_queue.h -- entries by the time at which they are due, the earliest first: a binary heap.
//
// Entries of the same time come out by their `order`, not by the order of pushes, so the result
// depends only on the entries inside.
//
// Threads: one owner.  Memory: grows with the entries, freed by _fini.  Zeroed it is empty.
#pragma once

#include <stdint.h>

struct due {
    uint64_t at_us;
    uint64_t order;
    void *what; // the owner's
};

struct due_queue {
    struct due *heap;
    uint32_t count;
    uint32_t room;
};

void due_queue_fini(struct due_queue *queue);

void due_queue_push(struct due_queue *queue, struct due due);

// The earliest; NULL when it is empty.  Good until the next push or pop.
const struct due *due_queue_first(const struct due_queue *queue);

// Takes the earliest out; a bug when there is none.
struct due due_queue_pop(struct due_queue *queue);
