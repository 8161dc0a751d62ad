// SPDX-License-Identifier: Apache-2.0

#include "proxy/proxy.h"

#include "base/base.h"
#include "config/backend_events.h"
#include "config/config.h"
#include "knowledge/knowledge.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "policy/policy_memory.h"
#include "proxy/worker_thread.h"
#include "sys/log.h"
#include "sys/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct proxy {
    struct proxy_shared shared;
    struct fleet *fleet;
    struct reclaim *reclaim;
    struct knowledge *knowledge;
    struct recorder *recorder;
    struct receipt_ring *(*ring_of)(void *owner, uint32_t worker);
    void *owner;
    const struct dialect_set *dialects;
    void *index_memory;
    size_t index_memory_size;
    void *ledger_memory;
    size_t ledger_memory_size;
    struct worker **workers;
    uint32_t worker_count;
    struct plan *retired; // the plan before this one, until every worker has moved on
    uint64_t retired_ticket;
};

static void contexts_free(struct proxy *proxy, struct tls_context ***contexts_ptr)
{
    struct tls_context **contexts = *contexts_ptr;
    *contexts_ptr = NULL;
    for (uint32_t i = 0; contexts != NULL && i < proxy->worker_count; i++) {
        tls_context_destroy(&contexts[i]);
    }
    free(contexts);
}

static void memories_free(struct plan *plan)
{
    for (uint32_t i = 0; plan->memories != NULL && i < plan->memory_count; i++) {
        policy_memory_release(&plan->memories[i]);
    }
    free(plan->memories);
}

// The memory in that plan of a pool with this name and policy; NULL: it has none.
static struct policy_memory *memory_find(const struct plan *plan, const struct config_pool *pool)
{
    for (uint32_t i = 0; plan != NULL && i < plan->memory_count; i++) {
        const struct config_pool *other = &plan->config->pools[i];
        if (strcmp(other->name, pool->name) == 0 && strcmp(other->policy, pool->policy) == 0) {
            return plan->memories[i];
        }
    }
    return NULL;
}

// A pool that keeps its name and its policy keeps what the policy remembers.
static enum status memories_make(struct plan *plan, const struct plan *before)
{
    const struct config *config = plan->config;
    plan->memories = calloc(config->pool_count, sizeof(struct policy_memory *));
    plan->memory_count = config->pool_count;
    bool complete = plan->memories != NULL;
    for (uint32_t i = 0; complete && i < config->pool_count; i++) {
        const struct policy *policy = policy_find(config->pools[i].policy);
        struct policy_memory *kept = memory_find(before, &config->pools[i]);
        ASSERT(policy != NULL);
        if (policy->state_size > 0) {
            plan->memories[i] =
                kept != NULL ? policy_memory_share(kept) : policy_memory_create(policy);
            complete = plan->memories[i] != NULL;
        }
    }
    return complete ? STATUS_OK : STATUS_EXHAUSTED;
}

static void plan_free(struct proxy *proxy, struct plan **plan_ptr)
{
    struct plan *plan = *plan_ptr;
    *plan_ptr = NULL;

    if (plan != NULL) {
        contexts_free(proxy, &plan->server_tls);
        contexts_free(proxy, &plan->client_tls);
        memories_free(plan);
        free(plan);
    }
}

// One context for each worker: a shared one would cost a lock for each handshake.
static enum status contexts_make(struct proxy *proxy, const struct config *config, bool for_server,
                                 struct tls_context ***out, char error[proxy_error_size])
{
    struct tls_server_options server = {.certificate = config->tls.certificate,
                                        .key = config->tls.key};
    struct tls_client_options client = {.ca = config->backend_tls.ca,
                                        .verify = config->backend_tls.verify};
    enum status status = STATUS_OK;
    char why[tls_error_size];

    *out = calloc(proxy->worker_count, sizeof(struct tls_context *));
    ASSERT(*out != NULL);
    for (uint32_t i = 0; status == STATUS_OK && i < proxy->worker_count; i++) {
        status = for_server ? tls_server_create(&server, &(*out)[i], why)
                            : tls_client_create(&client, &(*out)[i], why);
    }
    if (status != STATUS_OK) {
        snprintf(error, proxy_error_size, "%s", why);
    }
    return status;
}

