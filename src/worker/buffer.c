// SPDX-License-Identifier: Apache-2.0

#include "worker/buffer.h"

#include "base/base.h"
#include "worker/worker.h"

bool buffer_take(struct worker *worker, struct buffer *buffer)
{
    ASSERT(buffer->bytes == NULL);
    *buffer = (struct buffer){.bytes = pool_take(&worker->buffers)};
    return buffer->bytes != NULL;
}

void buffer_put(struct worker *worker, struct buffer *buffer)
{
    ASSERT(buffer->begin <= buffer->end);
    if (buffer->bytes != NULL) {
        pool_put(&worker->buffers, &buffer->bytes);
    }
    *buffer = (struct buffer){0};
}
