// SPDX-License-Identifier: Apache-2.0
//
// zmq_peer.h -- the sockets of an engine, by the library that engines use.
//
// All in the thread of the test: a peer is pumped between the turns of the code under test.
#pragma once

#include "base/base.h"
#include "base/slice.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

enum { peer_address_size = 128 };

struct zmq_peer {
    void *context;
    void *socket;
    char address[peer_address_size]; // where it is bound
};

static inline void peer_begin(struct zmq_peer *peer, int type)
{
    int linger = 0;
    int reconnect_ms = 10;
    int waiting_max = 100000; // as vLLM's; the library's own 1000 loses messages of a burst

    peer->context = zmq_ctx_new();
    peer->socket = zmq_socket(peer->context, type);
    ASSERT(peer->socket != NULL);
    ASSERT(zmq_setsockopt(peer->socket, ZMQ_LINGER, &linger, sizeof(linger)) == 0);
    ASSERT(zmq_setsockopt(peer->socket, ZMQ_SNDHWM, &waiting_max, sizeof(waiting_max)) == 0);
    ASSERT(zmq_setsockopt(peer->socket, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof(reconnect_ms)) ==
           0);
}

// `address` NULL: any port.  Somebody who has just left it may need a moment.
static inline void peer_bind(struct zmq_peer *peer, int type, const char *address)
{
    size_t size = peer_address_size;

    peer_begin(peer, type);
    while (zmq_bind(peer->socket, address != NULL ? address : "tcp://127.0.0.1:*") == -1) {
        ASSERT(errno == EADDRINUSE);
    }
    ASSERT(zmq_getsockopt(peer->socket, ZMQ_LAST_ENDPOINT, peer->address, &size) == 0);
}

static inline void peer_connect(struct zmq_peer *peer, int type, const char *address)
{
    peer_begin(peer, type);
    ASSERT(zmq_connect(peer->socket, address) == 0);
}

static inline void peer_close(struct zmq_peer *peer)
{
    if (peer->socket != NULL) {
        ASSERT(zmq_close(peer->socket) == 0);
        ASSERT(zmq_ctx_term(peer->context) == 0);
        peer->socket = NULL;
    }
}

static inline void peer_send(struct zmq_peer *peer, const struct slice *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int more = i + 1 < count ? ZMQ_SNDMORE : 0;
        int size = zmq_send(peer->socket, frames[i].bytes, frames[i].size, more | ZMQ_DONTWAIT);
        ASSERT(size == (int)frames[i].size);
    }
}

// The next frame, copied.  -1: there is none.
static inline int peer_receive(struct zmq_peer *peer, void *bytes, size_t size)
{
    return zmq_recv(peer->socket, bytes, size, ZMQ_DONTWAIT);
}
