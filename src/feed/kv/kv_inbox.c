// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_inbox.h"

#include "base/base.h"

#include <stdlib.h>

void kv_inbox_init(struct kv_inbox *inbox)
{
    *inbox = (struct kv_inbox){0};
    mutex_init(&inbox->mutex);
}

void kv_inbox_fini(struct kv_inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        free(inbox->ring[(inbox->first + i) % kv_inbox_max]);
    }
    mutex_fini(&inbox->mutex);
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
