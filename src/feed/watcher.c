// SPDX-License-Identifier: Apache-2.0

#include "feed/watcher.h"

#include "base/base.h"
#include "base/rng.h"
#include "feed/backend_peer.h"
#include "fleet/backend.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdlib.h>

// The longest pause between two questions to a backend that fails or has nothing.
enum { watcher_pause_max_ms = 60000 };

struct watch {
    struct watcher *watcher;
    struct backend *backend; // NULL: the slot is not watched
    struct timer timer;      // armed unless a question is in flight, or none is to be asked
    struct fetch *fetch;
    unsigned probe;    // the prober's verdict when the timer fired last
    uint32_t pause_ms; // longer than the interval after failures; 0: the last question went well
    uint64_t asked_ms; // when the last question was asked
    uint64_t due_ms;   // when the next one is
    bool has_heard;
};

struct watcher {
    struct watcher_options options;
    struct watcher_schedule schedule;
    struct tls_context *tls; // made when first needed
    struct rng rng;
    struct watch watches[]; // by slot
};

struct watcher *watcher_create(const struct watcher_options *options)
{
    struct watcher *watcher =
        calloc(1, sizeof(*watcher) + options->slot_count * sizeof(struct watch));
    if (watcher != NULL) {
        watcher->options = *options;
        watcher->rng.state = clock_entropy();
    }
    return watcher;
}

static void watch_stop(struct watch *watch)
{
    fetch_cancel(&watch->fetch);
    loop_disarm(watch->watcher->options.loop, &watch->timer);
    watch->has_heard = false;
}

void watcher_destroy(struct watcher **watcher_ptr)
{
    struct watcher *watcher = *watcher_ptr;
    *watcher_ptr = NULL;

    if (watcher == NULL) {
        return;
    }
    for (uint32_t i = 0; i < watcher->options.slot_count; i++) {
        if (watcher->watches[i].backend != NULL) {
            watch_stop(&watcher->watches[i]);
        }
    }
    tls_context_destroy(&watcher->tls);
    free(watcher);
}

// Also fires once an interval before the question is due: the prober may have found the backend up.
static void watch_arm(struct watch *watch)
{
    struct watcher *watcher = watch->watcher;
    uint64_t now_ms = loop_now_ms(watcher->options.loop);
    uint64_t delay_ms = watch->due_ms > now_ms ? watch->due_ms - now_ms : 0;
    uint32_t interval_ms = watcher->schedule.interval_ms;
    ASSERT(watch->fetch == NULL && interval_ms > 0);
    loop_arm(watcher->options.loop, &watch->timer, delay_ms < interval_ms ? delay_ms : interval_ms);
}

static void watch_plan_next(struct watch *watch)
{
    struct watcher *watcher = watch->watcher;
    uint32_t interval_ms = watcher->schedule.interval_ms;
    uint32_t pause_ms = watch->pause_ms > interval_ms ? watch->pause_ms : interval_ms;
    uint64_t soonest_ms = loop_now_ms(watcher->options.loop) + interval_ms / 2;

    watch->due_ms = watch->asked_ms + pause_ms - rng_below(&watcher->rng, pause_ms / 20 + 1);
    watch->due_ms = watch->due_ms > soonest_ms ? watch->due_ms : soonest_ms;
    watch_arm(watch);
}

static void watch_plan_within_interval(struct watch *watch)
{
    struct watcher *watcher = watch->watcher;
    uint64_t due_ms = loop_now_ms(watcher->options.loop) +
                      rng_below(&watcher->rng, watcher->schedule.interval_ms);
    // Not later than it was due: reload after reload must not put the question off.
    if (!timer_is_armed(&watch->timer) || due_ms < watch->due_ms) {
        watch->due_ms = due_ms;
    }
    watch->pause_ms = 0;
    watch_arm(watch);
}

static void watch_ask(struct watch *watch);

static void watch_heard(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;
    const struct watcher_options *options = &watch->watcher->options;
    struct backend *backend = watch->backend;
    uint32_t pause_ms = watch->pause_ms * 2;

    watch->fetch = NULL;
    watch->has_heard = true;
    enum watcher_next next = options->heard(options->owner, backend, result);
    if (watch->backend != backend || watch->fetch != NULL) {
        return; // `heard` forgot it, or asked again
    }
    switch (next) {
    case WATCHER_NOW:
        watch_ask(watch);
        return;
    case WATCHER_AGAIN:
        watch->pause_ms = 0;
        break;
    case WATCHER_FAILED:
        watch->pause_ms = pause_ms > 0 ? pause_ms : watch->watcher->schedule.interval_ms;
        break;
    case WATCHER_ABSENT:
        watch->pause_ms = watcher_pause_max_ms;
        break;
    }
    if (watch->pause_ms > watcher_pause_max_ms) {
        watch->pause_ms = watcher_pause_max_ms;
    }
    watch_plan_next(watch);
}

