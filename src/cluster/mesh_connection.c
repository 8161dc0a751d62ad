// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "cluster/mesh_internal.h"
#include "net/tcp.h"
#include "sys/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static void mesh_connection_ready(struct loop_source *source, uint32_t events)
{
    struct mesh_connection *connection = (struct mesh_connection *)source;
    transport_note(&connection->transport, events);
    mesh_connection_advance(connection);
}

static void mesh_connection_recycle(struct loop_deferred *deferred)
{
    struct mesh_connection *connection = CONTAINER_OF(deferred, struct mesh_connection, recycle);
    connection->phase = MESH_FREE;
}

// NULL: all slots are in use.
static struct mesh_connection *mesh_connection_take(struct mesh_link *link)
{
    for (uint32_t i = 0; i < mesh_connection_count_max; i++) {
        struct mesh_connection *connection = &link->connections[i];
        if (connection->phase == MESH_FREE) {
            *connection = (struct mesh_connection){
                .transport.source.ready = mesh_connection_ready,
                .recycle.run = mesh_connection_recycle,
                .link = link,
                .opened_ms = loop_now_ms(link->loop),
            };
            return connection;
        }
    }
    return NULL;
}

static bool mesh_connection_is_stranger(const struct mesh_connection *connection)
{
    return connection->dial == NULL &&
           (connection->phase == MESH_SHAKING || connection->phase == MESH_GREETING);
}

static void mesh_connection_log_refusal(const struct mesh_connection *connection, const char *why)
{
    char host[mesh_address_size];
    struct text text = text_over(host, sizeof(host) - 1);

    address_format_host(&connection->remote, &text);
    host[text.size] = '\0';
    log_warn_seldom(hash_bytes(text_slice(&text), 0), "cluster: connection from %s: refused: %s",
                    host, why);
}

void mesh_connection_end(struct mesh_connection *connection, enum mesh_end how, const char *why)
{
    struct mesh_link *link = connection->link;
    struct mesh_peer *peer = connection->peer;
    struct mesh_dial *dial = connection->dial;

    ASSERT(connection->phase != MESH_FREE && connection->phase != MESH_ENDED);
    connection->phase = MESH_ENDED;
    connection->peer = NULL;
    connection->dial = NULL;
    if (dial != NULL) {
        dial->connection = NULL;
    }
    transport_close(&connection->transport, link->loop, TRANSPORT_ORDERLY);
    loop_defer(link->loop, &connection->recycle);
    if (peer != NULL) {
        mesh_peer_leave(peer, why);
    } else if (dial != NULL) {
        mesh_dial_ended(dial, how, why);
    } else if (how == MESH_END_FAILED) {
        mesh_connection_log_refusal(connection, why);
    }
}

// Makes room for one more stranger.
static void mesh_connection_end_oldest(struct mesh_link *link)
{
    struct mesh_connection *oldest = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < mesh_connection_count_max; i++) {
        struct mesh_connection *connection = &link->connections[i];
        if (mesh_connection_is_stranger(connection)) {
            bool is_older = oldest == NULL || connection->opened_ms < oldest->opened_ms;
            oldest = is_older ? connection : oldest;
            count++;
        }
    }
    if (count >= mesh_stranger_count_max) {
        log_warn_seldom(0, "cluster: %u connections wait for their hello: the oldest is ended",
                        count);
        mesh_connection_end(oldest, MESH_END_QUIET, "there are too many connections");
    }
}

void mesh_connection_accept(struct mesh_link *link)
{
    for (uint32_t accepted = 0; link->can_accept; accepted++) {
        struct address remote;
        int fd = -1;
        struct mesh_connection *connection = mesh_connection_take(link);
        if (connection == NULL) {
            return; // the next tick tries again
        }
        if (accepted == mesh_accepts_per_turn) {
            mesh_link_resume(link);
            return;
        }
        enum status status = tcp_accept(link->listener.fd, &fd, &remote);
        if (status != STATUS_OK) {
            link->can_accept = status != STATUS_AGAIN; // without descriptors, the next tick tries
            return;
        }
        mesh_connection_end_oldest(link);
        connection->remote = remote;
        connection->phase = MESH_SHAKING;
        if (transport_open(&connection->transport, link->loop, fd, link->server, NULL) !=
            STATUS_OK) {
            log_warn_seldom(0, "cluster: a connection was accepted and dropped: no memory");
            connection->phase = MESH_FREE;
        }
    }
}

