// SPDX-License-Identifier: Apache-2.0

#include "feed/scraper.h"

#include "config/config.h"
#include "feed/engine_metrics.h"
#include "feed/exposition.h"
#include "feed/watcher.h"
#include "fleet/backend.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdlib.h>

// TensorRT-LLM has text here if it has JSON where other engines have text.
static const char other_path[] = "/prometheus/metrics";

enum scrape_source {
    SOURCE_UNKNOWN,
    SOURCE_TRYING, // load.path is JSON, the other path has been asked
    SOURCE_JSON,   // load.path is JSON, the other path has no known name
    SOURCE_OTHER,  // the other path
};

// The record of one backend's pages.
struct scraped {
    enum scrape_source source;
    enum watcher_next without_other; // while TRYING: what follows from load.path alone
    bool logged_load;
    bool logged_none;
};

struct scraper {
    struct scraper_options options;
    struct watcher *watcher;
    struct scraped *scraped; // by slot
    uint32_t slot_count;
};

static const char *scraper_path(void *owner, const struct backend *backend)
{
    const struct scraper *scraper = owner;
    enum scrape_source source = scraper->scraped[backend->slot].source;
    bool is_other = source == SOURCE_TRYING || source == SOURCE_OTHER;
    return is_other ? other_path : scraper->options.config->load.path;
}

static void scraper_report(struct scraper *scraper, struct backend *backend,
                           const struct load_report *report)
{
    struct scraped *scraped = &scraper->scraped[backend->slot];
    if (!scraped->logged_load) {
        log_info("backend %s: load: metrics found", backend->url);
        scraped->logged_load = true;
    }
    load_report(&backend->load, report, loop_now_ms(scraper->options.loop));
}

static void scraper_log_none(struct scraped *scraped, const struct backend *backend)
{
    if (!scraped->logged_none && !scraped->logged_load) {
        log_info("backend %s: load: no metrics", backend->url);
        scraped->logged_none = true;
    }
}

static bool report_is_empty(const struct load_report *report)
{
    return report->running < 0 && report->waiting < 0 && report->kv_usage < 0 &&
           report->cache_tokens < 0 && report->block_tokens < 0;
}

// A cut page loses its last line, which may end within a number.
static struct slice scraped_page(const struct fetch_result *result)
{
    struct slice page = result->body;
    if (!result->is_part || page.size == 0) {
        return page;
    }
    const uint8_t *newline = memrchr(page.bytes, '\n', page.size);
    return slice_of(page.bytes, newline == NULL ? 0 : (size_t)(newline + 1 - page.bytes));
}

static enum watcher_next scraper_heard_other(struct scraper *scraper, struct backend *backend,
                                             bool is_text, const struct load_report *report)
{
    struct scraped *scraped = &scraper->scraped[backend->slot];
    if (is_text && !report_is_empty(report)) {
        scraped->source = SOURCE_OTHER;
        scraper_report(scraper, backend, report);
        return WATCHER_AGAIN;
    }
    if (scraped->source == SOURCE_TRYING) {
        scraped->source = SOURCE_JSON;
        return scraped->without_other;
    }
    scraped->source = SOURCE_UNKNOWN; // it may have come back as another engine
    return WATCHER_FAILED;
}

static enum watcher_next scraper_heard_page(struct scraper *scraper, struct backend *backend,
                                            const struct fetch_result *result,
                                            const struct load_report *report)
{
    struct scraped *scraped = &scraper->scraped[backend->slot];
    if (result->status != 200 && result->status != 404) {
        return WATCHER_FAILED;
    }
    if (result->status == 200 && !report_is_empty(report)) {
        scraper_report(scraper, backend, report);
        return WATCHER_AGAIN;
    }
    if (result->status == 200 && exposition_json_bracket(result->body) == '[') {
        return WATCHER_AGAIN; // no step since it was asked last
    }
    scraper_log_none(scraped, backend);
    return WATCHER_ABSENT;
}

static enum watcher_next scraper_heard(void *owner, struct backend *backend,
                                       const struct fetch_result *result)
{
    struct scraper *scraper = owner;
    struct scraped *scraped = &scraper->scraped[backend->slot];
    bool is_json = result->status == 200 && exposition_json_bracket(result->body) != 0;
    struct load_report report;

    // The page of a server with ranks has series for each of them.
    engine_metrics_read(scraped_page(result),
                        backend->rank_count > 1 ? backend->rank : exposition_all_ranks, &report);
    if (scraped->source == SOURCE_TRYING || scraped->source == SOURCE_OTHER) {
        bool is_text = result->status == 200 && !is_json;
        return scraper_heard_other(scraper, backend, is_text, &report);
    }
    enum watcher_next next = scraper_heard_page(scraper, backend, result, &report);
    if (next != WATCHER_AGAIN) {
        scraped->source = SOURCE_UNKNOWN; // it may come back as another engine
    }
    if (is_json && scraped->source == SOURCE_UNKNOWN) {
        scraped->source = SOURCE_TRYING;
        scraped->without_other = next;
        return WATCHER_NOW;
    }
    return next;
}

static void scraper_set_schedule(struct scraper *scraper, bool is_anew)
{
    const struct config *config = scraper->options.config;
    watcher_set_schedule(
        scraper->watcher,
        &(struct watcher_schedule){.config = config,
                                   .interval_ms = config->load.scrape ? config->load.interval : 0,
                                   .timeout_ms = config->health.timeout},
        is_anew);
}

struct scraper *scraper_create(const struct scraper_options *options)
{
    struct scraper *scraper = calloc(1, sizeof(*scraper));
    if (scraper == NULL) {
        return NULL;
    }
    scraper->options = *options;
    scraper->slot_count = options->config->limits.backends;
    scraper->watcher = watcher_create(&(struct watcher_options){
        .loop = options->loop,
        .slot_count = scraper->slot_count,
        .asks_each_rank = true,
        .takes_part = true,
        .path = scraper_path,
        .heard = scraper_heard,
        .owner = scraper,
    });
    scraper->scraped = calloc(scraper->slot_count, sizeof(*scraper->scraped));
    if (scraper->watcher == NULL || scraper->scraped == NULL) {
        scraper_destroy(&scraper);
        return NULL;
    }
    scraper_set_schedule(scraper, false);
    return scraper;
}

void scraper_destroy(struct scraper **scraper_ptr)
{
    struct scraper *scraper = *scraper_ptr;
    *scraper_ptr = NULL;

    if (scraper != NULL) {
        watcher_destroy(&scraper->watcher);
        free(scraper->scraped);
        free(scraper);
    }
}

void scraper_set_config(struct scraper *scraper, const struct config *config)
{
    bool is_new_path = strcmp(scraper->options.config->load.path, config->load.path) != 0;

    scraper->options.config = config;
    for (uint32_t i = 0; is_new_path && i < scraper->slot_count; i++) {
        scraper->scraped[i].source = SOURCE_UNKNOWN;
    }
    scraper_set_schedule(scraper, is_new_path);
}

void scraper_watch(struct scraper *scraper, struct backend *backend)
{
    scraper->scraped[backend->slot] = (struct scraped){0};
    watcher_watch(scraper->watcher, backend);
}

void scraper_forget(struct scraper *scraper, const struct backend *backend)
{
    watcher_forget(scraper->watcher, backend);
}
