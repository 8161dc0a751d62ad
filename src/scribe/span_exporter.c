// SPDX-License-Identifier: Apache-2.0

#include "scribe/span_exporter.h"

#include "base/base.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "metrics/receipt.h"
#include "metrics/span_json.h"
#include "net/dns.h"
#include "net/fetch.h"
#include "net/tls.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    batch_span_max = 512,
    // A complete span takes about 3 KB.
    batch_size = 2 << 20,
    batch_age_ms = 1000,
    post_timeout_ms = 10000,
    retry_ms = 1000,
    try_max = 2,
    response_size_max = 65536,
    finish_turn_ms = 10,
};

enum phase {
    PHASE_IDLE,
    PHASE_RESOLVING,
    PHASE_POSTING,
    PHASE_WAITING, // before the second try
};

struct span_exporter {
    struct loop *loop;
    struct dns *dns;
    struct tls_context *tls;
    struct fetch *fetch;
    struct timer retry;
    char *url; // for the log
    char *host;
    char *authority;
    char *path;
    char *service;
    uint16_t port;
    bool is_tls;

    struct span_json filling;
    uint64_t filling_since_ms; // of its first span
    uint8_t *spaces[2];
    unsigned fill; // the index of the filling one

    enum phase phase;
    struct slice leaving;
    uint32_t leaving_count;
    uint32_t tries;
    uint64_t posted_ms;
    bool is_refused; // and that has been logged

    struct dns_answer where;
    uint32_t where_index; // of the next address
    uint64_t where_until_ms;

    // Read by any thread.
    struct {
        atomic_uint_fast64_t sent;
        atomic_uint_fast64_t dropped;
    } shared;
};

static void exporter_post(struct span_exporter *exporter);

