// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_inbox.h"

#include "base/base.h"

#include <stdatomic.h>
#include <stdlib.h>

struct kv_inbox {
    struct kv_document *ring[kv_inbox_max];
    // Written by the thread that puts.
    struct {
        _Alignas(64) atomic_uint_fast64_t count;
    } put;
    // Written by the thread that takes.
    struct {
        _Alignas(64) atomic_uint_fast64_t count;
    } taken;
    // Written by both.
    struct {
        _Alignas(64) atomic_size_t bytes;
    } held;
};

struct kv_inbox *kv_inbox_create(void)
{
    struct kv_inbox *inbox = aligned_alloc(64, sizeof(*inbox));
    if (inbox != NULL) {
        *inbox = (struct kv_inbox){0};
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
    for (struct kv_document *document = kv_inbox_take(inbox); document != NULL;
         document = kv_inbox_take(inbox)) {
        kv_inbox_give_back(inbox, &document);
    }
    free(inbox);
}

enum status kv_inbox_put(struct kv_inbox *inbox, uint64_t backend_id, struct slice bytes)
{
    uint64_t count = atomic_load_explicit(&inbox->put.count, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&inbox->taken.count, memory_order_acquire);
    size_t held = atomic_load_explicit(&inbox->held.bytes, memory_order_relaxed);

    if (count - taken == kv_inbox_max || held > kv_inbox_bytes_max ||
        bytes.size > kv_inbox_bytes_max - held) {
        return STATUS_EXHAUSTED;
    }
    struct kv_document *document = malloc(sizeof(*document) + bytes.size);
    if (document == NULL) {
        return STATUS_EXHAUSTED;
    }
    document->backend_id = backend_id;
    document->bytes = (struct slice){.bytes = document->copy, .size = bytes.size};
    if (bytes.size > 0) {
        memcpy(document->copy, bytes.bytes, bytes.size);
    }
    atomic_fetch_add_explicit(&inbox->held.bytes, bytes.size, memory_order_relaxed);
    inbox->ring[count % kv_inbox_max] = document;
    atomic_store_explicit(&inbox->put.count, count + 1, memory_order_release);
    return STATUS_OK;
}

struct kv_document *kv_inbox_take(struct kv_inbox *inbox)
{
    uint64_t taken = atomic_load_explicit(&inbox->taken.count, memory_order_relaxed);

    if (taken == atomic_load_explicit(&inbox->put.count, memory_order_acquire)) {
        return NULL;
    }
    struct kv_document *document = inbox->ring[taken % kv_inbox_max];
    atomic_store_explicit(&inbox->taken.count, taken + 1, memory_order_release);
    return document;
}

void kv_inbox_give_back(struct kv_inbox *inbox, struct kv_document **document)
{
    atomic_fetch_sub_explicit(&inbox->held.bytes, (*document)->bytes.size, memory_order_relaxed);
    free(*document);
    *document = NULL;
}