static bool has_tls_backends(const struct config *config)
{
    for (uint32_t i = 0; i < config->backend_count; i++) {
        if (config->backends[i].tls) {
            return true;
        }
    }
    return false;
}

// NULL when a certificate cannot be used.  `before` is the plan that it replaces, NULL at start.
static struct plan *plan_make(struct proxy *proxy, const struct config *config,
                              const struct plan *before, char error[proxy_error_size])
{
    struct plan *plan = calloc(1, sizeof(*plan));
    enum status status = STATUS_OK;

    ASSERT(plan != NULL);
    plan->config = config;
    status = memories_make(plan, before);
    if (status != STATUS_OK) {
        snprintf(error, proxy_error_size, "no memory for the policies");
    }
    if (status == STATUS_OK && config->tls.certificate != NULL) {
        status = contexts_make(proxy, config, true, &plan->server_tls, error);
    }
    // The system's authorities take megabytes, so they are read only if a backend needs them.
    if (status == STATUS_OK && (config->backend_tls.ca != NULL || has_tls_backends(config))) {
        status = contexts_make(proxy, config, false, &plan->client_tls, error);
    }
    if (status != STATUS_OK) {
        plan_free(proxy, &plan);
    }
    return plan;
}

static enum status bind_listeners(const struct config *config, int *fds, uint32_t *count,
                                  char error[proxy_error_size])
{
    *count = 0;
    for (uint32_t i = 0; i < config->listen.count; i++) {
        struct address address;
        if (i == listener_count_max) {
            snprintf(error, proxy_error_size, "more than %d listeners", listener_count_max);
            return STATUS_TOO_LARGE;
        }
        if (address_parse(config->listen.items[i], &address) != STATUS_OK ||
            tcp_listen(&address, &fds[i]) != STATUS_OK) {
            snprintf(error, proxy_error_size, "cannot listen on %s: %s", config->listen.items[i],
                     strerrordesc_np(errno));
            return STATUS_IO;
        }
        ++*count;
    }
    return STATUS_OK;
}

static enum status start_workers(struct proxy *proxy, const struct config *config,
                                 char error[proxy_error_size])
{
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        int fds[listener_count_max];
        uint32_t count = 0;
        enum status status = bind_listeners(config, fds, &count, error);
        if (status != STATUS_OK) {
            for (uint32_t k = 0; k < count; k++) {
                tcp_close(&fds[k]);
            }
            return status;
        }
        status = worker_start(
            &(struct worker_options){
                .index = i,
                .proxy = &proxy->shared,
                .fleet = proxy->fleet,
                .reclaim = proxy->reclaim,
                .knowledge = proxy->knowledge,
                .recorder = proxy->recorder,
                .ring = proxy->ring_of != NULL ? proxy->ring_of(proxy->owner, i) : NULL,
                .dialects = proxy->dialects,
                .token_text_max = config->tokens.prompt_size,
                .listener_fds = fds,
                .listener_count = count,
            },
            &proxy->workers[i]);
        if (status != STATUS_OK) {
            snprintf(error, proxy_error_size, "cannot start worker %u: %s", i,
                     strerrordesc_np(errno));
            return status;
        }
    }
    return STATUS_OK;
}

