// SPDX-License-Identifier: Apache-2.0

#include "worker/upstream.h"

#include "base/base.h"
#include "config/config.h"
#include "fleet/backend.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "sys/log.h"
#include "worker/worker.h"

#include <errno.h>

static struct upstream *upstream_of_timer(struct timer *timer)
{
    return CONTAINER_OF(timer, struct upstream, timer);
}

static void upstream_recycle(struct loop_deferred *deferred)
{
    struct upstream *upstream = CONTAINER_OF(deferred, struct upstream, recycle);
    struct worker *worker = upstream->worker;
    pool_put(&worker->upstreams, &upstream);
}

static void upstream_leave_idle(struct upstream *upstream)
{
    if (list_has(&upstream->idle)) {
        list_remove(&upstream->idle);
        upstream->worker->idle_count--;
    }
}

void upstream_close(struct upstream **upstream_ptr)
{
    struct upstream *upstream = *upstream_ptr;
    *upstream_ptr = NULL;

    if (upstream == NULL) {
        return;
    }
    struct worker *worker = upstream->worker;
    upstream_leave_idle(upstream);
    loop_disarm(worker->loop, &upstream->timer);
    transport_close(&upstream->transport, worker->loop, TRANSPORT_ORDERLY);
    upstream->owner = NULL;
    loop_defer(worker->loop, &upstream->recycle);
}

// No request is out, so readable data is the end, or noise that would end up in the next response.
// Under TLS, session tickets can be read too, and are harmless.
static bool upstream_is_silent(struct upstream *upstream)
{
    uint8_t byte;
    size_t size = 0;
    if (upstream->transport.hung_up) {
        return false;
    }
    return !upstream->transport.can_read ||
           transport_read(&upstream->transport, &byte, 1, &size) == STATUS_AGAIN;
}

static void upstream_ready(struct loop_source *source, uint32_t events)
{
    struct upstream *upstream = (struct upstream *)source;
    transport_note(&upstream->transport, events);
    if (upstream->owner != NULL) {
        upstream->wake(upstream->owner);
    } else if (!upstream_is_silent(upstream)) {
        upstream_close(&upstream);
    }
}

static void upstream_expire(struct timer *timer)
{
    struct upstream *upstream = upstream_of_timer(timer);
    struct worker *worker = upstream->worker;
    if (upstream->owner != NULL) {
        return; // armed again when it becomes idle
    }
    uint64_t now_ms = loop_now_ms(worker->loop);
    if (now_ms >= upstream->idle_until_ms) {
        upstream_close(&upstream);
    } else {
        loop_arm(worker->loop, timer, upstream->idle_until_ms - now_ms);
    }
}

// For connections to backends; NULL when it cannot be made, which is logged.
static struct tls_context *upstream_tls(struct worker *worker)
{
    if (worker->plan->client_tls != NULL) {
        return worker->plan->client_tls[worker->index];
    }
    if (worker->client_tls == NULL) {
        char error[tls_error_size];
        struct tls_client_options options = {.ca = worker->config->backend_tls.ca,
                                             .verify = worker->config->backend_tls.verify};
        if (tls_client_create(&options, &worker->client_tls, error) != STATUS_OK) {
            log_error_seldom(0, "TLS to backends: %s", error);
        }
    }
    return worker->client_tls;
}

static struct upstream *upstream_take_idle(struct worker *worker, const struct backend *backend)
{
    while (worker->idle[backend->slot] != NULL) {
        struct upstream *upstream =
            CONTAINER_OF(worker->idle[backend->slot], struct upstream, idle);
        if (upstream->backend == backend && upstream_is_silent(upstream)) {
            upstream_leave_idle(upstream);
            upstream->reused = true;
            worker_count(&worker->shared.upstream_reused);
            return upstream;
        }
        upstream_close(&upstream);
    }
    return NULL;
}

enum status upstream_open(struct worker *worker, struct backend *backend, bool fresh,
                          struct upstream **out)
{
    struct upstream *upstream = fresh ? NULL : upstream_take_idle(worker, backend);
    if (upstream != NULL) {
        ASSERT(upstream->owner == NULL && upstream->connected);
        *out = upstream;
        return STATUS_OK;
    }
    struct tls_context *context = NULL;
    if (backend->tls) {
        context = upstream_tls(worker);
        if (context == NULL) {
            errno = EPROTO;
            return STATUS_IO;
        }
    }
    upstream = pool_take(&worker->upstreams);
    if (upstream == NULL) {
        return STATUS_EXHAUSTED;
    }
    *upstream = (struct upstream){
        .transport.source.ready = upstream_ready,
        .worker = worker,
        .backend = backend,
        .timer.fire = upstream_expire,
        .recycle.run = upstream_recycle,
    };
    int fd = -1;
    enum status status = tcp_connect(&backend->address, &fd);
    if (status == STATUS_OK) {
        status = transport_open(&upstream->transport, worker->loop, fd, context, backend->host);
    }
    if (status != STATUS_OK) {
        pool_put(&worker->upstreams, &upstream);
        return status;
    }
    worker_count(&worker->shared.upstream_opened);
    *out = upstream;
    return STATUS_OK;
}

enum status upstream_connect(struct upstream *upstream)
{
    if (!upstream->connected) {
        if (!upstream->transport.can_write) {
            return STATUS_AGAIN;
        }
        int error = tcp_error(upstream->transport.source.fd);
        if (error != 0) {
            errno = error;
            return STATUS_IO;
        }
        upstream->connected = true;
    }
    return transport_handshake(&upstream->transport);
}

void upstream_use(struct upstream *upstream, void (*wake)(void *owner), void *owner)
{
    ASSERT(owner != NULL && upstream->owner == NULL);
    upstream->wake = wake;
    upstream->owner = owner;
}

void upstream_keep(struct upstream **upstream_ptr)
{
    struct upstream *upstream = *upstream_ptr;
    struct worker *worker = upstream->worker;
    struct backend *backend = upstream->backend;
    uint32_t keep_ms = worker->config->timeouts.backend_keepalive;

    if (keep_ms == 0 || worker->draining || worker->idle_count == worker->idle_count_max ||
        upstream->transport.hung_up ||
        atomic_load_explicit(&backend->shared.removed, memory_order_acquire)) {
        upstream_close(upstream_ptr);
        return;
    }
    ASSERT(upstream->connected && upstream->owner != NULL);
    *upstream_ptr = NULL;
    upstream->owner = NULL;
    upstream->idle_until_ms = loop_now_ms(worker->loop) + keep_ms;
    list_push(&worker->idle[backend->slot], &upstream->idle);
    worker->idle_count++;
    if (!timer_is_armed(&upstream->timer)) {
        loop_arm(worker->loop, &upstream->timer, keep_ms);
    }
}

void upstream_purge(struct worker *worker, bool all)
{
    for (uint32_t slot = 0; slot < worker->backend_count_max; slot++) {
        struct list_node *node = worker->idle[slot];
        while (node != NULL) {
            struct upstream *upstream = CONTAINER_OF(node, struct upstream, idle);
            node = node->next;
            if (all ||
                atomic_load_explicit(&upstream->backend->shared.removed, memory_order_acquire)) {
                upstream_close(&upstream);
            }
        }
    }
}
