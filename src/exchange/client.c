// SPDX-License-Identifier: Apache-2.0

#include "exchange/client.h"

#include "base/base.h"
#include "config/config.h"
#include "exchange/exchange.h"

enum {
    // How long the rest of a request that was refused is read.
    linger_ms = 2000,
    // Requests sent ahead that are served in one turn; then others have theirs.
    requests_per_turn = 16,
};

static void client_recycle(struct loop_deferred *deferred)
{
    struct client *client = CONTAINER_OF(deferred, struct client, recycle);
    struct worker *worker = client->worker;
    pool_put(&worker->clients, &client);
}

static void client_close(struct client *client, enum transport_end end)
{
    struct worker *worker = client->worker;

    ASSERT(client->exchange == NULL && client_is_open(client));
    buffer_put(worker, &client->in);
    loop_disarm(worker->loop, &client->timer);
    transport_close(&client->transport, worker->loop, end);
    list_remove(&client->all);
    list_remove(&client->again);
    atomic_fetch_sub_explicit(&worker->proxy->connection_count, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&worker->shared.client_count, 1, memory_order_relaxed);
    loop_defer(worker->loop, &client->recycle);
}

void client_set_deadline(struct client *client, uint64_t delay_ms)
{
    struct loop *loop = client->worker->loop;

    client->deadline_ms = delay_ms == 0 ? UINT64_MAX : loop_now_ms(loop) + delay_ms;
    // A timer that is due earlier looks at the deadline when it fires; most never have to move.
    if (delay_ms != 0 &&
        (!timer_is_armed(&client->timer) || client->timer.due_ms > client->deadline_ms)) {
        loop_arm(loop, &client->timer, delay_ms);
    }
}

static void client_expire(struct timer *timer)
{
    struct client *client = CONTAINER_OF(timer, struct client, timer);
    struct loop *loop = client->worker->loop;
    uint64_t now_ms = loop_now_ms(loop);

    if (client->deadline_ms == UINT64_MAX) {
        return;
    }
    if (now_ms < client->deadline_ms) {
        loop_arm(loop, timer, client->deadline_ms - now_ms);
    } else if (client->exchange != NULL) {
        exchange_expire(client->exchange);
    } else {
        client_close(client, TRANSPORT_ORDERLY);
    }
}

static void client_ready(struct loop_source *source, uint32_t events)
{
    struct client *client = (struct client *)source;
    transport_note(&client->transport, events);
    client_wake(client);
}

void client_open(struct worker *worker, int fd, const struct address *peer)
{
    struct client *client = pool_take(&worker->clients);
    ASSERT(client != NULL); // the listener counts before it accepts

    *client = (struct client){
        .transport.source.ready = client_ready,
        .worker = worker,
        .timer.fire = client_expire,
        .recycle.run = client_recycle,
        .peer = *peer,
    };
    struct tls_context *context =
        worker->plan->server_tls != NULL ? worker->plan->server_tls[worker->index] : NULL;
    if (transport_open(&client->transport, worker->loop, fd, context, NULL) != STATUS_OK) {
        pool_put(&worker->clients, &client);
        return;
    }
    list_push(&worker->all_clients, &client->all);
    atomic_fetch_add_explicit(&worker->proxy->connection_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->shared.client_count, 1, memory_order_relaxed);
    client_set_deadline(client, worker->config->timeouts.header);
}

enum status client_fill(struct client *client)
{
    struct worker *worker = client->worker;
    size_t size = 0;

    if (client->in.bytes == NULL && !buffer_take(worker, &client->in)) {
        return STATUS_EXHAUSTED;
    }
    if (client->in.end == worker->buffer_size) {
        return STATUS_TOO_LARGE;
    }
    if (!client->transport.can_read) {
        return STATUS_AGAIN;
    }
    enum status status = transport_read(&client->transport, client->in.bytes + client->in.end,
                                        worker->buffer_size - client->in.end, &size);
    if (status == STATUS_OK) {
        client->in.end += (uint32_t)size;
    }
    return status;
}

