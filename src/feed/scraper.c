// SPDX-License-Identifier: Apache-2.0

#include "feed/scraper.h"

#include "base/base.h"
#include "base/rng.h"
#include "config/config.h"
#include "feed/backend_peer.h"
#include "feed/engine_metrics.h"
#include "fleet/backend.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdlib.h>

// The longest that one without metrics, or without an answer, is left alone.
enum { rest_ms = 60000 };

// Where TensorRT-LLM has as text what it lists as JSON at the path that others have text at.
static const char other_path[] = "/prometheus/metrics";

enum source {
    SOURCE_UNKNOWN,
    SOURCE_TRYING, // load.path is JSON, the other path has been asked
    SOURCE_JSON,   // load.path, and the other has nothing
    SOURCE_OTHER,
};

// One backend under watch.
struct watch {
    struct scraper *scraper;
    struct backend *backend; // NULL: the slot is not watched
    struct timer timer;      // armed unless a question is under way
    struct fetch *fetch;
    enum source source;
    unsigned probe;    // what its probes said when we looked last
    uint32_t wait_ms;  // longer than the interval after failures
    uint64_t asked_ms; // when
    uint64_t due_ms;   // for the next question
    bool said_some;    // in the log, once for each
    bool said_none;
};

struct scraper {
    struct loop *loop;
    const struct config *config;
    struct tls_context *tls; // made when first needed
    struct rng rng;
    struct watch *watches; // by slot
    uint32_t watch_count;
};

struct scraper *scraper_create(const struct scraper_options *options)
{
    struct scraper *scraper = calloc(1, sizeof(*scraper));
    if (scraper == NULL) {
        return NULL;
    }
    scraper->loop = options->loop;
    scraper->config = options->config;
    scraper->rng.state = clock_entropy();
    scraper->watch_count = options->config->limits.backends;
    scraper->watches = calloc(scraper->watch_count, sizeof(*scraper->watches));
    if (scraper->watches == NULL) {
        scraper_destroy(&scraper);
    }
    return scraper;
}

static void pause_watch(struct watch *watch)
{
    fetch_cancel(&watch->fetch);
    loop_disarm(watch->scraper->loop, &watch->timer);
}

void scraper_destroy(struct scraper **scraper_ptr)
{
    struct scraper *scraper = *scraper_ptr;
    *scraper_ptr = NULL;

    if (scraper == NULL) {
        return;
    }
    for (uint32_t i = 0; scraper->watches != NULL && i < scraper->watch_count; i++) {
        if (scraper->watches[i].backend != NULL) {
            pause_watch(&scraper->watches[i]);
        }
    }
    tls_context_destroy(&scraper->tls);
    free(scraper->watches);
    free(scraper);
}

// Looks again once an interval even if the next question is later: its probes may have news.
static void arm(struct watch *watch)
{
    struct scraper *scraper = watch->scraper;
    uint64_t now_ms = loop_now_ms(scraper->loop);
    uint64_t delay_ms = watch->due_ms > now_ms ? watch->due_ms - now_ms : 0;
    uint32_t interval_ms = scraper->config->load.interval;
    loop_arm(scraper->loop, &watch->timer, delay_ms < interval_ms ? delay_ms : interval_ms);
}

// Counted from the last question, a twentieth more or less, and never before half an interval has
// passed since the answer.
static void plan(struct watch *watch)
{
    struct scraper *scraper = watch->scraper;
    uint32_t interval_ms = scraper->config->load.interval;
    uint32_t wait_ms = watch->wait_ms > interval_ms ? watch->wait_ms : interval_ms;
    uint64_t soonest_ms = loop_now_ms(scraper->loop) + interval_ms / 2;

    wait_ms = wait_ms - wait_ms / 20 + rng_below(&scraper->rng, wait_ms / 10 + 1);
    watch->due_ms = watch->asked_ms + wait_ms;
    watch->due_ms = watch->due_ms > soonest_ms ? watch->due_ms : soonest_ms;
    arm(watch);
}

// Somewhere in the interval to come, so that backends which are added together are asked apart.
static void plan_first(struct watch *watch)
{
    struct scraper *scraper = watch->scraper;
    watch->due_ms =
        loop_now_ms(scraper->loop) + rng_below(&scraper->rng, scraper->config->load.interval);
    arm(watch);
}

// It may come back as another engine.
static void note_failure(struct watch *watch)
{
    uint32_t interval_ms = watch->scraper->config->load.interval;
    watch->wait_ms = watch->wait_ms == 0 ? interval_ms : watch->wait_ms * 2;
    watch->wait_ms = watch->wait_ms < rest_ms ? watch->wait_ms : rest_ms;
    watch->source = SOURCE_UNKNOWN;
}

static void note_none(struct watch *watch)
{
    if (!watch->said_none && !watch->said_some) {
        log_info("backend %s does not report its load", watch->backend->url);
        watch->said_none = true;
    }
    watch->wait_ms = rest_ms;
    watch->source = SOURCE_UNKNOWN;
}

static void note_report(struct watch *watch, const struct load_report *report)
{
    if (!watch->said_some) {
        log_info("backend %s reports its load", watch->backend->url);
        watch->said_some = true;
    }
    watch->wait_ms = 0;
    load_report(&watch->backend->load, report, loop_now_ms(watch->scraper->loop));
}

static bool says_something(const struct load_report *report)
{
    return report->running >= 0 || report->waiting >= 0 || report->kv_usage >= 0 ||
           report->cache_tokens >= 0 || report->block_tokens >= 0;
}

