// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_scrape.h"

#include "base/base.h"
#include "base/text.h"
#include "drive/drive_endpoint.h"
#include "feed/exposition.h"
#include "net/dns.h"
#include "net/fetch.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    // Each has a connection and a megabyte for the response.
    asked_at_once = 32,
    why_size = 160,
};

// TensorRT-LLM has JSON at /metrics, and the text that other engines have there at this path.
static const char text_path[] = "/prometheus/metrics";
// Where SGLang has the time of its prefills, which its page does not say.
static const char loads_path[] = "/v1/loads";

// The replicas of one URL of the command line.
struct scrape_origin {
    struct audit_scrape *scrape;
    const char *url;
    struct drive_endpoint endpoint;
    const char *why; // it does not resolve
};

struct scrape_replica {
    struct audit_scraped scraped;
    struct audit_scrape *scrape;
    const struct scrape_origin *origin;
    struct address address; // of size 0: the name did not resolve
    char *name;
    char why[why_size];
    struct fetch *fetch;
    struct engine_counters counters; // of this round's pages so far
    bool has_no_text;
    bool has_no_loads;
};

struct audit_scrape {
    struct audit_scrape_options options;
    struct dns *dns;
    struct tls_context *tls; // made when first needed
    bool tls_is_tried;
    char *authorization;
    struct scrape_origin *origins;
    uint32_t unresolved_count;
    struct scrape_replica *replicas; // NULL until names are resolved
    uint32_t replica_count;
    uint32_t next; // of this round
    uint32_t asked_count;
    void (*done)(void *owner);
    void *owner;
};

enum status audit_scrape_create(const struct audit_scrape_options *options,
                                struct audit_scrape **out)
{
    struct audit_scrape *scrape = calloc(1, sizeof(*scrape));
    struct scrape_origin *origins = calloc(options->url_count, sizeof(*origins));
    if (scrape == NULL || origins == NULL ||
        dns_create(options->loop, NULL, &scrape->dns) != STATUS_OK) {
        free(scrape);
        free(origins);
        return STATUS_EXHAUSTED;
    }
    scrape->options = *options;
    scrape->origins = origins;
    if (options->api_key != NULL) {
        ASSERT(asprintf(&scrape->authorization, "Bearer %s", options->api_key) != -1);
    }
    for (uint32_t i = 0; i < options->url_count; i++) {
        origins[i] = (struct scrape_origin){.scrape = scrape, .url = options->urls[i]};
        const char *wrong = drive_endpoint_parse(options->urls[i], &origins[i].endpoint);
        ASSERT(wrong == NULL); // the kind of the flag saw to it
    }
    *out = scrape;
    return STATUS_OK;
}

void audit_scrape_destroy(struct audit_scrape **scrape_ptr)
{
    struct audit_scrape *scrape = *scrape_ptr;
    *scrape_ptr = NULL;
    if (scrape == NULL) {
        return;
    }
    for (uint32_t i = 0; i < scrape->replica_count; i++) {
        fetch_cancel(&scrape->replicas[i].fetch);
        free(scrape->replicas[i].name);
    }
    dns_destroy(&scrape->dns);
    tls_context_destroy(&scrape->tls);
    free(scrape->authorization);
    free(scrape->origins);
    free(scrape->replicas);
    free(scrape);
}

uint32_t audit_scrape_count(const struct audit_scrape *scrape)
{
    return scrape->replica_count;
}

const struct audit_scraped *audit_scrape_at(const struct audit_scrape *scrape, uint32_t index)
{
    ASSERT(index < scrape->replica_count);
    return &scrape->replicas[index].scraped;
}

static struct tls_context *tls_of(struct audit_scrape *scrape, const struct scrape_origin *origin)
{
    if (origin->endpoint.tls && !scrape->tls_is_tried) {
        scrape->tls_is_tried = true;
        char error[tls_error_size];
        struct tls_client_options options = {.ca = scrape->options.ca,
                                             .verify = !scrape->options.insecure};
        if (tls_client_create(&options, &scrape->tls, error) != STATUS_OK) {
            fprintf(stderr, "warmpath audit: TLS: %s\n", error);
        }
    }
    return scrape->tls;
}

static void scrape_advance(struct audit_scrape *scrape);

static void note_failure(struct scrape_replica *replica, const char *why)
{
    struct text text = text_over(replica->why, sizeof(replica->why) - 1);
    struct slice words = slice_str(why);
    words.size = words.size < text.capacity ? words.size : text.capacity;
    text_add(&text, words);
    replica->why[text.size] = '\0';
    audit_history_fail(&replica->scraped.history, replica->why);
}

static void replica_finish(struct scrape_replica *replica)
{
    struct audit_page page = {.at_ms = loop_now_ms(replica->scrape->options.loop),
                              .counters = replica->counters};
    audit_history_note(&replica->scraped.history, &page);
    replica->scrape->asked_count--;
    scrape_advance(replica->scrape);
}

static void replica_give_up(struct scrape_replica *replica, const char *why)
{
    note_failure(replica, why);
    replica->scrape->asked_count--;
    scrape_advance(replica->scrape);
}

static bool replica_ask(struct scrape_replica *replica, const char *path, fetch_done_fn *done)
{
    struct audit_scrape *scrape = replica->scrape;
    const struct scrape_origin *origin = replica->origin;
    const struct fetch_peer peer = {
        .address = replica->address,
        .host = origin->endpoint.host,
        .authority = origin->endpoint.authority,
        .authorization = scrape->authorization,
        .tls = origin->endpoint.tls,
    };
    replica->fetch = fetch_start(&(struct fetch_options){
        .loop = scrape->options.loop,
        .peer = &peer,
        .tls = tls_of(scrape, origin),
        .path = path,
        .timeout_ms = scrape->options.timeout_ms,
        .done = done,
        .owner = replica,
    });
    return replica->fetch != NULL;
}

