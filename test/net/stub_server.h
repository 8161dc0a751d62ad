// SPDX-License-Identifier: Apache-2.0
//
// stub_server.h -- a backend in the loop of the test: it knows a few paths, sends the bytes that
// the test gave for each, and counts.  It responds when it has the whole request.
#pragma once

#include "base/base.h"
#include "base/slice.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "sys/loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>

enum stub_end {
    STUB_STAYS,  // the client has to close
    STUB_CLOSES, // behind the answer
    STUB_RESETS, // behind the answer
};

struct stub_route {
    const char *path;
    struct slice answer; // empty: silence
    size_t portion;      // that many bytes each millisecond; 0: all at once
    enum stub_end end;
    uint32_t count; // of requests
    // Where the answer depends on what is asked: sets `answer`.  May be NULL.
    void (*compute)(struct stub_route *route, struct slice body);
    void *owner;
};

enum { stub_route_count_max = 4, stub_request_size_min = 16384 };

struct stub_server {
    struct loop_source source; // first: the listener's `ready` finds us from here
    struct loop *loop;
    struct tls_context *tls; // NULL: plain
    struct address address;
    uint16_t port;
    bool slams; // the door: connections are reset as they come
    struct stub_route routes[stub_route_count_max];
    struct stub_connection *connections;
    uint32_t open_count;
    uint32_t accepted_count;
    char *request; // the last one, as it came
};

struct stub_connection {
    struct transport transport; // first: `ready` finds us from here
    struct stub_connection *next;
    struct stub_server *server;
    struct stub_route *route; // NULL until the request is whole
    struct timer timer;
    struct loop_deferred recycle;
    char *in;
    size_t in_size;
    size_t in_capacity;
    size_t sent;
};

static inline void stub_recycle(struct loop_deferred *deferred)
{
    struct stub_connection *c =
        (struct stub_connection *)((char *)deferred - offsetof(struct stub_connection, recycle));
    free(c->in);
    free(c);
}

static inline void stub_drop(struct stub_connection *c, enum transport_end end)
{
    struct stub_connection **link = &c->server->connections;
    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    c->server->open_count--;
    loop_disarm(c->server->loop, &c->timer);
    transport_close(&c->transport, c->server->loop, end);
    loop_defer(c->server->loop, &c->recycle);
}

static inline void stub_write(struct stub_connection *c)
{
    const struct stub_route *route = c->route;
    size_t left = route->answer.size - c->sent;
    bool whole = route->portion == 0 || route->portion >= left;
    size_t until = whole ? route->answer.size : c->sent + route->portion;

    while (c->sent < until) {
        struct slice part = slice_of(route->answer.bytes + c->sent, until - c->sent);
        size_t size = 0;
        enum status status = transport_write(&c->transport, &part, 1, &size);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK) {
            stub_drop(c, TRANSPORT_ORDERLY);
            return;
        }
        c->sent += size;
    }
    if (!whole) {
        loop_arm(c->server->loop, &c->timer, 1);
    } else if (route->end != STUB_STAYS) {
        stub_drop(c, route->end == STUB_RESETS ? TRANSPORT_ABORT : TRANSPORT_ORDERLY);
    }
}

static inline void stub_write_more(struct timer *timer)
{
    stub_write((struct stub_connection *)((char *)timer - offsetof(struct stub_connection, timer)));
}

// "GET /path HTTP/1.1"; the path must be one that the test has named.
static inline struct stub_route *stub_find(struct stub_server *server, const char *request)
{
    const char *path = strchr(request, ' ') + 1;
    size_t size = strcspn(path, " ");
    for (uint32_t i = 0; i < stub_route_count_max; i++) {
        struct stub_route *route = &server->routes[i];
        if (route->path != NULL && slice_is(slice_of(path, size), route->path)) {
            return route;
        }
    }
    ASSERT(false);
    return NULL;
}

