// SPDX-License-Identifier: Apache-2.0
//
// buffer.h -- bytes on their way, in a slot of the worker's pool of buffers.
//
// A buffer is held only while bytes wait in it, so a stream that flows holds none.
//
// Threads: belongs to its worker.
#pragma once

#include "base/slice.h"

#include <stdbool.h>

struct worker;

// [begin, end) wait.  No slot: no byte waits.
struct buffer {
    uint8_t *bytes;
    uint32_t begin;
    uint32_t end;
};

// False when the pool is empty.
bool buffer_take(struct worker *worker, struct buffer *buffer);
void buffer_put(struct worker *worker, struct buffer *buffer);

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return slice_of(buffer->bytes + buffer->begin, buffer->end - buffer->begin);
}

static inline bool buffer_is_empty(const struct buffer *buffer)
{
    return buffer->begin == buffer->end;
}
