// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/due_queue.h"

#include "base/base.h"
#include "sim/array.h"

#include <stdbool.h>

static bool due_is_before(const struct due *a, const struct due *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void due_queue_fini(struct due_queue *queue)
{
    free(queue->heap);
    *queue = (struct due_queue){0};
}

void due_queue_push(struct due_queue *queue, struct due due)
{
    queue->heap = array_grow(queue->heap, queue->count, &queue->room, sizeof(*queue->heap));
    uint32_t at = queue->count++;
    while (at > 0 && due_is_before(&due, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = due;
}

const struct due *due_queue_first(const struct due_queue *queue)
{
    return queue->count > 0 ? &queue->heap[0] : NULL;
}

struct due due_queue_pop(struct due_queue *queue)
{
    ASSERT(queue->count > 0);
    struct due first = queue->heap[0];
    struct due last = queue->heap[--queue->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < queue->count; child = 2 * at + 1) {
        if (child + 1 < queue->count &&
            due_is_before(&queue->heap[child + 1], &queue->heap[child])) {
            child++;
        }
        if (!due_is_before(&queue->heap[child], &last)) {
            break;
        }
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    if (queue->count > 0) {
        queue->heap[at] = last;
    }
    return first;
}
