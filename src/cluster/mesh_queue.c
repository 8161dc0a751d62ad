// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_queue.h"

#include "base/base.h"
#include "cluster/mesh_wire.h"

void mesh_queue_init(struct mesh_queue *queue, void *bytes, size_t capacity)
{
    *queue = (struct mesh_queue){.bytes = bytes, .capacity = capacity};
}

size_t mesh_queue_room(const struct mesh_queue *queue)
{
    size_t left = queue->capacity - queue->size;
    return left > mesh_frame_head_size ? left - mesh_frame_head_size : 0;
}

static void queue_append(struct mesh_queue *queue, struct slice bytes)
{
    if (bytes.size == 0) {
        return;
    }
    size_t at = queue->start + queue->size;
    at -= at >= queue->capacity ? queue->capacity : 0;
    size_t first = queue->capacity - at < bytes.size ? queue->capacity - at : bytes.size;
    memcpy(queue->bytes + at, bytes.bytes, first);
    memcpy(queue->bytes, bytes.bytes + first, bytes.size - first);
    queue->size += bytes.size;
}

bool mesh_queue_put(struct mesh_queue *queue, struct slice frame)
{
    uint8_t head[mesh_frame_head_size];

    if (queue->capacity - queue->size < mesh_frame_head_size + frame.size) {
        return false;
    }
    mesh_frame_head_write(frame.size, head);
    queue_append(queue, slice_of(head, sizeof(head)));
    queue_append(queue, frame);
    return true;
}

uint32_t mesh_queue_slices(const struct mesh_queue *queue, struct slice out[2])
{
    size_t to_end = queue->capacity - queue->start;
    size_t first = queue->size < to_end ? queue->size : to_end;

    out[0] = slice_of(queue->bytes + queue->start, first);
    out[1] = slice_of(queue->bytes, queue->size - first);
    return (out[0].size > 0) + (out[1].size > 0);
}

void mesh_queue_take(struct mesh_queue *queue, size_t size)
{
    ASSERT(size <= queue->size);
    queue->start += size;
    queue->start -= queue->start >= queue->capacity ? queue->capacity : 0;
    queue->size -= size;
}
