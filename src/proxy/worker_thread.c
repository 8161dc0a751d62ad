// SPDX-License-Identifier: Apache-2.0

#include "proxy/worker_thread.h"

#include "base/base.h"
#include "base/reclaim.h"
#include "config/config.h"
#include "config/option/knobs.h"
#include "config/option/option_kind.h"
#include "dialect/token_reader.h"
#include "exchange/account.h"
#include "exchange/client.h"
#include "exchange/exchange.h"
#include "exchange/observer.h"
#include "exchange/request.h"
#include "fleet/fleet.h"
#include "http/head.h"
#include "metrics/meters.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "policy/policy.h"
#include "route/route.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/pages.h"
#include "sys/thread.h"
#include "worker/upstream.h"
#include "worker/worker.h"

#include <stdlib.h>

enum {
    housekeeping_ms = 1000,
    accepts_per_turn = 64,
    // Further requests of a second have no timed stages and rivals, and fewer keys are kept of
    // them.
    detailed_per_second = 1000,
    announced_late_per_second = 256,
    // The least size of one read, so that a long response does not cost a call per kilobyte.
    read_size_min = 16384,
    // Room for the fields that we add to a head: a key, ids, the backend's name.
    head_extra = config_secret_size_max + 4096,
    // A chunked body's trailers stand behind it.
    trailer_room = 32768,
    // At least a buffer of the largest header_size.
    body_block_min = 524288,
};

// Runs the clients that gave way.  One that gives way again waits for the next turn.
static void worker_run_again(struct worker *worker)
{
    struct list_node *list = NULL;

    list_move(&worker->again, &list);
    while (list != NULL) {
        struct client *client = CONTAINER_OF(list, struct client, again);
        list_remove(&client->again);
        client_wake(client);
    }
}

static bool worker_may_accept(const struct worker *worker)
{
    unsigned count = atomic_load_explicit(&worker->proxy->connection_count, memory_order_relaxed);
    return count < worker->proxy->connection_count_max &&
           pool_in_use(&worker->clients) < worker->connection_count_max;
}

static void listener_accept(struct listener *listener)
{
    struct worker *worker = listener->worker;

    listener->pending = true;
    for (unsigned i = 0; i < accepts_per_turn; i++) {
        int fd = -1;
        struct address peer;
        if (!worker_may_accept(worker)) {
            return; // connections wait in the kernel's queue until housekeeping tries again
        }
        enum status status = tcp_accept(listener->source.fd, &fd, &peer);
        if (status != STATUS_OK) {
            listener->pending = status == STATUS_EXHAUSTED;
            return;
        }
        client_open(worker, fd, &peer);
    }
    loop_wake(worker->loop); // other events first, then the rest of the queue
}

static void worker_listener_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    listener_accept((struct listener *)source);
}

static void worker_accept_pending(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->listener_count; i++) {
        if (worker->listeners[i].pending) {
            listener_accept(&worker->listeners[i]);
        }
    }
}

static void worker_close_listeners(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->listener_count; i++) {
        loop_remove(worker->loop, &worker->listeners[i].source);
        tcp_close(&worker->listeners[i].source.fd);
    }
    worker->listener_count = 0;
}

// Announces requests that run for long, some of them each second.
static void worker_announce_long(struct worker *worker)
{
    struct list_node *node = worker->ring != NULL ? worker->all_clients : NULL;
    uint32_t left = announced_late_per_second;

    for (; node != NULL && left > 0; node = node->next) {
        const struct client *client = CONTAINER_OF(node, struct client, all);
        left -= client->exchange != NULL && account_announce(client->exchange);
    }
}

static void worker_set_wall(struct worker *worker)
{
    worker->wall_offset_us = clock_wall_us() - loop_now_us(worker->loop);
}

static void worker_housekeeping(struct timer *timer)
{
    struct worker *worker = CONTAINER_OF(timer, struct worker, housekeeping);
    worker_set_wall(worker);
    worker->detailed_left = detailed_per_second;
    pool_trim(&worker->buffers, pages_discard);
    pool_trim(&worker->readers, pages_discard);
    body_store_trim(&worker->bodies);
    for (uint32_t i = 0; i < observer_class_count; i++) {
        if (worker->observers[i].slot_size % 4096 == 0) {
            pool_trim(&worker->observers[i], pages_discard);
        }
    }
    worker_accept_pending(worker);
    worker_announce_long(worker);
    loop_arm(worker->loop, timer, housekeeping_ms);
}

