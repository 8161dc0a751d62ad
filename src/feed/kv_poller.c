// SPDX-License-Identifier: Apache-2.0

#include "feed/kv_poller.h"

#include "base/base.h"
#include "base/rng.h"
#include "config/config.h"
#include "feed/backend_peer.h"
#include "fleet/backend.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/log_state.h"
#include "sys/loop.h"

#include <stdlib.h>

enum {
    interval_ms = 250,
    rest_ms = 60000, // the longest that one without events, or without an answer, is left alone
    // TensorRT-LLM waits up to two seconds for events before it says that there are none.
    timeout_ms = 10000,
    // It writes some 60 bytes for each token: a quarter of a million tokens.
    answer_size_max = 16 << 20,
};

static const char path[] = "/kv_cache_events";
static const char question[] = "{}"; // it takes no options

// One backend under watch.
struct watch {
    struct kv_poller *poller;
    const struct backend *backend; // NULL: the slot is not watched
    struct timer timer;            // armed unless a question is under way, or it does not ask
    struct fetch *fetch;
    unsigned probe;   // what its probes said when we looked last
    uint32_t wait_ms; // longer than the interval after failures
    uint64_t due_ms;  // for the next question
    bool said_none;   // in the log, once
    struct log_state told;
};

struct kv_poller {
    struct kv_poller_options options;
    struct tls_context *tls; // made when first needed
    struct rng rng;
    struct watch *watches; // by slot
    uint32_t watch_count;
};

struct kv_poller *kv_poller_create(const struct kv_poller_options *options)
{
    struct kv_poller *poller = calloc(1, sizeof(*poller));
    if (poller == NULL) {
        return NULL;
    }
    poller->options = *options;
    poller->rng.state = clock_entropy();
    poller->watch_count = options->config->limits.backends;
    poller->watches = calloc(poller->watch_count, sizeof(*poller->watches));
    if (poller->watches == NULL) {
        kv_poller_destroy(&poller);
    }
    return poller;
}

static void stop(struct watch *watch)
{
    fetch_cancel(&watch->fetch);
    loop_disarm(watch->poller->options.loop, &watch->timer);
}

void kv_poller_destroy(struct kv_poller **poller_ptr)
{
    struct kv_poller *poller = *poller_ptr;
    *poller_ptr = NULL;

    if (poller == NULL) {
        return;
    }
    for (uint32_t i = 0; poller->watches != NULL && i < poller->watch_count; i++) {
        if (poller->watches[i].backend != NULL) {
            stop(&poller->watches[i]);
        }
    }
    tls_context_destroy(&poller->tls);
    free(poller->watches);
    free(poller);
}

// Looks again once a second even if the next question is later: its probes may have news.
static void arm(struct watch *watch)
{
    struct loop *loop = watch->poller->options.loop;
    uint64_t now_ms = loop_now_ms(loop);
    uint64_t delay_ms = watch->due_ms > now_ms ? watch->due_ms - now_ms : 0;
    loop_arm(loop, &watch->timer, delay_ms < 1000 ? delay_ms : 1000);
}

static void plan(struct watch *watch)
{
    uint32_t wait_ms = watch->wait_ms > interval_ms ? watch->wait_ms : interval_ms;
    watch->due_ms = loop_now_ms(watch->poller->options.loop) + wait_ms;
    arm(watch);
}

enum said { SAID_NOTHING, SAID_SOME, SAID_FAILED };

static bool is_news(struct watch *watch, enum said said)
{
    uint32_t skipped; // of no interest here
    return log_state_tells(&watch->told, said, loop_now_ms(watch->poller->options.loop), &skipped);
}

static void note_failure(struct watch *watch, const char *why)
{
    if (is_news(watch, SAID_FAILED)) {
        log_info("backend %s: its KV events cannot be had: %s", watch->backend->url, why);
    }
    watch->wait_ms = watch->wait_ms == 0 ? interval_ms : watch->wait_ms * 2;
    watch->wait_ms = watch->wait_ms < rest_ms ? watch->wait_ms : rest_ms;
}

static void note_none(struct watch *watch)
{
    if (!watch->said_none) {
        log_info("backend %s has no KV events to ask for", watch->backend->url);
    }
    watch->said_none = true;
    watch->wait_ms = rest_ms;
}

static void note_success(struct watch *watch)
{
    if (is_news(watch, SAID_SOME)) {
        log_info("backend %s says its KV events when it is asked", watch->backend->url);
    }
    watch->wait_ms = 0;
}

