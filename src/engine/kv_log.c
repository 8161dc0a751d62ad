// SPDX-License-Identifier: Apache-2.0

#include "engine/kv_log.h"

#include "base/base.h"

#include <stdlib.h>

enum status kv_log_init(struct kv_log *log, uint32_t message_max, size_t size_max)
{
    ASSERT(message_max > 0);
    *log = (struct kv_log){.capacity = message_max, .size_max = size_max};
    log->ring = calloc(message_max, sizeof(struct kv_message *));
    return log->ring != NULL ? STATUS_OK : STATUS_EXHAUSTED;
}

static void kv_log_drop_oldest(struct kv_log *log)
{
    struct kv_message *message = log->ring[log->oldest % log->capacity];
    log->size -= message->size;
    log->oldest++;
    free(message);
}

void kv_log_clear(struct kv_log *log)
{
    while (log->oldest < log->end) {
        kv_log_drop_oldest(log);
    }
}

void kv_log_fini(struct kv_log *log)
{
    kv_log_clear(log);
    free(log->ring);
    *log = (struct kv_log){0};
}

enum status kv_log_append(struct kv_log *log, struct kv_message **message)
{
    size_t size = (*message)->size;
    if (size > log->size_max) {
        free(*message);
        *message = NULL;
        return STATUS_TOO_LARGE;
    }
    while (log->end - log->oldest == log->capacity || log->size > log->size_max - size) {
        kv_log_drop_oldest(log);
    }
    ASSERT(log->oldest == log->end ||
           log->ring[(log->end - 1) % log->capacity]->sequence < (*message)->sequence);
    log->ring[log->end % log->capacity] = *message;
    *message = NULL; // now the log's
    log->end++;
    log->size += size;
    return STATUS_OK;
}

const struct kv_message *kv_log_at(const struct kv_log *log, uint64_t position)
{
    ASSERT(position >= log->oldest && position < log->end);
    return log->ring[position % log->capacity];
}

uint64_t kv_log_find(const struct kv_log *log, uint64_t sequence)
{
    uint64_t low = log->oldest;
    uint64_t high = log->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (log->ring[middle % log->capacity]->sequence < sequence) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
