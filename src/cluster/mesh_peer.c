// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/text.h"
#include "cluster/mesh_internal.h"
#include "net/tcp.h"
#include "sys/log.h"

#include <stdio.h>
#include <stdlib.h>

struct mesh_peer *mesh_peer_find(struct mesh_link *link, uint64_t router)
{
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        if (link->peers[i].router == router) {
            return &link->peers[i];
        }
    }
    return NULL;
}

static bool mesh_peer_has_memory(struct mesh_peer *peer, size_t out_size)
{
    if (peer->in == NULL) {
        peer->in = malloc(mesh_in_size);
    }
    if (peer->queue.bytes == NULL) {
        mesh_queue_init(&peer->queue, malloc(out_size), out_size);
    }
    return peer->in != NULL && peer->queue.bytes != NULL;
}

static void mesh_peer_set_address(struct mesh_peer *peer, const struct mesh_connection *connection)
{
    const struct mesh_dial *dial = mesh_dial_of(connection->link, peer->router);
    struct text text = text_over(peer->address, sizeof(peer->address) - 1);

    if (dial != NULL) {
        text_add_str(&text, dial->text);
    } else {
        address_format(&connection->remote, &text);
    }
    peer->address[text.size] = '\0';
}

void mesh_peer_come(struct mesh_connection *connection)
{
    struct mesh_link *link = connection->link;
    const struct mesh_hello *hello = &connection->hello;
    struct mesh_peer *peer = mesh_peer_find(link, 0);

    if (peer == NULL) {
        snprintf(link->why, sizeof(link->why), "%d routers are connected, the most that may be",
                 link_peer_count_max);
        mesh_connection_end(connection, MESH_END_FAILED, link->why);
        return;
    }
    if (!mesh_peer_has_memory(peer, link->out_size_max)) {
        mesh_connection_end(connection, MESH_END_FAILED, "no memory");
        return;
    }
    uint64_t now_ms = loop_now_ms(link->loop);
    *peer = (struct mesh_peer){
        .router = hello->router,
        .connection = connection,
        .came_ms = now_ms,
        .heard_ms = now_ms,
        .sent_ms = now_ms,
        .queue = peer->queue,
        .in = peer->in,
    };
    mesh_queue_init(&peer->queue, peer->queue.bytes, link->out_size_max);
    snprintf(peer->name, sizeof(peer->name), "%.*s", (int)hello->name.size,
             (const char *)hello->name.bytes);
    mesh_peer_set_address(peer, connection);
    connection->peer = peer;
    connection->phase = MESH_UP;
    bool has_room = mesh_queue_put(&peer->queue, (struct slice){0});
    ASSERT(has_room);
    mesh_dial_router_came(link, peer->router);
    log_info("cluster: peer %s: connected: router %s", peer->address, peer->name);
    link->events->came(link->owner, peer->router, peer->name, hello->hello);
}

void mesh_peer_leave(struct mesh_peer *peer, const char *why)
{
    struct mesh_connection *connection = peer->connection;
    struct mesh_link *link = connection->link;
    uint64_t router = peer->router;
    uint64_t lasted_ms = loop_now_ms(link->loop) - peer->came_ms;

    log_warn("cluster: peer %s: lost: %s", peer->address, why);
    link->bytes_in += peer->bytes_in;
    link->bytes_out += peer->bytes_out;
    link->frames_dropped += peer->frames_dropped;
    *peer = (struct mesh_peer){.queue = peer->queue, .in = peer->in};
    mesh_dial_router_left(link, router, lasted_ms, why);
    link->events->left(link->owner, router);
}

// Tells the whole frames in the input.  False: the bytes are not frames.
static bool mesh_peer_tell_frames(struct mesh_peer *peer)
{
    struct mesh_link *link = peer->connection->link;
    struct slice rest = slice_of(peer->in, peer->in_size);
    enum status status = STATUS_OK;

    while (status == STATUS_OK) {
        struct slice frame = {0};
        size_t used = 0;
        status = mesh_frame_read(rest, &frame, &used);
        if (status == STATUS_OK) {
            rest = slice_of(rest.bytes + used, rest.size - used);
        }
        if (status == STATUS_OK && frame.size > 0) {
            link->events->frame(link->owner, peer->router, frame);
        }
    }
    memmove(peer->in, rest.bytes, rest.size);
    peer->in_size = rest.size;
    return status == STATUS_AGAIN;
}

void mesh_peer_read(struct mesh_peer *peer)
{
    struct mesh_connection *connection = peer->connection;
    struct mesh_link *link = connection->link;
    size_t total = 0;

    while (connection->transport.can_read) {
        size_t size = 0;
        if (total >= mesh_bytes_per_turn) {
            mesh_link_resume(link);
            return;
        }
        // Whole frames are gone, so there is room for the rest of one and a record.
        enum status status = transport_read(&connection->transport, peer->in + peer->in_size,
                                            mesh_in_size - peer->in_size, &size);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK) {
            mesh_connection_end(connection, MESH_END_FAILED,
                                status == STATUS_CLOSED ? "the other router closed the connection"
                                                        : transport_why(&connection->transport));
            return;
        }
        total += size;
        peer->in_size += size;
        peer->bytes_in += size;
        peer->heard_ms = loop_now_ms(link->loop);
        if (!mesh_peer_tell_frames(peer)) {
            snprintf(link->why, sizeof(link->why), "it sent a frame above %d bytes",
                     link_frame_size_max);
            mesh_connection_end(connection, MESH_END_FAILED, link->why);
            return;
        }
    }
}

bool mesh_peer_write(struct mesh_peer *peer)
{
    struct mesh_connection *connection = peer->connection;
    struct slice slices[2];
    size_t size = 0;

    if (peer->queue.size == 0 || !connection->transport.can_write || connection->failed != NULL) {
        return false;
    }
    uint32_t count = mesh_queue_slices(&peer->queue, slices);
    enum status status = transport_write(&connection->transport, slices, count, &size);
    if (status == STATUS_OK) {
        mesh_queue_take(&peer->queue, size);
        peer->bytes_out += size;
        peer->sent_ms = loop_now_ms(connection->link->loop);
    } else if (status != STATUS_AGAIN) {
        connection->failed = transport_why(&connection->transport);
        mesh_link_resume(connection->link);
    }
    return status == STATUS_OK && peer->queue.size > 0;
}

void mesh_peer_flush(struct mesh_peer *peer)
{
    uint64_t begin = peer->bytes_out;

    while (mesh_peer_write(peer)) {
        if (peer->bytes_out - begin >= mesh_bytes_per_turn) {
            mesh_link_resume(peer->connection->link);
            return;
        }
    }
}

void mesh_peer_tick(struct mesh_peer *peer)
{
    struct mesh_link *link = peer->connection->link;
    uint64_t now_ms = loop_now_ms(link->loop);

    if (now_ms - peer->heard_ms >= link_silence_ms) {
        snprintf(link->why, sizeof(link->why), "heard nothing for %d ms", link_silence_ms);
        mesh_connection_end(peer->connection, MESH_END_FAILED, link->why);
        return;
    }
    if (now_ms - peer->sent_ms >= link_beat_ms && peer->queue.size == 0) {
        bool has_room = mesh_queue_put(&peer->queue, (struct slice){0});
        ASSERT(has_room);
    }
    mesh_peer_flush(peer);
}
