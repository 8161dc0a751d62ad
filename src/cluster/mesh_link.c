// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_link.h"

#include "base/base.h"
#include "base/hash.h"
#include "cluster/mesh_internal.h"
#include "net/dns.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "net/tls_peer.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(mesh_name_count_max <= 64, "a bit of mesh_dial.names for each");
_Static_assert((int)tls_key_size == (int)link_secret_size, "one key");

void mesh_link_resume(struct mesh_link *link)
{
    loop_arm(link->loop, &link->resume, 0);
}

bool mesh_said_is_new(struct mesh_said *said, const char *why)
{
    uint64_t hash = hash_bytes(slice_str(why), 0);

    for (uint32_t i = 0; i < said->count; i++) {
        if (said->hashes[i] == hash) {
            return false;
        }
    }
    if (said->count == mesh_said_count_max) {
        return false;
    }
    said->hashes[said->count++] = hash;
    return true;
}

static void mesh_link_accept(struct loop_source *source, uint32_t events)
{
    struct mesh_link *link = CONTAINER_OF(source, struct mesh_link, listener);
    (void)events;
    link->can_accept = true;
    mesh_connection_accept(link);
}

static void mesh_link_fire_resume(struct timer *timer)
{
    struct mesh_link *link = CONTAINER_OF(timer, struct mesh_link, resume);

    mesh_connection_accept(link);
    for (uint32_t i = 0; i < mesh_connection_count_max; i++) {
        struct mesh_connection *connection = &link->connections[i];
        if (connection->phase == MESH_UP && connection->failed != NULL) {
            mesh_connection_end(connection, MESH_END_FAILED, connection->failed);
        } else if (connection->phase == MESH_UP) {
            mesh_connection_advance(connection);
        }
    }
}

static void mesh_link_tick(struct timer *timer)
{
    struct mesh_link *link = CONTAINER_OF(timer, struct mesh_link, tick);

    mesh_connection_accept(link); // what was left for want of descriptors
    for (uint32_t i = 0; i < mesh_connection_count_max; i++) {
        struct mesh_connection *connection = &link->connections[i];
        mesh_connection_expire(connection);
        if (connection->phase == MESH_UP) {
            mesh_peer_tick(connection->peer);
        }
    }
    loop_arm(link->loop, &link->tick, mesh_tick_ms);
}

static bool mesh_link_send(struct link *base, uint64_t to, struct slice frame)
{
    struct mesh_link *link = (struct mesh_link *)base;
    bool all = true;
    bool is_known = to == 0;

    ASSERT(frame.size > 0 && frame.size <= link_frame_size_max);
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        struct mesh_peer *peer = &link->peers[i];
        if (peer->router == 0 || (to != 0 && peer->router != to)) {
            continue;
        }
        is_known = true;
        if (!mesh_queue_put(&peer->queue, frame)) {
            peer->frames_dropped++;
            all = false;
        }
        if (mesh_peer_write(peer)) {
            mesh_link_resume(link);
        }
    }
    return all && is_known;
}

static size_t mesh_link_room(const struct link *base, uint64_t to)
{
    const struct mesh_link *link = (const struct mesh_link *)base;
    size_t room = to == 0 ? link->out_size_max - mesh_frame_head_size : 0;

    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        const struct mesh_peer *peer = &link->peers[i];
        if (peer->router == 0 || (to != 0 && peer->router != to)) {
            continue;
        }
        size_t one = mesh_queue_room(&peer->queue);
        room = to != 0 || one < room ? one : room;
    }
    return room;
}

static void mesh_link_tell_peer(const struct mesh_link *link, const struct mesh_peer *peer,
                                struct link_status *out)
{
    const struct mesh_dial *dial = mesh_dial_of(link, peer->router);
    struct link_peer_status *row = &out->peers[out->peer_count++];

    *row = (struct link_peer_status){
        .router = peer->router,
        .is_there = true,
        .heard_ms = peer->heard_ms,
        .bytes_in = peer->bytes_in,
        .bytes_out = peer->bytes_out,
        .frames_dropped = peer->frames_dropped,
    };
    memcpy(row->name, peer->name, sizeof(row->name));
    memcpy(row->address, peer->address, sizeof(row->address));
    if (dial != NULL) {
        memcpy(row->why, dial->why, sizeof(row->why));
    }
    out->bytes_in += peer->bytes_in;
    out->bytes_out += peer->bytes_out;
    out->frames_dropped += peer->frames_dropped;
}