static void exporter_count(atomic_uint_fast64_t *counter, uint64_t more)
{
    atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

static void exporter_begin_batch(struct span_exporter *exporter)
{
    span_json_begin(&exporter->filling, exporter->spaces[exporter->fill], batch_size,
                    exporter->service, WARMPATH_VERSION);
}

static void exporter_drop_batch(struct span_exporter *exporter, const char *why)
{
    exporter_count(&exporter->shared.dropped, exporter->leaving_count);
    exporter->leaving_count = 0;
    exporter->phase = PHASE_IDLE;
    if (!exporter->is_refused) {
        exporter->is_refused = true;
        log_warn("tracing: the collector %s does not accept spans, which are dropped: %s",
                 exporter->url, why);
    }
}

static void exporter_batch_sent(struct span_exporter *exporter)
{
    exporter_count(&exporter->shared.sent, exporter->leaving_count);
    exporter->leaving_count = 0;
    exporter->phase = PHASE_IDLE;
    if (exporter->is_refused) {
        exporter->is_refused = false;
        log_info("tracing: the collector %s accepts spans again", exporter->url);
    }
}

static void exporter_try_again(struct span_exporter *exporter, const char *why)
{
    if (exporter->tries == try_max) {
        exporter_drop_batch(exporter, why);
        return;
    }
    exporter->phase = PHASE_WAITING;
    loop_arm(exporter->loop, &exporter->retry, retry_ms);
}

static bool exporter_should_retry(const struct span_exporter *exporter, uint16_t status)
{
    if (status == 0) {
        // Not after a time-out: the collector may be slow and have the batch already.
        return loop_now_ms(exporter->loop) - exporter->posted_ms < post_timeout_ms;
    }
    return status == 429 || (status >= 502 && status <= 504);
}

static void exporter_posted(void *owner, const struct fetch_result *result)
{
    struct span_exporter *exporter = owner;
    char why[64];

    exporter->fetch = NULL;
    if (result->status >= 200 && result->status < 300) {
        exporter_batch_sent(exporter);
        return;
    }
    if (result->status != 0) {
        snprintf(why, sizeof(why), "it responds %u", result->status);
    } else {
        snprintf(why, sizeof(why), "%s", result->why);
        exporter->where_index++; // another address of the name may work
    }
    if (exporter_should_retry(exporter, result->status)) {
        exporter_try_again(exporter, why);
    } else {
        exporter_drop_batch(exporter, why);
    }
}

static void exporter_resolved(void *owner, const struct dns_answer *answer)
{
    struct span_exporter *exporter = owner;
    uint64_t now_ms = loop_now_ms(exporter->loop);

    if (answer->status == STATUS_OK) {
        exporter->where = *answer;
        exporter->where_until_ms = now_ms + answer->ttl_ms;
    }
    // An old address is better than none.
    if (exporter->where.address_count == 0) {
        exporter_try_again(exporter, answer->why);
        return;
    }
    exporter_post(exporter);
}

static void exporter_post(struct span_exporter *exporter)
{
    const struct dns_answer *where = &exporter->where;
    exporter->phase = PHASE_POSTING;
    exporter->posted_ms = loop_now_ms(exporter->loop);
    exporter->fetch = fetch_start(&(struct fetch_options){
        .loop = exporter->loop,
        .peer =
            &(struct fetch_peer){
                .address = where->addresses[exporter->where_index % where->address_count],
                .host = exporter->host,
                .authority = exporter->authority,
                .tls = exporter->is_tls,
            },
        .tls = exporter->tls,
        .path = exporter->path,
        .body = exporter->leaving,
        .timeout_ms = post_timeout_ms,
        .response_size_max = response_size_max,
        .takes_part = true,
        .done = exporter_posted,
        .owner = exporter,
    });
    if (exporter->fetch == NULL) {
        exporter_try_again(exporter, "out of memory or file descriptors");
    }
}

static void exporter_send(struct span_exporter *exporter)
{
    exporter->tries++;
    if (exporter->where.address_count > 0 &&
        loop_now_ms(exporter->loop) < exporter->where_until_ms) {
        exporter_post(exporter);
        return;
    }
    exporter->phase = PHASE_RESOLVING;
    dns_resolve(exporter->dns, exporter->host, exporter->port, exporter_resolved, exporter);
}

static void exporter_retry(struct timer *timer)
{
    exporter_send(CONTAINER_OF(timer, struct span_exporter, retry));
}

// Sends the filling batch and begins another.
static void exporter_send_batch(struct span_exporter *exporter)
{
    ASSERT(exporter->phase == PHASE_IDLE && exporter->filling.span_count > 0);
    exporter->leaving_count = exporter->filling.span_count;
    exporter->leaving = span_json_end(&exporter->filling);
    exporter->tries = 0;
    exporter->fill = 1 - exporter->fill;
    exporter_begin_batch(exporter);
    exporter_send(exporter);
}

void span_exporter_note(struct span_exporter *exporter, const struct receipt *receipt)
{
    struct span_json *filling = &exporter->filling;
    if (!receipt->is_sampled || receipt->outcome == RECEIPT_RUNNING ||
        (receipt->trace[0] | receipt->trace[1]) == 0) {
        return;
    }
    bool fits = filling->span_count < batch_span_max && span_json_add(filling, receipt);
    if (!fits && exporter->phase == PHASE_IDLE) {
        exporter_send_batch(exporter);
        fits = span_json_add(filling, receipt);
    }
    if (!fits) {
        exporter_count(&exporter->shared.dropped, 1);
        return;
    }
    if (filling->span_count == 1) {
        exporter->filling_since_ms = loop_now_ms(exporter->loop);
    }
}

void span_exporter_flush(struct span_exporter *exporter)
{
    uint32_t span_count = exporter->filling.span_count;
    uint64_t age_ms = loop_now_ms(exporter->loop) - exporter->filling_since_ms;
    if (exporter->phase == PHASE_IDLE && span_count > 0 &&
        (span_count == batch_span_max || age_ms >= batch_age_ms)) {
        exporter_send_batch(exporter);
    }
}

void span_exporter_finish(struct span_exporter *exporter, uint64_t wait_ms)
{
    uint64_t until_ns = clock_monotonic_ns() + wait_ms * 1000000;
    while (clock_monotonic_ns() < until_ns) {
        if (exporter->phase == PHASE_IDLE && exporter->filling.span_count == 0) {
            return;
        }
        if (exporter->phase == PHASE_IDLE) {
            exporter_send_batch(exporter);
        }
        loop_turn(exporter->loop, finish_turn_ms);
    }
}

static char *exporter_copy_slice(struct slice text)
{
    return strndup((const char *)text.bytes, text.size);
}

// Copies the parts of the collector's URL.  False: out of memory.
static bool exporter_set_names(struct span_exporter *exporter,
                               const struct span_exporter_options *options,
                               const struct config_endpoint *endpoint, struct slice path)
{
    // The authority lies between the scheme and the path.
    struct slice url = slice_str(options->endpoint);
    size_t scheme_size = endpoint->tls ? strlen("https://") : strlen("http://");
    struct slice authority = slice_of(url.bytes + scheme_size, url.size - scheme_size - path.size);

    exporter->port = endpoint->port;
    exporter->is_tls = endpoint->tls;
    exporter->url = strdup(options->endpoint);
    exporter->host = exporter_copy_slice(endpoint->host);
    exporter->authority = exporter_copy_slice(authority);
    exporter->path = path.size > 1 ? exporter_copy_slice(path) : strdup("/v1/traces");
    exporter->service = strdup(options->service);
    return exporter->url != NULL && exporter->host != NULL && exporter->authority != NULL &&
           exporter->path != NULL && exporter->service != NULL;
}

static enum status exporter_open_tls(struct span_exporter *exporter, const struct config *config)
{
    char error[tls_error_size];
    struct tls_client_options options = {.verify = true};
    if (!exporter->is_tls) {
        return STATUS_OK;
    }
    if (config != NULL) {
        options.ca = config->backend_tls.ca;
        options.verify = config->backend_tls.verify;
    }
    enum status status = tls_client_create(&options, &exporter->tls, error);
    if (status != STATUS_OK) {
        log_error("tracing: TLS to the collector: %s", error);
        return STATUS_MALFORMED;
    }
    return STATUS_OK;
}

static enum status exporter_open_dns(struct span_exporter *exporter, const struct config *config)
{
    char servers[config_dns_servers_size];
    struct dns_options options = {
        .servers = config != NULL ? config_dns_servers(config, servers) : NULL,
    };
    return dns_create(exporter->loop, &options, &exporter->dns);
}

enum status span_exporter_create(const struct span_exporter_options *options,
                                 struct span_exporter **out)
{
    struct config_endpoint endpoint;
    struct slice path;
    enum status status = STATUS_EXHAUSTED;

    if (config_collector_split(slice_str(options->endpoint), &endpoint, &path) != NULL) {
        return STATUS_MALFORMED;
    }
    struct span_exporter *exporter = calloc(1, sizeof(*exporter));
    if (exporter == NULL) {
        return STATUS_EXHAUSTED;
    }
    exporter->loop = options->loop;
    exporter->retry.fire = exporter_retry;
    exporter->spaces[0] = malloc(batch_size);
    exporter->spaces[1] = malloc(batch_size);
    if (exporter->spaces[0] == NULL || exporter->spaces[1] == NULL ||
        !exporter_set_names(exporter, options, &endpoint, path)) {
        goto out;
    }
    status = exporter_open_tls(exporter, options->config);
    if (status != STATUS_OK) {
        goto out;
    }
    status = exporter_open_dns(exporter, options->config);
    if (status != STATUS_OK) {
        goto out;
    }
    exporter_begin_batch(exporter);
    *out = exporter;
    exporter = NULL; // now the caller's

out:
    span_exporter_destroy(&exporter);
    return status;
}

void span_exporter_destroy(struct span_exporter **exporter_ptr)
{
    struct span_exporter *exporter = *exporter_ptr;
    *exporter_ptr = NULL;
    if (exporter == NULL) {
        return;
    }
    loop_disarm(exporter->loop, &exporter->retry);
    if (exporter->fetch != NULL) {
        fetch_cancel(&exporter->fetch);
        loop_turn(exporter->loop, 0); // its memory is freed at the end of a turn
    }
    dns_destroy(&exporter->dns);
    tls_context_destroy(&exporter->tls);
    free(exporter->url);
    free(exporter->host);
    free(exporter->authority);
    free(exporter->path);
    free(exporter->service);
    free(exporter->spaces[0]);
    free(exporter->spaces[1]);
    free(exporter);
}

uint64_t span_exporter_sent(const struct span_exporter *exporter)
{
    return atomic_load_explicit(&exporter->shared.sent, memory_order_relaxed);
}

uint64_t span_exporter_dropped(const struct span_exporter *exporter)
{
    return atomic_load_explicit(&exporter->shared.dropped, memory_order_relaxed);
}