static void watch_ask(struct watch *watch)
{
    struct watcher *watcher = watch->watcher;
    const struct watcher_options *options = &watcher->options;
    struct fetch_peer peer = backend_peer(watch->backend);

    ASSERT(watch->fetch == NULL);
    loop_disarm(options->loop, &watch->timer);
    watch->asked_ms = loop_now_ms(options->loop);
    watch->fetch = fetch_start(&(struct fetch_options){
        .loop = options->loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, watcher->schedule.config, &watcher->tls),
        .path = options->path(options->owner, watch->backend),
        .body = options->body,
        .timeout_ms = watcher->schedule.timeout_ms,
        .response_size_max = options->response_size_max,
        .takes_part = options->takes_part,
        .done = watch_heard,
        .owner = watch,
    });
    if (watch->fetch == NULL) {
        log_warn_seldom(0, "backend %s: not asked: out of memory or file descriptors",
                        watch->backend->url);
        watch_plan_next(watch);
    }
}

static void watch_fire(struct timer *timer)
{
    struct watch *watch = CONTAINER_OF(timer, struct watch, timer);
    unsigned probe = atomic_load_explicit(&watch->backend->shared.probe, memory_order_relaxed);
    bool is_back = watch->probe == BACKEND_PROBE_DOWN && probe == BACKEND_PROBE_UP;

    watch->probe = probe;
    if (is_back) {
        watch->pause_ms = 0;
    } else if (loop_now_ms(watch->watcher->options.loop) < watch->due_ms) {
        watch_arm(watch);
        return;
    }
    watch_ask(watch);
}

static bool watch_is_asked(const struct watch *watch)
{
    const struct backend *backend = watch->backend;
    return backend != NULL &&
           (watch->watcher->options.asks_each_rank || backend->server == backend->id);
}

static void watch_follow_schedule(struct watch *watch, bool is_new_interval, bool is_anew)
{
    if (watch->watcher->schedule.interval_ms == 0) {
        watch_stop(watch);
        return;
    }
    if (is_anew) {
        fetch_cancel(&watch->fetch);
    }
    bool is_idle = !timer_is_armed(&watch->timer);
    if (watch->fetch == NULL && (is_idle || is_new_interval || watch->pause_ms > 0)) {
        watch_plan_within_interval(watch);
    }
}

void watcher_set_schedule(struct watcher *watcher, const struct watcher_schedule *schedule,
                          bool is_anew)
{
    bool is_new_interval = watcher->schedule.interval_ms != schedule->interval_ms;

    watcher->schedule = *schedule;
    tls_context_destroy(&watcher->tls); // backend_tls may have changed
    for (uint32_t i = 0; i < watcher->options.slot_count; i++) {
        struct watch *watch = &watcher->watches[i];
        if (watch_is_asked(watch)) {
            watch_follow_schedule(watch, is_new_interval, is_anew);
        }
    }
}

static struct watch *watch_of(struct watcher *watcher, const struct backend *backend)
{
    ASSERT(backend->slot < watcher->options.slot_count);
    struct watch *watch = &watcher->watches[backend->slot];
    ASSERT(watch->backend == backend);
    return watch;
}

void watcher_watch(struct watcher *watcher, struct backend *backend)
{
    ASSERT(backend->slot < watcher->options.slot_count);
    struct watch *watch = &watcher->watches[backend->slot];

    ASSERT(watch->backend == NULL);
    *watch = (struct watch){.watcher = watcher, .backend = backend, .timer.fire = watch_fire};
    if (watcher->schedule.interval_ms == 0 || !watch_is_asked(watch)) {
        return;
    }
    if (watcher->options.asks_at_once) {
        watch_ask(watch);
    } else {
        watch_plan_within_interval(watch);
    }
}

void watcher_forget(struct watcher *watcher, const struct backend *backend)
{
    struct watch *watch = watch_of(watcher, backend);
    watch_stop(watch);
    *watch = (struct watch){0};
}

void watcher_ask(struct watcher *watcher, const struct backend *backend)
{
    struct watch *watch = watch_of(watcher, backend);
    if (watcher->schedule.interval_ms > 0 && watch->fetch == NULL) {
        watch_ask(watch);
    }
}

void watcher_ask_anew(struct watcher *watcher, const struct backend *backend)
{
    fetch_cancel(&watch_of(watcher, backend)->fetch);
    watcher_ask(watcher, backend);
}

bool watcher_has_heard_all(const struct watcher *watcher)
{
    for (uint32_t i = 0; watcher->schedule.interval_ms > 0 && i < watcher->options.slot_count;
         i++) {
        const struct watch *watch = &watcher->watches[i];
        if (watch_is_asked(watch) && !watch->has_heard) {
            return false;
        }
    }
    return true;
}

struct backend *watcher_next_rank(const struct watcher *watcher, const struct backend *backend,
                                  uint32_t *slot)
{
    uint32_t count = watcher->options.slot_count;
    if (backend->rank_count == 1) { // spares most fleets the walk
        *slot = *slot == 0 ? backend->slot : count;
        count = *slot < count ? *slot + 1 : count;
    }
    while (*slot < count) {
        struct backend *other = watcher->watches[(*slot)++].backend;
        if (other != NULL && other->server == backend->server) {
            return other;
        }
    }
    return NULL;
}