static bool mesh_link_has_router(const struct mesh_link *link, uint64_t router)
{
    for (uint32_t i = 0; router != 0 && i < link_peer_count_max; i++) {
        if (link->peers[i].router == router) {
            return true;
        }
    }
    return false;
}

static void mesh_link_status(const struct link *base, struct link_status *out)
{
    const struct mesh_link *link = (const struct mesh_link *)base;

    *out = (struct link_status){
        .kind = "mesh",
        .is_up = true,
        .bytes_in = link->bytes_in,
        .bytes_out = link->bytes_out,
        .frames_dropped = link->frames_dropped,
    };
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        if (link->peers[i].router != 0) {
            mesh_link_tell_peer(link, &link->peers[i], out);
        }
    }
    for (uint32_t i = 0; i < mesh_dial_count_max && out->peer_count < link_peer_count_max; i++) {
        const struct mesh_dial *dial = &link->dials[i];
        if (dial->address.size == 0 || dial->is_self || mesh_link_has_router(link, dial->router)) {
            continue;
        }
        struct link_peer_status *row = &out->peers[out->peer_count++];
        *row = (struct link_peer_status){0};
        memcpy(row->name, dial->router_name, sizeof(row->name));
        memcpy(row->address, dial->text, sizeof(row->address));
        memcpy(row->why, dial->why, sizeof(row->why));
    }
}

// Also for a link that was opened in part.
static void mesh_link_destroy(struct link **base)
{
    struct mesh_link *link = (struct mesh_link *)*base;
    *base = NULL;

    loop_disarm(link->loop, &link->tick);
    loop_disarm(link->loop, &link->resume);
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        if (link->peers[i].router != 0) {
            mesh_peer_flush(&link->peers[i]);
        }
    }
    loop_disarm(link->loop, &link->resume); // the flush may have armed it
    for (uint32_t i = 0; i < mesh_connection_count_max; i++) {
        transport_close(&link->connections[i].transport, link->loop, TRANSPORT_ORDERLY);
    }
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        free(link->peers[i].queue.bytes);
        free(link->peers[i].in);
    }
    for (uint32_t i = 0; i < link->name_count; i++) {
        mesh_name_stop(&link->names[i]);
    }
    mesh_dial_stop_all(link);
    dns_destroy(&link->dns);
    loop_remove(link->loop, &link->listener);
    tcp_close(&link->listener.fd);
    tls_context_destroy(&link->server);
    tls_context_destroy(&link->client);
    free(link);
}

static enum status mesh_link_set_peers(struct mesh_link *link, const struct mesh_options *options,
                                       char error[link_error_size])
{
    bool has_names = false;

    if (options->peer_count > mesh_name_count_max) {
        snprintf(error, link_error_size, "%u peers; the most are %d", options->peer_count,
                 mesh_name_count_max);
        return STATUS_TOO_LARGE;
    }
    for (uint32_t i = 0; i < options->peer_count; i++) {
        struct mesh_name *name = &link->names[i];
        name->link = link;
        link->name_count++;
        const char *wrong = mesh_name_parse(name, options->peers[i]);
        if (wrong != NULL) {
            snprintf(error, link_error_size, "peer %s: %s", options->peers[i], wrong);
            return STATUS_MALFORMED;
        }
        has_names |= !name->is_literal;
    }
    if (!has_names) {
        return STATUS_OK;
    }
    struct dns_options dns = {.servers = options->dns_servers};
    enum status status = dns_create(link->loop, &dns, &link->dns);
    if (status != STATUS_OK) {
        snprintf(error, link_error_size, "DNS: %s", status_text(status));
    }
    return status;
}

