// SPDX-License-Identifier: Apache-2.0
//
// worker_thread.h -- starts and stops a worker: its thread, its memory, its listeners.
#pragma once

#include "worker/worker.h"

struct worker_options {
    uint32_t index;
    struct proxy_shared *proxy;
    struct fleet *fleet;
    struct reclaim *reclaim;
    struct knowledge *knowledge;
    struct recorder *recorder;
    struct receipt_ring *ring;
    const struct dialect_set *dialects;
    size_t token_text_max;
    const int *listener_fds; // taken over
    uint32_t listener_count;
};

// Starts the thread.  The plan must be published before.  On failure `*out` is untouched and the
// descriptors are closed.
enum status worker_start(const struct worker_options *options, struct worker **out);

// The thread ends at the end of its turn; all connections are cut.
void worker_stop(struct worker **worker);
