// SPDX-License-Identifier: Apache-2.0

#include "feed/kv_poller.h"

#include "config/config.h"
#include "feed/watcher.h"
#include "fleet/backend.h"
#include "json/json.h"
#include "sys/log.h"
#include "sys/log_state.h"
#include "sys/loop.h"

#include <stdlib.h>

enum {
    poll_interval_ms = 250,
    // TensorRT-LLM waits up to two seconds for events before it responds with an empty list.
    poll_timeout_ms = 10000,
    // It writes some 60 bytes for each token: a quarter of a million tokens.
    poll_response_size_max = 16 << 20,
};

enum poll_state { POLL_UNKNOWN, POLL_WORKS, POLL_FAILS, POLL_ABSENT };

struct kv_poller {
    struct kv_poller_options options;
    struct watcher *watcher;
    struct log_state *logged; // by slot; enum poll_state
};

static const char *kv_poller_path(void *owner, const struct backend *backend)
{
    (void)owner;
    (void)backend;
    return "/kv_cache_events";
}

// Pushes the events to every rank of the server, each of which reads its own.  Returns the worst
// status.
static enum status kv_poller_push(struct kv_poller *poller, const struct backend *asked,
                                  struct slice body)
{
    const struct kv_poller_options *options = &poller->options;
    enum status worst = STATUS_OK;
    const struct backend *rank;

    for (uint32_t slot = 0; (rank = watcher_next_rank(poller->watcher, asked, &slot)) != NULL;) {
        enum status status = options->push(options->owner, rank->id, body);
        worst = status == STATUS_OK ? worst : status;
    }
    return worst;
}

// Returns NULL if it went well, or else what failed.  The follower finds out whether a list is
// valid JSON.
static const char *kv_poller_take(struct kv_poller *poller, const struct backend *backend,
                                  struct slice body)
{
    struct json json = json_open(body);
    struct json_item item;

    if (!json_next(&json, &item) || item.value.kind != JSON_ARRAY) {
        return "the response is not a list";
    }
    json_enter(&json);
    if (!json_next(&json, &item) && json_close(&json) == STATUS_OK) {
        return NULL; // an empty list
    }
    switch (kv_poller_push(poller, backend, body)) {
    case STATUS_OK:
        return NULL;
    case STATUS_EXHAUSTED:
        return "the queue of unread events is full";
    default:
        return "events of this backend are not followed";
    }
}

static bool kv_poller_logs(struct kv_poller *poller, const struct backend *backend,
                           enum poll_state state)
{
    uint32_t skipped; // not logged
    return log_state_tells(&poller->logged[backend->slot], state, loop_now_ms(poller->options.loop),
                           &skipped);
}

static enum watcher_next kv_poller_heard(void *owner, struct backend *backend,
                                         const struct fetch_result *result)
{
    struct kv_poller *poller = owner;
    const char *why = result->why != NULL ? result->why : "the status is not 200";

    if (result->status == 404) {
        if (kv_poller_logs(poller, backend, POLL_ABSENT)) {
            log_info("backend %s: KV events: not offered: status 404", backend->url);
        }
        return WATCHER_ABSENT;
    }
    if (result->status == 200) {
        why = kv_poller_take(poller, backend, result->body);
    }
    if (why != NULL) {
        if (kv_poller_logs(poller, backend, POLL_FAILS)) {
            log_info("backend %s: KV events: polling failed: %s", backend->url, why);
        }
        return WATCHER_FAILED;
    }
    if (kv_poller_logs(poller, backend, POLL_WORKS)) {
        log_info("backend %s: KV events: polling works", backend->url);
    }
    return WATCHER_AGAIN;
}

struct kv_poller *kv_poller_create(const struct kv_poller_options *options)
{
    struct kv_poller *poller = calloc(1, sizeof(*poller));
    if (poller == NULL) {
        return NULL;
    }
    uint32_t slot_count = options->config->limits.backends;
    poller->options = *options;
    poller->watcher = watcher_create(&(struct watcher_options){
        .loop = options->loop,
        .slot_count = slot_count,
        .body = slice_str("{}"), // it takes no options
        .response_size_max = poll_response_size_max,
        .path = kv_poller_path,
        .heard = kv_poller_heard,
        .owner = poller,
    });
    poller->logged = calloc(slot_count, sizeof(*poller->logged));
    if (poller->watcher == NULL || poller->logged == NULL) {
        kv_poller_destroy(&poller);
        return NULL;
    }
    kv_poller_set_config(poller, options->config);
    return poller;
}

void kv_poller_destroy(struct kv_poller **poller_ptr)
{
    struct kv_poller *poller = *poller_ptr;
    *poller_ptr = NULL;

    if (poller != NULL) {
        watcher_destroy(&poller->watcher);
        free(poller->logged);
        free(poller);
    }
}

void kv_poller_set_config(struct kv_poller *poller, const struct config *config)
{
    watcher_set_schedule(poller->watcher,
                         &(struct watcher_schedule){.config = config,
                                                    .interval_ms = poll_interval_ms,
                                                    .timeout_ms = poll_timeout_ms},
                         false);
}

void kv_poller_watch(struct kv_poller *poller, struct backend *backend)
{
    if (backend_is_polled(backend)) {
        poller->logged[backend->slot] = (struct log_state){0};
        watcher_watch(poller->watcher, backend);
    }
}

void kv_poller_forget(struct kv_poller *poller, const struct backend *backend)
{
    if (backend_is_polled(backend)) {
        watcher_forget(poller->watcher, backend);
    }
}