// A route has the policies of one plan.  False when memory is short: the old one stays.
static bool worker_take_policies(struct worker *worker, const struct plan *plan)
{
    const struct config *config = plan->config;
    const struct policy *policies[fleet_pool_count_max];

    for (uint32_t i = 0; i < config->pool_count; i++) {
        policies[i] = policy_find(config->pools[i].policy);
        ASSERT(policies[i] != NULL);
    }
    struct route *route = route_create(&(struct route_options){
        .policies = policies,
        .pool_count = config->pool_count,
        .memories = plan->memories,
        .target_count_max = worker->backend_count_max,
        .knobs = config_knobs(config),
        .block_size = config->prefix.block_size,
        .block_tokens = config->prefix.block_tokens,
        .host_worth = (float)config->events.host_weight / 100,
        .disk_worth = (float)config->events.disk_weight / 100,
        .hashes_all = worker->recorder != NULL,
        .token_thread = worker->token_thread,
        .token_text_max = (size_t)4 * token_portion_max,
        .knowledge = worker->knowledge,
        .sender = worker->index,
        .seed = rng_next(&worker->rng),
        .clock_ns = worker->meters != NULL ? clock_monotonic_ns : NULL,
    });
    if (route == NULL) {
        return false;
    }
    route_destroy(&worker->route);
    worker->route = route;
    return true;
}

// Takes the plan and the view that the keeper published since the last turn.
static void worker_take_news(struct worker *worker)
{
    const struct plan *plan = atomic_load_explicit(&worker->proxy->plan, memory_order_acquire);
    ASSERT(plan != NULL);
    if (plan != worker->plan) {
        if (worker->plan != NULL) {
            tls_context_destroy(&worker->client_tls);
        }
        if (!worker_take_policies(worker, plan)) {
            log_error("no memory for the policies of the new configuration");
        }
        worker->plan = plan;
        worker->config = plan->config;
    }
    worker->view = fleet_view(worker->fleet);
    if (worker->view->generation != worker->view_generation) {
        worker->view_generation = worker->view->generation;
        upstream_purge(worker, false);
    }
}

static void worker_end_turn(void *owner)
{
    struct worker *worker = owner;

    worker_run_again(worker);
    worker_accept_pending(worker);
    if (!worker->draining && atomic_load_explicit(&worker->proxy->draining, memory_order_acquire)) {
        worker->draining = true;
        worker_close_listeners(worker);
        client_close_idle(worker);
        upstream_purge(worker, true);
    }
    if (worker->draining && worker->all_clients == NULL) {
        atomic_store_explicit(&worker->shared.drained, true, memory_order_release);
    }
    atomic_store_explicit(&worker->shared.buffer_count, pool_in_use(&worker->buffers),
                          memory_order_relaxed);
    atomic_store_explicit(&worker->shared.upstream_idle, worker->idle_count, memory_order_relaxed);
}

static void worker_begin_turn(void *owner)
{
    struct worker *worker = owner;
    uint64_t epoch = reclaim_epoch(worker->reclaim);
    worker_take_news(worker); // closes idle connections to backends that left
    reclaim_announce(worker->reclaim, worker->index, epoch);
}

// Whole pages, so that they can be given back.
static size_t reader_slot_size(void)
{
    return (prompt_reader_size() + 4095) / 4096 * 4096;
}

struct pool_need {
    struct pool *pool;
    size_t slot_size;
    uint32_t count;
};

enum { pool_kind_count = 8 + observer_class_count };