void client_again(struct client *client)
{
    struct worker *worker = client->worker;
    if (!list_has(&client->again)) {
        list_push(&worker->again, &client->again);
        loop_wake(worker->loop);
    }
}

// Reads and drops until the peer is done.
static void client_drop_input(struct client *client)
{
    enum status status = STATUS_OK;
    for (unsigned turn = 0; status == STATUS_OK && turn < client_reads_per_turn; turn++) {
        client->in.end = 0;
        status = client_fill(client);
    }
    buffer_put(client->worker, &client->in);
    if (status == STATUS_OK) {
        client_again(client);
    } else if (status != STATUS_AGAIN) {
        client_close(client, TRANSPORT_ORDERLY);
    }
}

// Whether an exchange could be begun: bytes wait, or may.
static bool client_begin(struct client *client)
{
    struct worker *worker = client->worker;

    if (client->in.bytes == NULL) {
        enum status status = client_fill(client);
        if (status == STATUS_AGAIN) {
            buffer_put(worker, &client->in);
            return false;
        }
        if (status != STATUS_OK) {
            client_close(client, TRANSPORT_ORDERLY);
            return false;
        }
    }
    exchange_start(client);
    return true;
}

static bool client_handshake(struct client *client)
{
    enum status status = transport_handshake(&client->transport);
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        client_close(client, TRANSPORT_TRUNCATE);
    }
    return status == STATUS_OK;
}

void client_wake(struct client *client)
{
    for (unsigned turn = 0; client_is_open(client); turn++) {
        if (turn == requests_per_turn) {
            client_again(client); // many requests sent ahead, and others wait
            return;
        }
        if (client->transport.handshaking && !client_handshake(client)) {
            return;
        }
        if (client->is_lingering) {
            client_drop_input(client);
            return;
        }
        if (client->exchange == NULL && !client_begin(client)) {
            return;
        }
        exchange_run(client->exchange);
        if (client->exchange != NULL) {
            return; // parked
        }
    }
}

enum status client_write(struct client *client, const struct slice *parts, uint32_t count,
                         size_t *moved)
{
    struct transport *transport = &client->transport;
    return transport->can_write ? transport_write(transport, parts, count, moved) : STATUS_AGAIN;
}

size_t client_unsent(const struct client *client)
{
    return transport_unsent(&client->transport);
}

bool client_is_gone(const struct client *client)
{
    const struct transport *transport = &client->transport;
    return transport->is_dead || (transport->hung_up && !client->worker->config->half_close);
}

static void client_linger(struct client *client)
{
    ASSERT(!client->is_lingering);
    buffer_put(client->worker, &client->in);
    transport_finish(&client->transport);
    client->is_lingering = true;
    client_set_deadline(client, linger_ms);
}

static bool client_has_unread(const struct client *client)
{
    const struct transport *transport = &client->transport;
    return client->in.bytes != NULL || (transport->tls == NULL && transport->can_read);
}

void client_end(struct client *client, enum client_end end)
{
    ASSERT(client->exchange == NULL);
    switch (end) {
    case CLIENT_KEEP:
        client_set_deadline(client, client->worker->config->timeouts.keepalive);
        return;
    case CLIENT_CLOSE:
        if (client_has_unread(client)) {
            client_linger(client);
        } else {
            client_close(client, TRANSPORT_ORDERLY);
        }
        return;
    case CLIENT_LINGER:
        client_linger(client);
        return;
    case CLIENT_TRUNCATE:
        client_close(client, TRANSPORT_TRUNCATE);
        return;
    case CLIENT_RESET:
        client_close(client, TRANSPORT_ABORT);
        return;
    }
    ASSERT(false);
}

void client_close_idle(struct worker *worker)
{
    struct list_node *node = worker->all_clients;
    while (node != NULL) {
        struct client *client = CONTAINER_OF(node, struct client, all);
        node = node->next;
        if (client->exchange == NULL && !client->is_lingering) {
            client_close(client, TRANSPORT_ORDERLY);
        }
    }
}
