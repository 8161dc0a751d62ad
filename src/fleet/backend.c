// SPDX-License-Identifier: Apache-2.0

#include "fleet/backend.h"

#include "base/base.h"

// Relaxed everywhere: each word is independent, and a stale value only routes as a moment before.
#define LOAD(word) atomic_load_explicit(&backend->shared.word, memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&backend->shared.word, value, memory_order_relaxed)
#define ADD(word) atomic_fetch_add_explicit(&backend->shared.word, 1, memory_order_relaxed)

// eject_time_max is reached long before; the bound keeps the shift from overflowing.
enum { ejection_doublings_max = 16 };

bool backend_is_polled(const struct backend *backend)
{
    return backend->events != NULL && strcmp(backend->events, "poll") == 0;
}

enum backend_tier backend_tier(const struct backend *backend, uint64_t now_ms)
{
    uint64_t ejected_until = LOAD(ejected_until_ms);

    if (LOAD(probe) == BACKEND_PROBE_DOWN) {
        return BACKEND_DOWN;
    }
    if (ejected_until != 0 && (now_ms < ejected_until || LOAD(trial))) {
        return BACKEND_DOWN;
    }
    // With none in flight, the next request is a trial.
    if (LOAD(stalled) && progress_requests(&backend->progress) > 0) {
        return BACKEND_DOWN;
    }
    return now_ms < LOAD(busy_until_ms) ? BACKEND_BUSY : BACKEND_READY;
}

bool backend_begin(struct backend *backend, uint64_t now_ms, bool anyway, bool *on_trial)
{
    uint64_t ejected_until = LOAD(ejected_until_ms);
    bool half_open = ejected_until != 0 && now_ms >= ejected_until;

    *on_trial =
        half_open && !atomic_exchange_explicit(&backend->shared.trial, true, memory_order_relaxed);
    if (half_open && !*on_trial && !anyway) {
        return false;
    }
    ADD(in_flight);
    ADD(request_count);
    return true;
}

void backend_end(struct backend *backend, bool on_trial)
{
    if (on_trial) {
        STORE(trial, false);
    }
    unsigned before =
        atomic_fetch_sub_explicit(&backend->shared.in_flight, 1, memory_order_release);
    ASSERT(before > 0);
}

static void backend_eject(struct backend *backend, enum backend_outcome why, uint64_t now_ms,
                          const struct backend_rules *rules)
{
    unsigned ejections = ADD(ejections);
    unsigned doublings = ejections < ejection_doublings_max ? ejections : ejection_doublings_max;
    uint64_t time_ms = (uint64_t)rules->eject_time_ms << doublings;

    time_ms = time_ms < rules->eject_time_max_ms ? time_ms : rules->eject_time_max_ms;
    STORE(unreached, why == BACKEND_UNREACHED);
    STORE(ejected_until_ms, now_ms + time_ms);
    STORE(trial, false);
}

void backend_judge(struct backend *backend, enum backend_outcome outcome, bool on_trial,
                   uint64_t now_ms, const struct backend_rules *rules)
{
    uint64_t ejected_until = LOAD(ejected_until_ms);
    bool decides = on_trial && ejected_until != 0 && now_ms >= ejected_until;

    if (outcome == BACKEND_RESPONDING) {
        if (decides) {
            STORE(ejected_until_ms, 0);
            STORE(trial, false);
        }
        return;
    }
    if (outcome == BACKEND_SUCCESS) {
        // A response to a request from before the ejection is not proof of health.
        if (ejected_until == 0 || decides) {
            STORE(failures, 0);
            STORE(ejections, 0);
            STORE(ejected_until_ms, 0);
            STORE(trial, false);
        }
        return;
    }
    ADD(failure_count);
    unsigned failures = ADD(failures) + 1;
    if (rules->eject_failures == 0) {
        return;
    }
    if (decides || (ejected_until == 0 && failures >= rules->eject_failures)) {
        backend_eject(backend, outcome, now_ms, rules);
    }
}

void backend_set_busy(struct backend *backend, uint64_t until_ms)
{
    STORE(busy_until_ms, until_ms);
}

void backend_lost(struct backend *backend)
{
    atomic_fetch_add_explicit(&backend->shared.lives, 1, memory_order_relaxed);
}

void backend_set_probe(struct backend *backend, enum backend_probe probe, uint64_t now_ms)
{
    bool is_back = probe == BACKEND_PROBE_UP && LOAD(probe) == BACKEND_PROBE_DOWN;

    if (is_back) {
        backend_lost(backend);
        STORE(stalled, false);
    }
    STORE(probe, probe);
    bool disproves = is_back || (probe == BACKEND_PROBE_UP && LOAD(unreached));
    if (disproves && LOAD(ejected_until_ms) > now_ms) {
        STORE(ejected_until_ms, now_ms);
    }
}

// One look may come before workers have read what had arrived, as after a pause of the process.
void backend_set_stalled(struct backend *backend, uint64_t stall_ms)
{
    if (stall_ms > 0 && backend->is_doubted) {
        STORE(stalled, true);
    }
    backend->is_doubted = stall_ms > 0;
}

void backend_moved(struct backend *backend)
{
    if (LOAD(stalled)) {
        STORE(stalled, false);
    }
}

const char *backend_state(const struct backend *backend, uint64_t now_ms)
{
    uint64_t ejected_until = LOAD(ejected_until_ms);

    if (LOAD(probe) == BACKEND_PROBE_DOWN) {
        return "down";
    }
    if (ejected_until == 0) {
        return LOAD(stalled) ? "stalled" : "up";
    }
    return now_ms < ejected_until ? "ejected" : "half_open";
}

const char *backend_events_text(const struct backend *backend)
{
    static const char *const texts[] = {[BACKEND_EVENTS_NONE] = "none",
                                        [BACKEND_EVENTS_LEARNING] = "learning",
                                        [BACKEND_EVENTS_LIVE] = "live"};
    return texts[atomic_load_explicit(&backend->shared.events, memory_order_relaxed)];
}