// The body, when all of it is there.
static inline bool stub_is_whole(const struct stub_connection *c, struct slice *body)
{
    const char *end = strstr(c->in, "\r\n\r\n");
    const char *length = strstr(c->in, "\r\ncontent-length: ");
    size_t size = 0;

    if (end == NULL) {
        return false;
    }
    if (length != NULL && length < end) {
        size = strtoull(length + strlen("\r\ncontent-length: "), NULL, 10);
    }
    *body = slice_of(end + 4, size);
    return (size_t)(end + 4 - c->in) + size <= c->in_size;
}

static inline void stub_make_room(struct stub_connection *c)
{
    if (c->in_capacity - c->in_size < stub_request_size_min / 2) {
        c->in_capacity = 2 * c->in_capacity + stub_request_size_min;
        c->in = realloc(c->in, c->in_capacity);
        ASSERT(c->in != NULL);
    }
}

static inline enum status stub_read(struct stub_connection *c)
{
    for (;;) {
        struct slice body;
        size_t size = 0;
        stub_make_room(c);
        enum status status = transport_read(&c->transport, c->in + c->in_size,
                                            c->in_capacity - 1 - c->in_size, &size);
        if (status != STATUS_OK) {
            return status;
        }
        c->in_size += size;
        c->in[c->in_size] = '\0';
        if (c->route != NULL || !stub_is_whole(c, &body)) {
            continue;
        }
        c->server->request = realloc(c->server->request, c->in_size + 1);
        ASSERT(c->server->request != NULL);
        memcpy(c->server->request, c->in, c->in_size + 1);
        c->route = stub_find(c->server, c->in);
        c->route->count++;
        if (c->route->compute != NULL) {
            c->route->compute(c->route, body);
        }
    }
}

static inline void stub_ready(struct loop_source *source, uint32_t events)
{
    struct stub_connection *c = (struct stub_connection *)source;
    transport_note(&c->transport, events);
    enum status status = transport_handshake(&c->transport);
    if (status == STATUS_OK) {
        status = stub_read(c);
    }
    if (status != STATUS_AGAIN) {
        stub_drop(c, TRANSPORT_ORDERLY);
    } else if (c->route != NULL && !timer_is_armed(&c->timer)) {
        stub_write(c);
    }
}

static inline void stub_take(struct stub_server *server, int fd)
{
    struct stub_connection *c = calloc(1, sizeof(*c));
    ASSERT(c != NULL);
    c->transport.source.ready = stub_ready;
    c->server = server;
    c->timer.fire = stub_write_more;
    c->recycle.run = stub_recycle;
    ASSERT(transport_open(&c->transport, server->loop, fd, server->tls, NULL) == STATUS_OK);
    c->next = server->connections;
    server->connections = c;
    server->open_count++;
}

static inline void stub_accept(struct loop_source *source, uint32_t events)
{
    struct stub_server *server = (struct stub_server *)source;
    struct address peer;
    int fd = -1;

    (void)events;
    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        server->accepted_count++;
        if (server->slams) {
            tcp_abort_on_close(fd);
            tcp_close(&fd);
        } else {
            stub_take(server, fd);
        }
    }
}

// On 127.0.0.1 and a port of the kernel's choice.
static inline void stub_start(struct stub_server *server, struct loop *loop)
{
    struct address address;

    *server = (struct stub_server){.loop = loop, .source = {.ready = stub_accept}};
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &server->source.fd) == STATUS_OK);
    ASSERT(tcp_local(server->source.fd, &server->address) == STATUS_OK);
    server->port =
        ntohs(((const struct sockaddr_in *)(const void *)server->address.bytes)->sin_port);
    ASSERT(loop_add(loop, &server->source) == STATUS_OK);
}

// Between turns.
static inline void stub_stop(struct stub_server *server)
{
    while (server->connections != NULL) {
        stub_drop(server->connections, TRANSPORT_ORDERLY);
    }
    loop_remove(server->loop, &server->source);
    tcp_close(&server->source.fd);
    loop_turn(server->loop, 0);
    free(server->request);
    server->request = NULL;
}