// SO_REUSEPORT would let us share a port with another warmpath of the same user.  A socket without
// it, bound first, fails if the port is taken.
static enum status check_ports_are_free(const struct config *config, char error[proxy_error_size])
{
    for (uint32_t i = 0; i < config->listen.count; i++) {
        struct address address;
        if (address_parse(config->listen.items[i], &address) != STATUS_OK ||
            tcp_probe_bind(&address) != STATUS_OK) {
            snprintf(error, proxy_error_size, "cannot listen on %s: %s", config->listen.items[i],
                     strerrordesc_np(errno));
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

// Clients must leave descriptors for connections to backends.
static uint32_t connections_allowed(const struct proxy_options *options)
{
    uint32_t wanted = options->config->limits.connections;
    uint64_t room = options->descriptor_count_max / 4 * 3;
    if (options->descriptor_count_max == 0 || room >= wanted) {
        return wanted;
    }
    log_warn("%lu descriptors are allowed (ulimit -n): at most %lu connections of clients instead "
             "of the %u of limits.connections",
             (unsigned long)options->descriptor_count_max, (unsigned long)room, wanted);
    return (uint32_t)room;
}

// A lookup in the index touches random places of it, hence large pages.
static void make_knowledge(struct proxy *proxy, const struct proxy_options *options)
{
    const struct config *config = options->config;
    uint32_t ttl_ms = config->prefix.ttl;
    proxy->index_memory_size = config->prefix.memory;
    proxy->index_memory = pages_reserve_huge(proxy->index_memory_size);
    proxy->ledger_memory_size = config_events_memory(config).ledger;
    if (proxy->ledger_memory_size > 0) {
        proxy->ledger_memory = pages_reserve_huge(proxy->ledger_memory_size);
    }
    if (proxy->index_memory == NULL ||
        (proxy->ledger_memory_size > 0 && proxy->ledger_memory == NULL)) {
        return;
    }
    proxy->knowledge = knowledge_create(&(struct knowledge_options){
        .block = proxy->index_memory,
        .memory = config->prefix.memory,
        .ledger_block = proxy->ledger_memory,
        .ledger_memory = proxy->ledger_memory_size,
        .ttl_s = ttl_ms == 0 ? 0 : (ttl_ms + 999) / 1000,
        .backend_count_max = config->limits.backends,
        // The keeper, and the thread of the cluster.
        .sender_count = options->worker_count + 1 + config_has_cluster(config),
        .is_tapped = config_has_cluster(config),
    });
}

struct knowledge *proxy_knowledge(const struct proxy *proxy)
{
    return proxy->knowledge;
}

uint32_t proxy_worker_count(const struct proxy *proxy)
{
    return proxy->worker_count;
}

const struct meters *proxy_meters(const struct proxy *proxy, uint32_t worker)
{
    ASSERT(worker < proxy->worker_count);
    return proxy->workers[worker]->meters;
}

struct policy_memory *proxy_policy_memory(const struct proxy *proxy, uint32_t pool)
{
    const struct plan *plan = atomic_load_explicit(&proxy->shared.plan, memory_order_relaxed);
    return pool < plan->memory_count ? plan->memories[pool] : NULL;
}

const struct dialect_set *proxy_dialects(const struct proxy *proxy)
{
    return proxy->dialects;
}

enum status proxy_start(const struct proxy_options *options, struct proxy **out,
                        char error[proxy_error_size])
{
    ASSERT(options->worker_count > 0 && options->fleet != NULL && options->reclaim != NULL);
    struct proxy *proxy = aligned_alloc(64, sizeof(*proxy));
    ASSERT(proxy != NULL);
    *proxy = (struct proxy){
        .fleet = options->fleet,
        .reclaim = options->reclaim,
        .recorder = options->recorder,
        .ring_of = options->ring_of,
        .owner = options->owner,
        .dialects = options->dialects,
        .worker_count = options->worker_count,
    };
    proxy->shared.connection_count_max = connections_allowed(options);
    proxy->workers = calloc(options->worker_count, sizeof(struct worker *));
    ASSERT(proxy->workers != NULL);
    make_knowledge(proxy, options);
    enum status status = check_ports_are_free(options->config, error);
    if (status == STATUS_OK && proxy->knowledge == NULL) {
        snprintf(error, proxy_error_size, "no memory for the prefixes (prefix.memory)");
        status = STATUS_IO;
    }
    if (status == STATUS_OK) {
        struct plan *plan = plan_make(proxy, options->config, NULL, error);
        atomic_store_explicit(&proxy->shared.plan, plan, memory_order_release);
        status = plan == NULL ? STATUS_IO : start_workers(proxy, options->config, error);
    }
    if (status != STATUS_OK) {
        proxy_stop(&proxy);
        return status;
    }
    *out = proxy;
    return STATUS_OK;
}

enum status proxy_replan(struct proxy *proxy, const struct config *config,
                         char error[proxy_error_size])
{
    if (proxy->retired != NULL) {
        return STATUS_AGAIN;
    }
    const struct plan *now = atomic_load_explicit(&proxy->shared.plan, memory_order_relaxed);
    ASSERT(now != NULL && now->config != config);
    if ((now->server_tls != NULL) != (config->tls.certificate != NULL)) {
        snprintf(error, proxy_error_size, "tls cannot be turned on or off without a restart");
        return STATUS_MALFORMED;
    }
    struct plan *plan = plan_make(proxy, config, now, error);
    if (plan == NULL) {
        return STATUS_IO;
    }
    proxy->retired = atomic_exchange_explicit(&proxy->shared.plan, plan, memory_order_acq_rel);
    proxy->retired_ticket = reclaim_ticket(proxy->reclaim);
    proxy_wake(proxy);
    return STATUS_OK;
}

bool proxy_reclaim(struct proxy *proxy)
{
    if (proxy->retired == NULL || !reclaim_is_past(proxy->reclaim, proxy->retired_ticket)) {
        return false;
    }
    ASSERT(proxy->retired != atomic_load_explicit(&proxy->shared.plan, memory_order_relaxed));
    plan_free(proxy, &proxy->retired);
    return true;
}

void proxy_wake(struct proxy *proxy)
{
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        if (proxy->workers[i] != NULL) {
            loop_wake(proxy->workers[i]->loop);
        }
    }
}

void proxy_drain(struct proxy *proxy)
{
    atomic_store_explicit(&proxy->shared.draining, true, memory_order_release);
    proxy_wake(proxy);
}

bool proxy_is_drained(const struct proxy *proxy)
{
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        if (!atomic_load_explicit(&proxy->workers[i]->shared.drained, memory_order_acquire)) {
            return false;
        }
    }
    return true;
}

void proxy_stop(struct proxy **proxy_ptr)
{
    struct proxy *proxy = *proxy_ptr;
    *proxy_ptr = NULL;

    if (proxy == NULL) {
        return;
    }
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        worker_stop(&proxy->workers[i]);
    }
    struct plan *plan = atomic_load_explicit(&proxy->shared.plan, memory_order_acquire);
    plan_free(proxy, &plan);
    plan_free(proxy, &proxy->retired);
    knowledge_destroy(&proxy->knowledge);
    pages_release(&proxy->index_memory, proxy->index_memory_size);
    pages_release(&proxy->ledger_memory, proxy->ledger_memory_size);
    free(proxy->workers);
    free(proxy);
}