static struct slice skip_space(struct slice text)
{
    size_t at = 0;
    while (at < text.size && (text.bytes[at] == ' ' || text.bytes[at] == '\t' ||
                              text.bytes[at] == '\r' || text.bytes[at] == '\n')) {
        at++;
    }
    return slice_of(text.bytes + at, text.size - at);
}

enum answer { ANSWER_EVENTS, ANSWER_NOTHING, ANSWER_OTHER };

// Whether it is a list, and of anything; whether it is JSON is found out by who reads it.
static enum answer read_answer(struct slice body)
{
    struct slice text = skip_space(body);
    if (text.size == 0 || text.bytes[0] != '[') {
        return ANSWER_OTHER;
    }
    text = skip_space(slice_of(text.bytes + 1, text.size - 1));
    return text.size > 0 && text.bytes[0] == ']' ? ANSWER_NOTHING : ANSWER_EVENTS;
}

// To every rank of the server, each of which reads its own.  The worst of what they say.
static enum status hand_on(const struct watch *asked, struct slice body)
{
    struct kv_poller *poller = asked->poller;
    enum status worst = STATUS_OK;

    for (uint32_t i = 0; i < poller->watch_count; i++) {
        const struct backend *backend = poller->watches[i].backend;
        if (backend == NULL || backend->server != asked->backend->server) {
            continue;
        }
        enum status status = poller->options.push(poller->options.owner, backend->id, body);
        worst = status == STATUS_OK ? worst : status;
    }
    return worst;
}

static void note_answer(struct watch *watch, struct slice body)
{
    enum answer answer = read_answer(body);
    if (answer == ANSWER_OTHER) {
        note_failure(watch, "the answer is no list");
        return;
    }
    switch (answer == ANSWER_EVENTS ? hand_on(watch, body) : STATUS_OK) {
    case STATUS_OK:
        note_success(watch);
        break;
    case STATUS_EXHAUSTED:
        note_failure(watch, "too many wait to be read");
        break;
    default:
        note_failure(watch, "nobody follows them");
        break;
    }
}

static void done(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;

    watch->fetch = NULL;
    if (result->status == 200) {
        note_answer(watch, result->body);
    } else if (result->status == 404) {
        note_none(watch);
    } else {
        note_failure(watch, result->why != NULL ? result->why : "the answer is not 200");
    }
    plan(watch);
}

// False when memory or descriptors are short.
static bool ask(struct watch *watch)
{
    struct kv_poller *poller = watch->poller;

    struct fetch_peer peer = backend_peer(watch->backend);
    watch->fetch = fetch_start(&(struct fetch_options){
        .loop = poller->options.loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, poller->options.config, &poller->tls),
        .path = path,
        .body = slice_str(question),
        .timeout_ms = timeout_ms,
        .answer_size_max = answer_size_max,
        .done = done,
        .owner = watch,
    });
    return watch->fetch != NULL;
}

static void look(struct timer *timer)
{
    struct watch *watch = CONTAINER_OF(timer, struct watch, timer);
    unsigned probe = atomic_load_explicit(&watch->backend->shared.probe, memory_order_relaxed);
    bool is_back = watch->probe == BACKEND_PROBE_DOWN && probe == BACKEND_PROBE_UP;

    watch->probe = probe;
    if (loop_now_ms(watch->poller->options.loop) < watch->due_ms && !is_back) {
        arm(watch);
        return;
    }
    watch->wait_ms = is_back ? 0 : watch->wait_ms;
    if (!ask(watch)) {
        note_failure(watch, "memory or descriptors are short");
        plan(watch);
    }
}

void kv_poller_set_config(struct kv_poller *poller, const struct config *config)
{
    poller->options.config = config;
    tls_context_destroy(&poller->tls); // trust may have changed
}

void kv_poller_watch(struct kv_poller *poller, const struct backend *backend)
{
    ASSERT(backend->slot < poller->watch_count);
    struct watch *watch = &poller->watches[backend->slot];

    ASSERT(watch->backend == NULL);
    if (!backend_is_polled(backend)) {
        return;
    }
    *watch = (struct watch){.poller = poller, .backend = backend, .timer.fire = look};
    if (backend->server == backend->id) {
        // Somewhere in the interval to come, so that backends which are added together are asked apart.
        watch->due_ms = loop_now_ms(poller->options.loop) + rng_below(&poller->rng, interval_ms);
        arm(watch);
    }
}

void kv_poller_forget(struct kv_poller *poller, const struct backend *backend)
{
    struct watch *watch = &poller->watches[backend->slot];
    if (!backend_is_polled(backend)) {
        return;
    }
    ASSERT(watch->backend == backend);
    stop(watch);
    *watch = (struct watch){0};
}
