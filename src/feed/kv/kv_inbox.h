// SPDX-License-Identifier: Apache-2.0
//
// kv_inbox.h -- a bounded queue of documents from one thread to another.
//
// Threads: any; a document belongs to the thread that took it.  Memory: a copy of each document
// until it is given back.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "sys/mutex.h"

enum {
    kv_inbox_max = 64, // documents
    kv_inbox_bytes_max = 64 << 20,
};

struct kv_document {
    uint64_t backend_id;
    struct slice bytes; // the copy
    uint8_t copy[];
};

// Its fields are private.
struct kv_inbox {
    struct mutex mutex; // held by the thread that reads or writes the fields below
    struct kv_document *ring[kv_inbox_max];
    uint32_t first;
    uint32_t count;
    size_t held_size; // bytes of documents that were not given back
};

void kv_inbox_init(struct kv_inbox *inbox);

// Frees the documents in it.
void kv_inbox_fini(struct kv_inbox *inbox);

// EXHAUSTED: the queue is full, or memory is short.
enum status kv_inbox_put(struct kv_inbox *inbox, uint64_t backend_id, struct slice bytes);

// The oldest document, which the caller gives back; NULL: the queue is empty.
struct kv_document *kv_inbox_take(struct kv_inbox *inbox);
void kv_inbox_give_back(struct kv_inbox *inbox, struct kv_document **document);