static bool replica_has_page(const struct fetch_result *result)
{
    return result->status == 200;
}

// The text has counters that the JSON lacks; JSON completes what the text lacks.
static void text_done(void *owner, const struct fetch_result *result)
{
    struct scrape_replica *replica = owner;
    struct engine_counters counters;
    replica->fetch = NULL;
    replica->has_no_text = result->status == 404;
    if (replica_has_page(result) && !exposition_is_json(result->body)) {
        engine_counters_read(result->body, &counters);
        engine_counters_complete(&counters, &replica->counters);
        replica->counters = counters;
    }
    replica_finish(replica);
}

static void loads_done(void *owner, const struct fetch_result *result)
{
    struct scrape_replica *replica = owner;
    struct engine_counters counters;
    replica->fetch = NULL;
    replica->has_no_loads = result->status != 0 && !replica_has_page(result);
    if (replica_has_page(result) && exposition_is_json(result->body)) {
        engine_counters_read(result->body, &counters);
        engine_counters_complete(&replica->counters, &counters);
    }
    replica_finish(replica);
}

static void page_done(void *owner, const struct fetch_result *result)
{
    struct scrape_replica *replica = owner;
    replica->fetch = NULL;
    if (!replica_has_page(result)) {
        char words[32];
        snprintf(words, sizeof(words), "it responded with status %u", result->status);
        replica_give_up(replica, result->status == 0 ? result->why : words);
        return;
    }
    engine_counters_read(result->body, &replica->counters);
    bool wants_text = exposition_is_json(result->body) && !replica->has_no_text;
    bool wants_loads = replica->counters.kind == ENGINE_SGLANG && !replica->has_no_loads &&
                       replica->counters.values[COUNTER_PREFILL_SECONDS] < 0;
    if ((wants_text && replica_ask(replica, text_path, text_done)) ||
        (wants_loads && replica_ask(replica, loads_path, loads_done))) {
        return;
    }
    replica_finish(replica);
}

static void replica_begin(struct scrape_replica *replica)
{
    if (replica->address.size == 0) {
        note_failure(replica, replica->origin->why);
        return;
    }
    if (!replica_ask(replica, replica->scrape->options.path, page_done)) {
        note_failure(replica, "memory or descriptors are short");
        return;
    }
    replica->scrape->asked_count++;
}

static void scrape_advance(struct audit_scrape *scrape)
{
    while (scrape->next < scrape->replica_count && scrape->asked_count < asked_at_once) {
        replica_begin(&scrape->replicas[scrape->next++]);
    }
    if (scrape->next == scrape->replica_count && scrape->asked_count == 0) {
        scrape->done(scrape->owner);
    }
}

static void add_replica(struct audit_scrape *scrape, const struct scrape_origin *origin,
                        const struct address *address)
{
    struct scrape_replica *replica = &scrape->replicas[scrape->replica_count];
    char place[64];
    struct text text = text_over(place, sizeof(place) - 1);

    if (scrape->replica_count == audit_replica_max) {
        return;
    }
    if (origin->endpoint.address_count > 1) {
        text_add_str(&text, "#");
        address_format_host(address, &text);
    }
    place[text.size] = '\0';
    *replica = (struct scrape_replica){.scrape = scrape, .origin = origin, .address = *address};
    ASSERT(asprintf(&replica->name, "%s%s", origin->url, place) != -1);
    replica->scraped.name = replica->name;
    scrape->replica_count++;
}

// In the order of the command line, not of the responses.
static void add_replicas(struct audit_scrape *scrape)
{
    static const struct address nowhere;
    scrape->replicas = calloc(audit_replica_max, sizeof(*scrape->replicas));
    ASSERT(scrape->replicas != NULL);
    for (uint32_t i = 0; i < scrape->options.url_count; i++) {
        const struct scrape_origin *origin = &scrape->origins[i];
        if (origin->endpoint.address_count == 0) {
            add_replica(scrape, origin, &nowhere);
        }
        for (uint32_t k = 0; k < origin->endpoint.address_count; k++) {
            add_replica(scrape, origin, &origin->endpoint.addresses[k]);
        }
    }
}

static void replica_resolved(void *owner, const struct dns_answer *answer)
{
    struct scrape_origin *origin = owner;
    struct audit_scrape *scrape = origin->scrape;
    if (answer->status == STATUS_OK) {
        origin->endpoint.address_count = answer->address_count;
        memcpy(origin->endpoint.addresses, answer->addresses, sizeof(answer->addresses));
    } else {
        origin->why = answer->why;
    }
    if (--scrape->unresolved_count == 0) {
        add_replicas(scrape);
        scrape_advance(scrape);
    }
}

void audit_scrape_start(struct audit_scrape *scrape, void (*done)(void *owner), void *owner)
{
    ASSERT(scrape->asked_count == 0 && scrape->next == scrape->replica_count);
    scrape->done = done;
    scrape->owner = owner;
    scrape->next = 0;
    if (scrape->replicas != NULL) {
        scrape_advance(scrape);
        return;
    }
    scrape->unresolved_count = scrape->options.url_count;
    for (uint32_t i = 0; i < scrape->options.url_count; i++) {
        struct scrape_origin *origin = &scrape->origins[i];
        dns_resolve(scrape->dns, origin->endpoint.host, origin->endpoint.port, replica_resolved,
                    origin);
    }
}
