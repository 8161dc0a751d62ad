// SPDX-License-Identifier: Apache-2.0
//
// run_fixture.h -- a run against a server in the same loop, which answers every request with two
// tokens, keeps connections open and can be told to take its time.
#pragma once

#include "base/base.h"
#include "drive/drive_run.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_EVENTS                                                                                 \
    "data: {\"choices\":[{\"index\":0,\"text\":\"a \"}]}\n\n"                                      \
    "data: {\"choices\":[{\"index\":0,\"text\":\"b \"}]}\n\ndata: [DONE]\n\n"

struct run_server {
    struct loop_source source; // first: `ready` finds us from here
    struct loop *loop;
    struct address address;
    uint32_t answer_ms;
    struct run_peer *peers;
};

struct run_peer {
    struct transport transport; // first
    struct run_peer *next;
    struct run_server *server;
    struct timer timer;
    char *in; // the request, as far as it has come
    size_t in_size;
};

enum { run_request_size_max = 1 << 18 };

static inline void run_answer(struct timer *timer)
{
    struct run_peer *peer = CONTAINER_OF(timer, struct run_peer, timer);
    static char answer[512];
    int size = snprintf(answer, sizeof(answer),
                        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                        "content-length: %zu\r\n\r\n%s",
                        strlen(RUN_EVENTS), RUN_EVENTS);
    struct slice bytes = slice_of(answer, (size_t)size);
    size_t sent = 0;
    if (transport_is_open(&peer->transport)) {
        // The client may have gone.
        (void)!transport_write(&peer->transport, &bytes, 1, &sent);
    }
}

// Behind its head and as many bytes as that says.
static inline bool run_request_is_whole(const struct run_peer *peer)
{
    const char *end = strstr(peer->in, "\r\n\r\n");
    const char *length = strstr(peer->in, "content-length: ");
    if (end == NULL || length == NULL) {
        return false;
    }
    size_t body = strtoul(length + strlen("content-length: "), NULL, 10);
    return peer->in_size == (size_t)(end - peer->in) + 4 + body;
}

static inline void run_peer_ready(struct loop_source *source, uint32_t events)
{
    struct run_peer *peer = (struct run_peer *)source;
    size_t size = 0;
    enum status status = STATUS_OK;
    transport_note(&peer->transport, events);
    while (status == STATUS_OK) {
        ASSERT(peer->in_size < run_request_size_max - 1);
        status = transport_read(&peer->transport, peer->in + peer->in_size,
                                run_request_size_max - 1 - peer->in_size, &size);
        peer->in_size += status == STATUS_OK ? size : 0;
    }
    peer->in[peer->in_size] = '\0';
    if (status != STATUS_AGAIN) {
        loop_disarm(peer->server->loop, &peer->timer);
        transport_close(&peer->transport, peer->server->loop, TRANSPORT_ORDERLY);
    } else if (run_request_is_whole(peer)) {
        peer->in_size = 0;
        if (peer->server->answer_ms == 0) {
            run_answer(&peer->timer);
        } else {
            loop_arm(peer->server->loop, &peer->timer, peer->server->answer_ms);
        }
    }
}

static inline void run_accept(struct loop_source *source, uint32_t events)
{
    struct run_server *server = (struct run_server *)source;
    struct address from;
    int fd = -1;
    (void)events;
    while (tcp_accept(source->fd, &fd, &from) == STATUS_OK) {
        struct run_peer *peer = calloc(1, sizeof(*peer));
        ASSERT(peer != NULL);
        peer->in = malloc(run_request_size_max);
        ASSERT(peer->in != NULL);
        peer->transport.source.ready = run_peer_ready;
        peer->server = server;
        peer->timer.fire = run_answer;
        peer->next = server->peers;
        server->peers = peer;
        ASSERT(transport_open(&peer->transport, server->loop, fd, NULL, NULL) == STATUS_OK);
    }
}

static inline void run_server_open(struct run_server *server, struct loop *loop)
{
    struct address address;
    *server = (struct run_server){.loop = loop, .source = {.ready = run_accept}};
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &server->source.fd) == STATUS_OK);
    ASSERT(tcp_local(server->source.fd, &server->address) == STATUS_OK);
    ASSERT(loop_add(loop, &server->source) == STATUS_OK);
}

// Between turns.  May be called twice.
static inline void run_server_close(struct run_server *server)
{
    if (server->source.magic == 0) {
        return;
    }
    loop_remove(server->loop, &server->source);
    tcp_close(&server->source.fd);
    while (server->peers != NULL) {
        struct run_peer *peer = server->peers;
        server->peers = peer->next;
        loop_disarm(server->loop, &peer->timer);
        transport_close(&peer->transport, server->loop, TRANSPORT_ORDERLY);
        free(peer->in);
        free(peer);
    }
}

struct scene {
    struct loop *loop;
    struct run_server server;
    struct workload *workload;
    struct drive_run_options options;
    struct drive_run *run;
};

static const struct drive_shape scene_shape = {
    .api = DRIVE_COMPLETIONS, .model = "m", .stream = true};

static inline void scene_open(struct scene *scene, const struct workload_options *workload)
{
    char error[workload_error_size];
    *scene = (struct scene){0};
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    run_server_open(&scene->server, scene->loop);
    scene->workload = workload_create(workload, error);
    ASSERT(scene->workload != NULL);
    scene->options = (struct drive_run_options){
        .client = {.loop = scene->loop,
                   .addresses = &scene->server.address,
                   .address_count = 1,
                   .host = "127.0.0.1",
                   .head = "POST /x HTTP/1.1\r\nhost: a\r\n",
                   .shape = &scene_shape,
                   .connections_max = 64,
                   .timeout_ms = 60000},
        .workload = scene->workload,
    };
}

static inline void scene_run(struct scene *scene)
{
    scene->run = drive_run_create(&scene->options);
    ASSERT(scene->run != NULL);
    drive_run(scene->run);
}

static inline void scene_close(struct scene *scene)
{
    drive_run_destroy(&scene->run);
    workload_destroy(&scene->workload);
    run_server_close(&scene->server);
    loop_destroy(&scene->loop);
}