static enum status mesh_link_set_identity(struct mesh_link *link,
                                          const struct mesh_options *options,
                                          char error[link_error_size])
{
    bool has_key = options->shared_key != NULL;
    bool has_file = options->certificate != NULL || options->key != NULL || options->ca != NULL;
    bool has_files = options->certificate != NULL && options->key != NULL && options->ca != NULL;

    if (has_key == has_file || has_file != has_files) {
        snprintf(error, link_error_size,
                 "peers need either a shared key, or a certificate with its key and authority");
        return STATUS_MALFORMED;
    }
    _Static_assert((int)tls_error_size <= (int)link_error_size, "one message");
    struct tls_peer_options tls = {
        .is_server = true,
        .shared_key = options->shared_key,
        .certificate = options->certificate,
        .key = options->key,
        .ca = options->ca,
    };
    enum status status = tls_peer_create(&tls, &link->server, error);
    if (status == STATUS_OK) {
        tls.is_server = false;
        status = tls_peer_create(&tls, &link->client, error);
    }
    return status;
}

static enum status mesh_link_listen(struct mesh_link *link, const char *listen,
                                    char error[link_error_size])
{
    struct address address;

    if (address_parse(listen, &address) != STATUS_OK) {
        snprintf(error, link_error_size, "%s: expected an address and a port", listen);
        return STATUS_MALFORMED;
    }
    enum status status = tcp_probe_bind(&address);
    status = status == STATUS_OK ? tcp_listen(&address, &link->listener.fd) : status;
    status = status == STATUS_OK ? loop_add(link->loop, &link->listener) : status;
    if (status != STATUS_OK) {
        snprintf(error, link_error_size, "%s: %s", listen, strerrordesc_np(errno));
    }
    return status;
}

static enum status mesh_link_set_hello(struct mesh_link *link, const struct link_options *options,
                                       char error[link_error_size])
{
    struct mesh_hello hello = {
        .router = options->router,
        .name = slice_of(options->name, strnlen(options->name, sizeof(options->name))),
        .hello = options->hello,
    };
    ASSERT(options->router != 0 && options->hello.size <= link_hello_size_max);
    ASSERT(options->out_size_max >= mesh_frame_head_size + link_frame_size_max);
    if (!mesh_name_is_good(hello.name)) {
        snprintf(error, link_error_size, "the name of this router is not printable");
        return STATUS_MALFORMED;
    }
    link->hello_size = mesh_hello_write(&hello, link->hello);
    return STATUS_OK;
}

static const struct link_kind mesh_kind = {
    .close = mesh_link_destroy,
    .send = mesh_link_send,
    .room = mesh_link_room,
    .status = mesh_link_status,
};

enum status mesh_link_open(const struct mesh_options *options, struct link **out,
                           char error[link_error_size])
{
    error[0] = '\0';
    struct mesh_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        snprintf(error, link_error_size, "no memory");
        return STATUS_EXHAUSTED;
    }
    link->link.kind = &mesh_kind;
    link->loop = options->link.loop;
    link->events = options->link.events;
    link->owner = options->link.owner;
    link->router = options->link.router;
    link->out_size_max = options->link.out_size_max;
    link->listener = (struct loop_source){.fd = -1, .ready = mesh_link_accept};
    link->rng.state = clock_entropy();
    link->tick.fire = mesh_link_tick;
    link->resume.fire = mesh_link_fire_resume;
    enum status status = mesh_link_set_hello(link, &options->link, error);
    status = status == STATUS_OK ? mesh_link_set_identity(link, options, error) : status;
    status = status == STATUS_OK ? mesh_link_set_peers(link, options, error) : status;
    status = status == STATUS_OK ? mesh_link_listen(link, options->listen, error) : status;
    if (status != STATUS_OK) {
        struct link *base = &link->link;
        mesh_link_destroy(&base);
        return status;
    }
    for (uint32_t i = 0; i < link->name_count; i++) {
        mesh_name_start(&link->names[i]);
    }
    loop_arm(link->loop, &link->tick, mesh_tick_ms);
    *out = &link->link;
    return STATUS_OK;
}

void mesh_link_address(const struct link *base, struct address *out)
{
    const struct mesh_link *link = (const struct mesh_link *)base;
    enum status status = tcp_local(link->listener.fd, out);
    ASSERT(status == STATUS_OK);
}
