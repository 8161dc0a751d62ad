// SPDX-License-Identifier: Apache-2.0

#include "feed/prober.h"

#include "base/base.h"
#include "config/config.h"
#include "feed/models_list.h"
#include "feed/watcher.h"
#include "fleet/fleet.h"
#include "sys/log.h"
#include "sys/log_state.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum { models_timeout_ms = 10000 };

// The record of one backend's responses.
struct probed {
    uint32_t successes; // in a row
    uint32_t failures;  // in a row; both 0: the first response decides
    bool models_failed; // logged
    bool models_empty;  // logged
    struct log_state logged;
};

struct prober {
    struct prober_options options;
    struct watcher *health;
    struct watcher *models;
    struct probed *probed; // by slot
};

static struct probed *probed_of(struct prober *prober, const struct backend *backend)
{
    return &prober->probed[backend->slot];
}

// A backend that flaps does not flood the log.
static void prober_log(struct prober *prober, const struct backend *backend,
                       enum backend_probe probe, const char *why)
{
    uint32_t skipped = 0;
    char note[64] = "";

    if (!log_state_tells(&probed_of(prober, backend)->logged, 1 + (uint32_t)probe,
                         loop_now_ms(prober->options.loop), &skipped)) {
        return;
    }
    if (skipped > 0) {
        snprintf(note, sizeof(note), " (after %u changes that were not logged)", skipped);
    }
    if (probe == BACKEND_PROBE_UP) {
        log_info("backend %s: up%s", backend->url, note);
    } else if (probe == BACKEND_PROBE_DOWN) {
        log_warn("backend %s: down: %s%s", backend->url, why, note);
    }
}

// Sets the probe of all ranks of the server.
static void prober_set_probe(struct prober *prober, const struct backend *asked,
                             enum backend_probe probe, const char *why)
{
    struct backend *rank;
    bool has_changed = false;

    for (uint32_t slot = 0; (rank = watcher_next_rank(prober->health, asked, &slot)) != NULL;) {
        unsigned before = atomic_load_explicit(&rank->shared.probe, memory_order_relaxed);
        // Even if it is the same: a success may end an ejection.
        backend_set_probe(rank, probe, loop_now_ms(prober->options.loop));
        prober_log(prober, rank, probe, why);
        has_changed |= before != probe;
        if (rank == asked && probe == BACKEND_PROBE_UP && before == BACKEND_PROBE_DOWN) {
            watcher_ask_anew(prober->models, asked); // it may have come back with others
        }
    }
    if (has_changed) {
        fleet_touch(prober->options.fleet);
        prober->options.changed(prober->options.owner); // may forget them
    }
}

static const char *health_path(void *owner, const struct backend *backend)
{
    const struct prober *prober = owner;
    (void)backend;
    return prober->options.config->health.path;
}

static enum watcher_next health_heard(void *owner, struct backend *backend,
                                      const struct fetch_result *result)
{
    struct prober *prober = owner;
    const struct config *config = prober->options.config;
    struct probed *probed = probed_of(prober, backend);
    bool is_healthy = result->status != 0 && result->status < 500;
    bool is_first = probed->successes == 0 && probed->failures == 0;

    probed->successes = is_healthy ? probed->successes + 1 : 0;
    probed->failures = is_healthy ? 0 : probed->failures + 1;
    if (is_healthy && (is_first || probed->successes >= config->health.rise)) {
        prober_set_probe(prober, backend, BACKEND_PROBE_UP, NULL);
    } else if (!is_healthy && (is_first || probed->failures >= config->health.fall)) {
        prober_set_probe(prober, backend, BACKEND_PROBE_DOWN,
                         result->status == 0 ? result->why : "health check: status 5xx");
    }
    return WATCHER_AGAIN;
}

static const char *models_path(void *owner, const struct backend *backend)
{
    (void)owner;
    (void)backend;
    return "/v1/models";
}

// An engine may serve a model that it does not list: `transformers serve` with a folder does.
static void prober_log_empty_list(struct prober *prober, const struct backend *backend)
{
    struct probed *probed = probed_of(prober, backend);
    bool is_unknown = fleet_model_name(prober->options.fleet, backend, 0) == NULL;

    if (is_unknown && !probed->models_empty) {
        log_info_seldom(backend->id, "backend %s: list of models: empty; it gets requests for any",
                        backend->url);
    }
    probed->models_empty = is_unknown;
}

