// SPDX-License-Identifier: Apache-2.0
//
// kv_poller.h -- asks engines that keep their KV events until they are asked, as TensorRT-LLM does.
//
// POST /kv_cache_events four times a second to every backend whose `events` are `poll`.  The poller
// pushes a response with events on as it is (kv_json.h).
//
//     200 and a list               push it         next in a quarter of a second
//     404                          no events       next in a minute
//     other, or no response        failed          next in a quarter, half, ... a minute
//
// An engine forgets events once it has sent them.  So the router must be the only one that asks;
// the first rank of a server is asked for all ranks; and a response that is lost on its way leaves
// a gap in the event ids, which the feeder notices.
//
// Threads: the keeper's.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct backend;
struct config;
struct kv_poller;
struct loop;

struct kv_poller_options {
    struct loop *loop;
    const struct config *config; // until kv_poller_set_config
    // Hands a document to the follower of the backend's events (kv_feeder_push).
    enum status (*push)(void *owner, uint64_t backend_id, struct slice json);
    void *owner;
};

// NULL when memory is short.
struct kv_poller *kv_poller_create(const struct kv_poller_options *options);

// Clears the caller's pointer, which may be NULL.
void kv_poller_destroy(struct kv_poller **poller);

void kv_poller_set_config(struct kv_poller *poller, const struct config *config);

// Starts and stops asking a backend.  Ignores backends that are not polled.
void kv_poller_watch(struct kv_poller *poller, struct backend *backend);
void kv_poller_forget(struct kv_poller *poller, const struct backend *backend);