void proxy_totals(const struct proxy *proxy, struct proxy_totals *out)
{
    *out = (struct proxy_totals){
        .in_flight = atomic_load_explicit(&proxy->shared.in_flight, memory_order_relaxed),
        .connection_count =
            atomic_load_explicit(&proxy->shared.connection_count, memory_order_relaxed),
        .body_memory = atomic_load_explicit(&proxy->shared.body_memory, memory_order_relaxed),
    };
    for (uint32_t i = 0; i < proxy->worker_count; i++) {
        const struct worker *worker = proxy->workers[i];
        out->request_count +=
            atomic_load_explicit(&worker->shared.request_count, memory_order_relaxed);
        out->retry_count += atomic_load_explicit(&worker->shared.retry_count, memory_order_relaxed);
        out->poison_count +=
            atomic_load_explicit(&worker->shared.poison_count, memory_order_relaxed);
        for (uint32_t k = 0; k < HTTP_PROBLEM_COUNT; k++) {
            uint64_t count =
                atomic_load_explicit(&worker->shared.problems[k], memory_order_relaxed);
            out->problems[k] += count;
            out->problem_count += count;
        }
        out->upstream_opened +=
            atomic_load_explicit(&worker->shared.upstream_opened, memory_order_relaxed);
        out->upstream_reused +=
            atomic_load_explicit(&worker->shared.upstream_reused, memory_order_relaxed);
        out->upstream_idle +=
            atomic_load_explicit(&worker->shared.upstream_idle, memory_order_relaxed);
        out->buffers_in_use +=
            atomic_load_explicit(&worker->shared.buffer_count, memory_order_relaxed);
    }
}
