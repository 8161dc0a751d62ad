// SPDX-License-Identifier: Apache-2.0

#include "feed/prober.h"

#include "base/base.h"
#include "base/rng.h"
#include "config/config.h"
#include "feed/backend_peer.h"
#include "feed/models_list.h"
#include "fleet/fleet.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/log_state.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum { models_timeout_ms = 10000 };

// One backend under watch.
struct watch {
    struct prober *prober;
    struct backend *backend; // NULL: the slot is not watched
    struct timer health_timer;
    struct timer models_timer;
    struct fetch *health;
    struct fetch *models;
    uint32_t successes; // in a row
    uint32_t failures;  // in a row
    bool asked_health;  // at least once, with an outcome
    bool asked_models;
    bool models_failed; // said so in the log
    struct log_state told;
};

struct prober {
    struct loop *loop;
    struct fleet *fleet;
    const struct config *config;
    void (*changed)(void *owner);
    void *owner;
    struct tls_context *tls; // made when first needed
    struct rng rng;
    struct watch *watches; // by slot
    uint32_t watch_count;
};

struct prober *prober_create(const struct prober_options *options)
{
    struct prober *prober = calloc(1, sizeof(*prober));
    if (prober == NULL) {
        return NULL;
    }
    prober->loop = options->loop;
    prober->fleet = options->fleet;
    prober->config = options->config;
    prober->changed = options->changed;
    prober->owner = options->owner;
    prober->rng.state = clock_entropy();
    prober->watch_count = options->config->limits.backends;
    prober->watches = calloc(prober->watch_count, sizeof(*prober->watches));
    if (prober->watches == NULL) {
        prober_destroy(&prober);
    }
    return prober;
}

static void stop(struct watch *watch)
{
    fetch_cancel(&watch->health);
    fetch_cancel(&watch->models);
    loop_disarm(watch->prober->loop, &watch->health_timer);
    loop_disarm(watch->prober->loop, &watch->models_timer);
    *watch = (struct watch){0};
}

void prober_destroy(struct prober **prober_ptr)
{
    struct prober *prober = *prober_ptr;
    *prober_ptr = NULL;

    if (prober == NULL) {
        return;
    }
    for (uint32_t i = 0; prober->watches != NULL && i < prober->watch_count; i++) {
        if (prober->watches[i].backend != NULL) {
            stop(&prober->watches[i]);
        }
    }
    tls_context_destroy(&prober->tls);
    free(prober->watches);
    free(prober);
}

// A twentieth more or less, so that a thousand backends are not asked in the same millisecond.  Never
// later than it was to be: one reload after another must not put the question off for ever.
static void arm(struct watch *watch, struct timer *timer, uint32_t interval_ms)
{
    struct prober *prober = watch->prober;
    uint32_t jitter_ms = rng_below(&prober->rng, interval_ms / 10 + 1);
    uint64_t delay_ms = interval_ms - interval_ms / 20 + jitter_ms;
    if (!timer_is_armed(timer) || timer->due_ms > loop_now_ms(prober->loop) + delay_ms) {
        loop_arm(prober->loop, timer, delay_ms);
    }
}

static void arm_health(struct watch *watch)
{
    const struct config *config = watch->prober->config;
    if (config->health.interval != 0) {
        arm(watch, &watch->health_timer, config->health.interval);
    } else {
        loop_disarm(watch->prober->loop, &watch->health_timer);
    }
}

static void arm_models(struct watch *watch)
{
    const struct config *config = watch->prober->config;
    if (config->models.learn) {
        arm(watch, &watch->models_timer, config->models.interval);
    } else {
        loop_disarm(watch->prober->loop, &watch->models_timer);
    }
}

static void ask_models(struct timer *timer);

// Other ranks share the fate of the one that is asked.
static bool is_asked(const struct watch *watch)
{
    return watch->backend != NULL && watch->backend->server == watch->backend->id;
}

// The next rank of the server of `asked`, from `*slot` on; NULL after the last.  `asked` is one of them.
static struct watch *next_rank(const struct watch *asked, uint32_t *slot)
{
    struct prober *prober = asked->prober;

