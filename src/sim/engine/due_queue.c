// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/due_queue.h"

#include "base/base.h"

#include <stdlib.h>

enum { room_start = 64 };

static bool due_is_before(const struct due *a, const struct due *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void due_queue_fini(struct due_queue *queue)
{
    free(queue->heap);
    *queue = (struct due_queue){0};
}

static bool due_queue_grow(struct due_queue *queue)
{
    uint32_t room = queue->room == 0 ? room_start : 2 * queue->room;
    struct due *heap = realloc(queue->heap, room * sizeof(*heap));
    if (heap == NULL) {
        return false;
    }
    queue->heap = heap;
    queue->room = room;
    return true;
}

bool due_queue_push(struct due_queue *queue, struct due due)
{
    if (queue->count == queue->room && !due_queue_grow(queue)) {
        return false;
    }
    uint32_t at = queue->count++;
    while (at > 0 && due_is_before(&due, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = due;
    return true;
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
