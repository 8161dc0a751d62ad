// SPDX-License-Identifier: Apache-2.0

#include "feed/stall_watch.h"

#include "fleet/fleet.h"
#include "sys/log.h"

static void stall_log(struct backend *backend, bool is_stalled, uint64_t stall_ms)
{
    if (is_stalled == backend->was_stalled) {
        return;
    }
    backend->was_stalled = is_stalled;
    if (is_stalled) {
        log_warn("backend %s: stalled: no output for %.1f s with %u requests in flight",
                 backend->url, (double)stall_ms / 1000, progress_requests(&backend->progress));
    } else {
        log_info("backend %s: stalled no more: output has come", backend->url);
    }
}

static void stall_look(struct backend *backend, uint32_t limit_ms, uint64_t now_ms)
{
    struct load_view load;

    load_read(&backend->load, now_ms, &load);
    uint64_t moved_ms = progress_moved_ms(&backend->progress);
    if (moved_ms != backend->seen_moved_ms) {
        // Requests that join the queue of an engine that hangs do not give it more time.
        backend->seen_moved_ms = moved_ms;
        backend->queue_ms = (float)load.queued_tokens * load.prefill_ms;
    }
    uint64_t stall_ms = progress_stalled_ms(
        &backend->progress,
        &(struct progress_limits){.configured_ms = limit_ms, .queue_ms = backend->queue_ms},
        now_ms);
    backend_set_stalled(backend, stall_ms);
    if (limit_ms == 0) {
        backend_moved(backend);
    }
    bool is_stalled = atomic_load_explicit(&backend->shared.stalled, memory_order_relaxed);
    stall_log(backend, is_stalled, stall_ms);
}

void stall_watch_look(const struct fleet *fleet, uint32_t limit_ms, uint64_t now_ms)
{
    const struct fleet_member *member;

    for (uint32_t i = 0; (member = fleet_member_at(fleet, i)) != NULL; i++) {
        stall_look(member->backend, limit_ms, now_ms);
    }
}