enum status mesh_connection_dial(struct mesh_dial *dial, const char **why)
{
    struct mesh_link *link = dial->link;
    char host[mesh_address_size];
    struct text text = text_over(host, sizeof(host) - 1);
    int fd = -1;
    struct mesh_connection *connection = mesh_connection_take(link);

    if (connection == NULL) {
        *why = "there are too many connections";
        return STATUS_EXHAUSTED;
    }
    address_format_host(&dial->address, &text);
    host[text.size] = '\0';
    enum status status = tcp_connect(&dial->address, &fd);
    if (status == STATUS_OK) {
        status = transport_open(&connection->transport, link->loop, fd, link->client, host);
    }
    if (status != STATUS_OK) {
        *why = status == STATUS_IO ? strerrordesc_np(errno) : status_text(status);
        return status;
    }
    connection->remote = dial->address;
    connection->phase = MESH_CONNECTING;
    connection->dial = dial;
    dial->connection = connection;
    return STATUS_OK;
}

// All steps: true if the next one may go on at once.

static bool mesh_connection_connect(struct mesh_connection *connection)
{
    if (!connection->transport.can_write) {
        return false;
    }
    int error = tcp_error(connection->transport.source.fd);
    if (error != 0) {
        mesh_connection_end(connection, MESH_END_FAILED, strerrordesc_np(error));
        return false;
    }
    connection->phase = MESH_SHAKING;
    return true;
}

static void mesh_connection_fail(struct mesh_connection *connection, enum status status)
{
    bool is_closed = status == STATUS_CLOSED;
    bool is_refused = is_closed && connection->phase == MESH_WAITING;
    bool is_probe = status == STATUS_IO && errno == ECONNRESET &&
                    connection->phase == MESH_SHAKING && connection->dial == NULL;
    const char *why = is_closed ? "the other router closed the connection"
                                : transport_why(&connection->transport);

    // The router with the lower id prefers another connection, which comes up by itself; and a
    // probe that looks whether the port is open is not worth a line.
    bool is_quiet =
        is_probe || (is_refused && (connection->dial == NULL || connection->dial->failures < 3));
    mesh_connection_end(connection, is_quiet ? MESH_END_QUIET : MESH_END_FAILED, why);
}

static bool mesh_connection_shake(struct mesh_connection *connection)
{
    enum status status = transport_handshake(&connection->transport);
    if (status == STATUS_OK) {
        connection->phase = MESH_GREETING;
        return true;
    }
    if (status != STATUS_AGAIN) {
        mesh_connection_fail(connection, status);
    }
    return false;
}

static bool mesh_connection_send_hello(struct mesh_connection *connection)
{
    struct mesh_link *link = connection->link;
    enum status status = STATUS_OK;

    while (status == STATUS_OK && connection->hello_sent < link->hello_size) {
        struct slice rest = slice_of(link->hello + connection->hello_sent,
                                     link->hello_size - connection->hello_sent);
        size_t size = 0;
        status = transport_write(&connection->transport, &rest, 1, &size);
        connection->hello_sent += status == STATUS_OK ? size : 0;
    }
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        mesh_connection_fail(connection, status);
    }
    return status == STATUS_OK;
}

// Reads until `bytes` holds `wanted`, and not further: frames may follow.
static bool mesh_connection_fill(struct mesh_connection *connection, uint8_t *bytes, size_t *size,
                                 size_t wanted)
{
    while (*size < wanted) {
        size_t moved = 0;
        if (!connection->transport.can_read) {
            return false;
        }
        enum status status =
            transport_read(&connection->transport, bytes + *size, wanted - *size, &moved);
        if (status != STATUS_OK) {
            if (status != STATUS_AGAIN) {
                mesh_connection_fail(connection, status);
            }
            return false;
        }
        *size += moved;
    }
    return true;
}