    if (asked->backend->rank_count == 1) { // which spares most fleets the walk
        bool is_first = *slot == 0;
        *slot = prober->watch_count;
        return is_first ? &prober->watches[asked->backend->slot] : NULL;
    }
    while (*slot < prober->watch_count) {
        struct watch *watch = &prober->watches[(*slot)++];
        if (watch->backend != NULL && watch->backend->server == asked->backend->server) {
            return watch;
        }
    }
    return NULL;
}

// One that comes and goes does not flood the log.
static void tell_health(struct watch *watch, enum backend_probe probe, const char *why)
{
    uint32_t skipped = 0;
    char note[64] = "";

    if (!log_state_tells(&watch->told, 1 + (uint32_t)probe, loop_now_ms(watch->prober->loop),
                         &skipped)) {
        return;
    }
    if (skipped > 0) {
        snprintf(note, sizeof(note), " (after %u changes that are not told here)", skipped);
    }
    if (probe == BACKEND_PROBE_UP) {
        log_info("backend %s is up%s", watch->backend->url, note);
    } else if (probe == BACKEND_PROBE_DOWN) {
        log_warn("backend %s is down: %s%s", watch->backend->url, why, note);
    }
}

// True when that is news.
static bool set_health_of_one(struct watch *watch, enum backend_probe probe, const char *why)
{
    struct backend *backend = watch->backend;
    unsigned before = atomic_load_explicit(&backend->shared.probe, memory_order_relaxed);

    // Said again even if nothing changed: a sign of life shortens an ejection.
    backend_set_probe(backend, probe, loop_now_ms(watch->prober->loop));
    tell_health(watch, probe, why);
    if (before == probe) {
        return false;
    }
    if (probe == BACKEND_PROBE_UP && before == BACKEND_PROBE_DOWN && is_asked(watch)) {
        fetch_cancel(&watch->models); // it may have come back with others
        ask_models(&watch->models_timer);
    }
    return true;
}

static void set_health(struct watch *asked, enum backend_probe probe, const char *why)
{
    struct prober *prober = asked->prober;
    struct watch *watch;
    bool is_news = false;

    for (uint32_t slot = 0; (watch = next_rank(asked, &slot)) != NULL;) {
        is_news |= set_health_of_one(watch, probe, why);
    }
    if (is_news) {
        fleet_touch(prober->fleet);
        prober->changed(prober->owner); // and whoever hears it may forget them
    }
}

static void health_done(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;
    const struct config *config = watch->prober->config;
    bool well = result->status != 0 && result->status < 500;
    bool is_first = !watch->asked_health;
    const char *why = result->status == 0 ? result->why : "its health check says 5xx";

    watch->health = NULL;
    watch->asked_health = true;
    watch->successes = well ? watch->successes + 1 : 0;
    watch->failures = well ? 0 : watch->failures + 1;
    if (well && (is_first || watch->successes >= config->health.rise)) {
        set_health(watch, BACKEND_PROBE_UP, NULL);
    } else if (!well && (is_first || watch->failures >= config->health.fall)) {
        set_health(watch, BACKEND_PROBE_DOWN, why);
    }
}

static void models_done(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;
    struct prober *prober = watch->prober;
    struct models_list list;

    watch->models = NULL;
    watch->asked_models = true;
    if (result->status != 200 || models_list_read(result->body, &list) != STATUS_OK) {
        if (result->status != 0 && !watch->models_failed) {
            log_info_seldom(
                watch->backend->id,
                "backend %s does not list its models (status %u): it gets requests for any",
                watch->backend->url, result->status);
            watch->models_failed = true;
        }
        return;
    }
    watch->models_failed = false;
    struct watch *rank;
    for (uint32_t slot = 0; (rank = next_rank(watch, &slot)) != NULL;) {
        fleet_set_models(prober->fleet, rank->backend, list.models, list.count);
    }
    models_list_free(&list);
    prober->changed(prober->owner);
}