// What is left of a page without its last line, which may have been cut within a number.
static struct slice whole_lines(struct slice page)
{
    const uint8_t *newline = page.size == 0 ? NULL : memrchr(page.bytes, '\n', page.size);
    return slice_of(page.bytes, newline == NULL ? 0 : (size_t)(newline + 1 - page.bytes));
}

// The bracket that a JSON document begins with, or 0.
static uint8_t json_bracket(struct slice page)
{
    size_t at = 0;
    while (at < page.size && strchr(" \t\r\n", page.bytes[at]) != NULL && page.bytes[at] != '\0') {
        at++;
    }
    uint8_t first = at < page.size ? page.bytes[at] : 0;
    return first == '[' || first == '{' ? first : 0;
}

// What the page says of this backend: of a server with several ranks it says something of each.
static void read_page(const struct watch *watch, struct slice page, struct load_report *out)
{
    const struct backend *backend = watch->backend;
    engine_metrics_read(page, backend->rank_count > 1 ? backend->rank : engine_metrics_all_ranks,
                        out);
}

static bool ask(struct watch *watch, const char *path);

static void other_done(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;
    struct load_report report;

    watch->fetch = NULL;
    read_page(watch, result->is_part ? whole_lines(result->body) : result->body, &report);
    bool is_text = result->status == 200 && json_bracket(result->body) == 0;
    if (is_text && says_something(&report)) {
        watch->source = SOURCE_OTHER;
        note_report(watch, &report);
    } else if (watch->source == SOURCE_TRYING) {
        watch->source = SOURCE_JSON;
    } else {
        note_failure(watch);
    }
    plan(watch);
}

static void done(void *owner, const struct fetch_result *result)
{
    struct watch *watch = owner;
    struct load_report report;
    struct slice page = result->is_part ? whole_lines(result->body) : result->body;
    uint8_t bracket = json_bracket(page);

    watch->fetch = NULL;
    read_page(watch, page, &report);
    if (result->status == 200 && says_something(&report)) {
        note_report(watch, &report);
    } else if (result->status == 200 && bracket == '[') {
        watch->wait_ms = 0; // it has done nothing since it was asked last
    } else if (result->status == 200 || result->status == 404) {
        note_none(watch);
    } else {
        note_failure(watch);
    }
    if (result->status == 200 && bracket != 0 && watch->source == SOURCE_UNKNOWN &&
        ask(watch, other_path)) {
        watch->source = SOURCE_TRYING;
        return;
    }
    plan(watch);
}

// False when memory or descriptors are short.
static bool ask(struct watch *watch, const char *path)
{
    struct scraper *scraper = watch->scraper;

    struct fetch_peer peer = backend_peer(watch->backend);
    watch->fetch = fetch_start(&(struct fetch_options){
        .loop = scraper->loop,
        .peer = &peer,
        .tls = backend_peer_tls(&peer, scraper->config, &scraper->tls),
        .path = path,
        .timeout_ms = scraper->config->health.timeout,
        .takes_part = true,
        .done = path == other_path ? other_done : done,
        .owner = watch,
    });
    return watch->fetch != NULL;
}

static void look(struct timer *timer)
{
    struct watch *watch = CONTAINER_OF(timer, struct watch, timer);
    struct scraper *scraper = watch->scraper;
    uint64_t now_ms = loop_now_ms(scraper->loop);
    unsigned probe = atomic_load_explicit(&watch->backend->shared.probe, memory_order_relaxed);
    bool is_back = watch->probe == BACKEND_PROBE_DOWN && probe == BACKEND_PROBE_UP;

    watch->probe = probe;
    if (now_ms < watch->due_ms && !is_back) {
        arm(watch);
        return;
    }
    watch->wait_ms = is_back ? 0 : watch->wait_ms;
    watch->asked_ms = now_ms;
    if (!ask(watch, watch->source == SOURCE_OTHER ? other_path : scraper->config->load.path)) {
        note_failure(watch);
        plan(watch);
    }
}

void scraper_set_config(struct scraper *scraper, const struct config *config)
{
    bool is_elsewhere = strcmp(scraper->config->load.path, config->load.path) != 0;

    scraper->config = config;
    tls_context_destroy(&scraper->tls); // trust may have changed
    for (uint32_t i = 0; i < scraper->watch_count; i++) {
        struct watch *watch = &scraper->watches[i];
        if (watch->backend == NULL) {
            continue;
        }
        if (!config->load.scrape) {
            pause_watch(watch);
            continue;
        }
        watch->wait_ms = 0;
        if (is_elsewhere) {
            fetch_cancel(&watch->fetch);
            watch->source = SOURCE_UNKNOWN;
        }
        if (watch->fetch != NULL) {
            continue; // and the answer plans the next
        }
        // Never later than it was to be: one reload after another must not put it off for ever.
        uint64_t due_ms = timer_is_armed(&watch->timer) ? watch->due_ms : UINT64_MAX;
        plan_first(watch);
        if (due_ms < watch->due_ms) {
            watch->due_ms = due_ms;
            arm(watch);
        }
    }
}

void scraper_watch(struct scraper *scraper, struct backend *backend)
{
    ASSERT(backend->slot < scraper->watch_count);
    struct watch *watch = &scraper->watches[backend->slot];

    ASSERT(watch->backend == NULL);
    *watch = (struct watch){.scraper = scraper, .backend = backend, .timer.fire = look};
    if (scraper->config->load.scrape) {
        plan_first(watch);
    }
}

void scraper_forget(struct scraper *scraper, const struct backend *backend)
{
    struct watch *watch = &scraper->watches[backend->slot];
    ASSERT(watch->backend == backend);
    pause_watch(watch);
    *watch = (struct watch){0};
}
