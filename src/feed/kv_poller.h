// SPDX-License-Identifier: Apache-2.0
//
// kv_poller.h -- asks engines for their KV events, of those that keep them until somebody asks.
//
// POST /kv_cache_events, as TensorRT-LLM has it, four times a second, one question at a time, to every
// backend whose `events` say `poll`.  An answer with events goes on as it is (kv_json.h).
//
//     200 and a list               has them       next in a quarter of a second
//     404                          has none       next in a minute
//     anything else, or nothing    failed         next in a quarter, half, ... a minute
//
// Engines forget what they have handed out.  So there must be nobody else who asks; the first rank of a
// server asks for all of its ranks; and an answer that is lost on its way is a gap in the numbers of
// the events, which whoever follows them notices.  When its probes find a backend up again it is asked
// at once.
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
    // Hands a document to whoever follows the events of the backend (kv_feeder_push).
    enum status (*push)(void *owner, uint64_t backend_id, struct slice json);
    void *owner;
};

// NULL when memory is short.
struct kv_poller *kv_poller_create(const struct kv_poller_options *options);

// Clears the caller's pointer, which may be NULL.
void kv_poller_destroy(struct kv_poller **poller);

void kv_poller_set_config(struct kv_poller *poller, const struct config *config);

// Begins and ends asking a backend, if it is one to be asked.
void kv_poller_watch(struct kv_poller *poller, const struct backend *backend);
void kv_poller_forget(struct kv_poller *poller, const struct backend *backend);
