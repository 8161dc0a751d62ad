// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_inbox.h"

#include "base/base.h"
#include "sys/mutex.h"

#include <stdlib.h>

struct kv_inbox {
    struct mutex mutex; // held by the thread that reads or writes the fields below
    struct kv_document *ring[kv_inbox_max];
    uint32_t first;
    uint32_t count;
    size_t held_size; // bytes of documents that were not given back
};

struct kv_inbox *kv_inbox_create(void)
{
    struct kv_inbox *inbox = calloc(1, sizeof(*inbox));
    if (inbox != NULL) {
        mutex_init(&inbox->mutex);
    }
    return inbox;
}

void kv_inbox_destroy(struct kv_inbox **inbox_ptr)
{
    struct kv_inbox *inbox = *inbox_ptr;
    *inbox_ptr = NULL;

    if (inbox == NULL) {
        return;
    }
    for (uint32_t i = 0; i < inbox->count; i++) {
        free(inbox->ring[(inbox->first + i) % kv_inbox_max]);
    }
    mutex_fini(&inbox->mutex);
    free(inbox);
}

enum status kv_inbox_put(struct kv_inbox *inbox, uint64_t backend_id, struct slice bytes)
{
    struct kv_document *document = malloc(sizeof(*document) + bytes.size);
    if (document == NULL) {
        return STATUS_EXHAUSTED;
    }
    document->backend_id = backend_id;
    document->bytes = (struct slice){.bytes = document->copy, .size = bytes.size};
    if (bytes.size > 0) {
        memcpy(document->copy, bytes.bytes, bytes.size);
    }
    mutex_lock(&inbox->mutex);
    bool fits = inbox->count < kv_inbox_max && bytes.size <= kv_inbox_bytes_max - inbox->held_size;
    if (fits) {
        inbox->ring[(inbox->first + inbox->count++) % kv_inbox_max] = document;
        inbox->held_size += bytes.size;
    }
    mutex_unlock(&inbox->mutex);
    if (!fits) {
        free(document);
    }
    return fits ? STATUS_OK : STATUS_EXHAUSTED;
}

struct kv_document *kv_inbox_take(struct kv_inbox *inbox)
{
    struct kv_document *document = NULL;

    mutex_lock(&inbox->mutex);
    if (inbox->count > 0) {
        document = inbox->ring[inbox->first];
        inbox->first = (inbox->first + 1) % kv_inbox_max;
        inbox->count--;
    }
    mutex_unlock(&inbox->mutex);
    return document;
}

void kv_inbox_give_back(struct kv_inbox *inbox, struct kv_document **document)
{
    mutex_lock(&inbox->mutex);
    inbox->held_size -= (*document)->bytes.size;
    mutex_unlock(&inbox->mutex);
    free(*document);
    *document = NULL;
}