static void ask_models(struct timer *timer)
{
    struct watch *watch = CONTAINER_OF(timer, struct watch, models_timer);
    struct prober *prober = watch->prober;

    arm_models(watch);
    if (!prober->config->models.learn || watch->models != NULL) {
        return;
    }
    struct fetch_peer peer = backend_peer(watch->backend);
    watch->models = fetch_start(&(struct fetch_options){
        .loop = prober->loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, prober->config, &prober->tls),
        .path = "/v1/models",
        .timeout_ms = models_timeout_ms,
        .done = models_done,
        .owner = watch,
    });
}

static void ask_health(struct timer *timer)
{
    struct watch *watch = CONTAINER_OF(timer, struct watch, health_timer);
    struct prober *prober = watch->prober;
    const struct config *config = prober->config;

    arm_health(watch);
    if (config->health.interval == 0 || watch->health != NULL) {
        return;
    }
    struct fetch_peer peer = backend_peer(watch->backend);
    watch->health = fetch_start(&(struct fetch_options){
        .loop = prober->loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, prober->config, &prober->tls),
        .path = config->health.path,
        .timeout_ms = config->health.timeout,
        .done = health_done,
        .owner = watch,
    });
}

// Nobody judges it any more, so it counts as one that has not been asked.
static void stop_judging(struct watch *watch)
{
    fetch_cancel(&watch->health);
    watch->asked_health = false;
    watch->successes = 0;
    watch->failures = 0;
    set_health(watch, BACKEND_PROBE_UNKNOWN, NULL);
}

void prober_set_config(struct prober *prober, const struct config *config)
{
    prober->config = config;
    tls_context_destroy(&prober->tls); // trust may have changed
    for (uint32_t i = 0; i < prober->watch_count; i++) {
        struct watch *watch = &prober->watches[i];
        if (!is_asked(watch)) {
            continue;
        }
        arm_health(watch);
        arm_models(watch);
        if (config->health.interval == 0) {
            stop_judging(watch);
        }
    }
}

// NULL: there is none.
static struct watch *find_asked(struct prober *prober, const struct backend *rank)
{
    for (uint32_t i = 0; i < prober->watch_count; i++) {
        const struct backend *backend = prober->watches[i].backend;
        if (backend != NULL && backend->id == rank->server) {
            return &prober->watches[i];
        }
    }
    return NULL;
}

// A rank among others whose verdict may be known already.
static void join_asked(struct watch *watch)
{
    struct watch *asked = find_asked(watch->prober, watch->backend);
    ASSERT(asked != NULL);
    unsigned probe = atomic_load_explicit(&asked->backend->shared.probe, memory_order_relaxed);

    backend_set_probe(watch->backend, (enum backend_probe)probe, loop_now_ms(watch->prober->loop));
    ask_models(&asked->models_timer);
}

void prober_watch(struct prober *prober, struct backend *backend)
{
    ASSERT(backend->slot < prober->watch_count);
    struct watch *watch = &prober->watches[backend->slot];

    ASSERT(watch->backend == NULL);
    *watch = (struct watch){.prober = prober,
                            .backend = backend,
                            .health_timer.fire = ask_health,
                            .models_timer.fire = ask_models};
    if (!is_asked(watch)) {
        join_asked(watch);
        return;
    }
    ask_health(&watch->health_timer);
    ask_models(&watch->models_timer);
}

void prober_forget(struct prober *prober, const struct backend *backend)
{
    struct watch *watch = &prober->watches[backend->slot];
    ASSERT(watch->backend == backend);
    stop(watch);
}

bool prober_has_asked_all(const struct prober *prober)
{
    for (uint32_t i = 0; i < prober->watch_count; i++) {
        const struct watch *watch = &prober->watches[i];
        bool health_pending = prober->config->health.interval != 0 && !watch->asked_health;
        bool models_pending = prober->config->models.learn && !watch->asked_models;
        if (is_asked(watch) && (health_pending || models_pending)) {
            return false;
        }
    }
    return true;
}