static bool worker_reserve(struct worker *worker, uint64_t body_memory)
{
    uint32_t requests = worker->request_count_max;
    uint32_t connections = worker->connection_count_max;
    struct pool_need needs[pool_kind_count] = {
        // Whole pages first, so that they stay aligned.
        {&worker->buffers, worker->buffer_size, connections + 2 * requests},
        {&worker->readers, reader_slot_size(), requests},
        {&worker->observers[5], observer_slot_size(5), requests},
        {&worker->observers[4], observer_slot_size(4), requests},
        {&worker->observers[3], observer_slot_size(3), requests},
        {&worker->observers[2], observer_slot_size(2), requests},
        {&worker->observers[1], observer_slot_size(1), requests},
        {&worker->observers[0], observer_slot_size(0), requests},
        {&worker->clients, sizeof(struct client), connections},
        {&worker->exchanges, exchange_size(), connections},
        {&worker->requests, sizeof(struct request), connections},
        {&worker->heads, sizeof(struct http_head), requests},
        // One for each connection, not only for each request: a client that sends the first bytes
        // of many requests must not keep others from being counted.
        {&worker->accounts, sizeof(struct account), connections},
        // One for each request, one that it closed this turn, and the idle ones.
        {&worker->upstreams, sizeof(struct upstream), 2 * requests + worker->idle_count_max},
    };
    size_t size = 0;
    for (uint32_t i = 0; i < pool_kind_count; i++) {
        size += (pool_memory_size(needs[i].slot_size, needs[i].count) + 4095) / 4096 * 4096;
    }
    uint8_t *memory = pages_reserve(size);
    if (memory == NULL) {
        return false;
    }
    worker->memory = memory;
    worker->memory_size = size;
    for (uint32_t i = 0; i < pool_kind_count; i++) {
        pool_init(needs[i].pool, memory, needs[i].slot_size, needs[i].count);
        memory += (pool_memory_size(needs[i].slot_size, needs[i].count) + 4095) / 4096 * 4096;
    }
    ASSERT(memory == (uint8_t *)worker->memory + size);
    worker->response_head = malloc(sizeof(*worker->response_head));
    worker->event_space = malloc(event_space_size);
    worker->idle = calloc(worker->backend_count_max, sizeof(struct list_node *));
    uint64_t block = worker->body_size_max + trailer_room;
    return worker->response_head != NULL && worker->event_space != NULL && worker->idle != NULL &&
           body_store_init(&worker->bodies, block > body_block_min ? block : body_block_min,
                           body_memory, &worker->proxy->body_memory);
}

static void worker_set_sizes(struct worker *worker, const struct config *config)
{
    uint32_t header_size = config->limits.header_size;
    worker->head_size_max = header_size;
    worker->read_size = header_size > read_size_min ? header_size : read_size_min;
    worker->buffer_size = (worker->read_size + head_extra + 4095) / 4096 * 4096;
    worker->connection_count_max = config->limits.connections;
    worker->request_count_max = config->limits.requests;
    worker->body_size_max = config->limits.body_size;
    worker->backend_count_max = config->limits.backends;
    worker->idle_count_max = config->limits.requests + config->limits.backends;
    ASSERT(worker->connection_count_max > 0 && worker->request_count_max > 0);
}

// The worker owns them from here on.
static void worker_take_listeners(struct worker *worker, const int *fds, uint32_t count)
{
    ASSERT(count <= listener_count_max);
    for (uint32_t i = 0; i < count; i++) {
        worker->listeners[i] = (struct listener){
            .source = {.fd = fds[i], .ready = worker_listener_ready}, .worker = worker};
    }
    worker->listener_count = count;
}