static enum watcher_next models_heard(void *owner, struct backend *backend,
                                      const struct fetch_result *result)
{
    struct prober *prober = owner;
    struct probed *probed = probed_of(prober, backend);
    struct models_list list;
    struct backend *rank;

    if (result->status != 200 || models_list_read(result->body, &list) != STATUS_OK) {
        if (result->status != 0 && !probed->models_failed) {
            log_info_seldom(backend->id,
                            "backend %s: no list of models: status %u; it gets requests for any",
                            backend->url, result->status);
            probed->models_failed = true;
        }
        return WATCHER_AGAIN;
    }
    probed->models_failed = false;
    for (uint32_t slot = 0; (rank = watcher_next_rank(prober->models, backend, &slot)) != NULL;) {
        fleet_set_models(prober->options.fleet, rank, list.models, list.count);
    }
    models_list_free(&list);
    prober_log_empty_list(prober, backend);
    prober->options.changed(prober->options.owner); // may forget them
    return WATCHER_AGAIN;
}

static void prober_set_schedules(struct prober *prober)
{
    const struct config *config = prober->options.config;
    watcher_set_schedule(prober->health,
                         &(struct watcher_schedule){.config = config,
                                                    .interval_ms = config->health.interval,
                                                    .timeout_ms = config->health.timeout},
                         false);
    watcher_set_schedule(prober->models,
                         &(struct watcher_schedule){
                             .config = config,
                             .interval_ms = config->models.learn ? config->models.interval : 0,
                             .timeout_ms = models_timeout_ms},
                         false);
}

struct prober *prober_create(const struct prober_options *options)
{
    struct prober *prober = calloc(1, sizeof(*prober));
    if (prober == NULL) {
        return NULL;
    }
    struct watcher_options watching = {
        .loop = options->loop,
        .slot_count = options->config->limits.backends,
        .asks_at_once = true,
        .path = health_path,
        .heard = health_heard,
        .owner = prober,
    };
    prober->options = *options;
    prober->health = watcher_create(&watching);
    watching.path = models_path;
    watching.heard = models_heard;
    prober->models = watcher_create(&watching);
    prober->probed = calloc(watching.slot_count, sizeof(*prober->probed));
    if (prober->health == NULL || prober->models == NULL || prober->probed == NULL) {
        prober_destroy(&prober);
        return NULL;
    }
    prober_set_schedules(prober);
    return prober;
}

void prober_destroy(struct prober **prober_ptr)
{
    struct prober *prober = *prober_ptr;
    *prober_ptr = NULL;

    if (prober != NULL) {
        watcher_destroy(&prober->health);
        watcher_destroy(&prober->models);
        free(prober->probed);
        free(prober);
    }
}

void prober_set_config(struct prober *prober, const struct config *config)
{
    struct backend *backend;

    prober->options.config = config;
    prober_set_schedules(prober);
    if (config->health.interval != 0) {
        return;
    }
    for (uint32_t i = 0; (backend = fleet_at(prober->options.fleet, i)) != NULL; i++) {
        if (backend->server == backend->id) {
            probed_of(prober, backend)->successes = 0;
            probed_of(prober, backend)->failures = 0;
            prober_set_probe(prober, backend, BACKEND_PROBE_UNKNOWN, NULL);
        }
    }
}

void prober_watch(struct prober *prober, struct backend *backend)
{
    *probed_of(prober, backend) = (struct probed){0};
    watcher_watch(prober->health, backend);
    watcher_watch(prober->models, backend);
    if (backend->server == backend->id) {
        return;
    }
    // A rank that joins later gets the verdict of the first rank, and needs the list of models.
    const struct backend *first = fleet_find(prober->options.fleet, backend->server);
    ASSERT(first != NULL);
    unsigned probe = atomic_load_explicit(&first->shared.probe, memory_order_relaxed);
    backend_set_probe(backend, (enum backend_probe)probe, loop_now_ms(prober->options.loop));
    watcher_ask(prober->models, first);
}

void prober_forget(struct prober *prober, const struct backend *backend)
{
    watcher_forget(prober->health, backend);
    watcher_forget(prober->models, backend);
}

bool prober_has_asked_all(const struct prober *prober)
{
    return watcher_has_heard_all(prober->health) && watcher_has_heard_all(prober->models);
}