// The lower id chooses the connection of a pair.  True: it is this one.
static bool mesh_connection_is_chosen(struct mesh_connection *connection)
{
    struct mesh_link *link = connection->link;
    struct mesh_peer *peer = mesh_peer_find(link, connection->hello.router);

    if (peer == NULL) {
        return true;
    }
    if (loop_now_ms(link->loop) - peer->heard_ms >= mesh_stale_ms) {
        mesh_connection_end(peer->connection, MESH_END_QUIET, "a newer connection took its place");
        return true;
    }
    return false;
}

static bool mesh_connection_meet(struct mesh_connection *connection)
{
    struct mesh_link *link = connection->link;
    const struct mesh_hello *hello = &connection->hello;

    if (hello->version != mesh_version) {
        snprintf(link->why, sizeof(link->why), "it speaks version %" PRIu32 " of the wire, we %d",
                 hello->version, mesh_version);
        mesh_connection_end(connection, MESH_END_FAILED, link->why);
        return false;
    }
    if (connection->dial != NULL) {
        mesh_dial_found(connection->dial, hello);
    }
    if (hello->router == link->router) {
        mesh_connection_end(connection, MESH_END_REST, "it is this router");
        return false;
    }
    connection->phase = MESH_WAITING;
    if (link->router > hello->router) {
        return true;
    }
    if (!mesh_connection_is_chosen(connection)) {
        mesh_connection_end(connection, MESH_END_REST, "it is connected already");
        return false;
    }
    mesh_peer_come(connection);
    return false;
}

static bool mesh_connection_greet(struct mesh_connection *connection)
{
    size_t wanted = 0;

    if (!mesh_connection_send_hello(connection)) {
        return false;
    }
    enum status status = STATUS_AGAIN;
    while (status == STATUS_AGAIN) {
        status = mesh_hello_read(slice_of(connection->in, connection->in_size), &connection->hello,
                                 &wanted);
        if (status == STATUS_AGAIN &&
            !mesh_connection_fill(connection, connection->in, &connection->in_size, wanted)) {
            return false;
        }
    }
    if (status != STATUS_OK) {
        mesh_connection_end(connection, MESH_END_FAILED, "it sent an invalid hello");
        return false;
    }
    return mesh_connection_meet(connection);
}

static void mesh_connection_wait(struct mesh_connection *connection)
{
    struct mesh_link *link = connection->link;
    static const uint8_t beat[mesh_frame_head_size];

    if (!mesh_connection_fill(connection, connection->beat, &connection->beat_size,
                              mesh_frame_head_size)) {
        return;
    }
    if (memcmp(connection->beat, beat, sizeof(beat)) != 0) {
        mesh_connection_end(connection, MESH_END_FAILED, "its first message is not a beat");
        return;
    }
    struct mesh_peer *peer = mesh_peer_find(link, connection->hello.router);
    if (peer != NULL) {
        mesh_connection_end(peer->connection, MESH_END_QUIET, "a newer connection took its place");
    }
    mesh_peer_come(connection);
}

void mesh_connection_advance(struct mesh_connection *connection)
{
    bool goes_on = true;

    while (goes_on && connection->phase != MESH_WAITING) {
        switch (connection->phase) {
        case MESH_CONNECTING:
            goes_on = mesh_connection_connect(connection);
            break;
        case MESH_SHAKING:
            goes_on = mesh_connection_shake(connection);
            break;
        case MESH_GREETING:
            goes_on = mesh_connection_greet(connection);
            break;
        default:
            goes_on = false;
            break;
        }
    }
    if (connection->phase == MESH_WAITING) {
        mesh_connection_wait(connection);
    }
    if (connection->phase == MESH_UP) {
        mesh_peer_read(connection->peer);
    }
    if (connection->phase == MESH_UP) {
        mesh_peer_flush(connection->peer);
    }
}

void mesh_connection_expire(struct mesh_connection *connection)
{
    static const char *const words[] = {
        [MESH_CONNECTING] = "no connection within 3 s",
        [MESH_SHAKING] = "no TLS handshake within 3 s",
        [MESH_GREETING] = "no hello within 3 s",
        [MESH_WAITING] = "no beat within 3 s",
    };
    bool waits = connection->phase >= MESH_CONNECTING && connection->phase <= MESH_WAITING;
    if (waits && loop_now_ms(connection->link->loop) - connection->opened_ms >= mesh_greet_ms) {
        mesh_connection_end(connection, MESH_END_FAILED, words[connection->phase]);
    }
}