static enum status worker_listen(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->listener_count; i++) {
        if (loop_add(worker->loop, &worker->listeners[i].source) != STATUS_OK) {
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

static void worker_close_all(struct worker *worker)
{
    worker_close_listeners(worker);
    while (worker->all_clients != NULL) {
        struct client *client = CONTAINER_OF(worker->all_clients, struct client, all);
        if (client->exchange != NULL) {
            exchange_abort(client->exchange);
        } else {
            client_end(client, CLIENT_RESET);
        }
    }
    upstream_purge(worker, true);
    loop_turn(worker->loop, 0); // recycles the closed connections
    ASSERT(worker->again == NULL && worker->lane.owner == NULL);
}

static void worker_run(void *owner)
{
    struct worker *worker = owner;
    loop_on_begin(worker->loop, worker_begin_turn, worker);
    loop_run(worker->loop, worker_end_turn, worker);
    worker_close_all(worker);
    reclaim_leave(worker->reclaim, worker->index);
}

static void worker_free(struct worker **worker_ptr)
{
    struct worker *worker = *worker_ptr;
    *worker_ptr = NULL;

    worker_close_listeners(worker);
    if (worker->memory != NULL) {
        pool_fini(&worker->buffers);
        pool_fini(&worker->clients);
        pool_fini(&worker->exchanges);
        pool_fini(&worker->requests);
        pool_fini(&worker->readers);
        pool_fini(&worker->heads);
        pool_fini(&worker->accounts);
        pool_fini(&worker->upstreams);
        for (uint32_t i = 0; i < observer_class_count; i++) {
            pool_fini(&worker->observers[i]);
        }
        pages_release(&worker->memory, worker->memory_size);
    }
    body_store_fini(&worker->bodies);
    pages_release(&worker->meters, meters_size(worker->backend_count_max));
    route_destroy(&worker->route);
    token_reader_destroy(&worker->lane.reader);
    token_thread_destroy(&worker->token_thread);
    tls_context_destroy(&worker->client_tls);
    loop_destroy(&worker->loop);
    free(worker->response_head);
    free(worker->event_space);
    free(worker->idle);
    free(worker);
}

static bool worker_setup_meters(struct worker *worker, const struct config *config)
{
    if (!config->metrics.enabled) {
        return true;
    }
    void *block = pages_reserve(meters_size(worker->backend_count_max));
    worker->meters = block != NULL ? meters_over(block, worker->backend_count_max) : NULL;
    return worker->meters != NULL;
}

static bool worker_setup_tokenizer(struct worker *worker, const struct worker_options *options)
{
    if (options->dialects == NULL) {
        return true;
    }
    worker->token_thread = token_thread_create(options->dialects, options->index);
    if (worker->token_thread != NULL) {
        worker->lane.reader = token_reader_create(worker->token_thread, options->token_text_max);
    }
    return worker->lane.reader != NULL;
}

enum status worker_start(const struct worker_options *options, struct worker **out)
{
    enum status status = STATUS_IO;
    struct worker *worker = aligned_alloc(64, sizeof(*worker));
    ASSERT(worker != NULL);
    *worker = (struct worker){
        .proxy = options->proxy,
        .fleet = options->fleet,
        .reclaim = options->reclaim,
        .knowledge = options->knowledge,
        .recorder = options->recorder,
        .ring = options->ring,
        .index = options->index,
        .rng.state = clock_entropy(),
        .housekeeping.fire = worker_housekeeping,
    };
    const struct plan *plan = atomic_load_explicit(&options->proxy->plan, memory_order_acquire);
    worker_set_sizes(worker, plan->config);
    worker->is_traced = plan->config->tracing.endpoint != NULL;
    worker_take_listeners(worker, options->listener_fds, options->listener_count);
    if (loop_create(&worker->loop) != STATUS_OK || worker_listen(worker) != STATUS_OK) {
        goto out;
    }
    if (!worker_setup_meters(worker, plan->config) ||
        !worker_reserve(worker, plan->config->limits.body_memory) ||
        !worker_setup_tokenizer(worker, options)) {
        goto out;
    }
    worker_take_news(worker);
    if (worker->route == NULL) {
        goto out;
    }
    retry_budget_start(&worker->retry_budget,
                       &(struct retry_budget_rules){plan->config->retry.budget_percent,
                                                    plan->config->retry.budget_min},
                       loop_now_ms(worker->loop));
    worker_set_wall(worker);
    worker->detailed_left = detailed_per_second;
    loop_arm(worker->loop, &worker->housekeeping, housekeeping_ms);
    if (thread_start("worker", worker_run, worker, &worker->thread) != STATUS_OK) {
        goto out;
    }
    *out = worker;
    worker = NULL; // now the caller's
    status = STATUS_OK;

out:
    if (worker != NULL) {
        worker_free(&worker);
    }
    return status;
}

void worker_stop(struct worker **worker_ptr)
{
    struct worker *worker = *worker_ptr;
    if (worker == NULL) {
        return;
    }
    ASSERT(worker->thread != NULL);
    loop_stop(worker->loop);
    thread_join(&worker->thread);
    worker_free(worker_ptr);
}
