// SPDX-License-Identifier: Apache-2.0
//
// mesh_guest.h -- a connection that the test makes by hand: a stranger without TLS, or a router
// that has the key and misbehaves.
#pragma once

#include "cluster/mesh_scene.h"
#include "cluster/mesh_wire.h"
#include "net/tls.h"
#include "net/tls_peer.h"

#include <errno.h>
#include <unistd.h>

struct guest {
    struct tls_session *tls; // NULL: plain
    size_t in_size;
    int fd;
    bool is_open; // the other side has not ended it
    uint8_t in[4096];
};

static inline void guest_connect(struct guest *guest, const struct scene_router *router)
{
    struct address address;
    *guest = (struct guest){.fd = -1, .is_open = true};
    ASSERT(address_parse(router->address, &address) == STATUS_OK);
    ASSERT(tcp_connect(&address, &guest->fd) == STATUS_OK);
}

static inline void guest_connect_tls(struct guest *guest, const struct scene_router *router,
                                     const struct tls_peer_options *options)
{
    struct tls_context *context = NULL;
    char error[tls_error_size];
    guest_connect(guest, router);
    ASSERT(tls_peer_create(options, &context, error) == STATUS_OK);
    ASSERT(tls_session_open(context, guest->fd, "127.0.0.1", &guest->tls) == STATUS_OK);
    tls_context_destroy(&context);
}

static inline void guest_close(struct guest *guest)
{
    tls_session_close(&guest->tls, false);
    tcp_close(&guest->fd);
}

// Takes what has come.
static inline void guest_step(struct guest *guest)
{
    enum status status = STATUS_OK;
    while (guest->is_open && status == STATUS_OK && guest->in_size < sizeof(guest->in)) {
        size_t size = 0;
        uint8_t *end = guest->in + guest->in_size;
        size_t room = sizeof(guest->in) - guest->in_size;
        status = guest->tls != NULL ? tls_read(guest->tls, end, room, &size)
                                    : tcp_read(guest->fd, end, room, &size);
        guest->in_size += status == STATUS_OK ? size : 0;
        // Until the connection is made, TLS meets ENOTCONN.
        guest->is_open = status == STATUS_OK || status == STATUS_AGAIN;
    }
}

// False: not now.
static inline bool guest_send(struct guest *guest, const void *bytes, size_t size)
{
    size_t moved = 0;
    struct slice slice = slice_of(bytes, size);
    enum status status = guest->tls != NULL ? tls_write(guest->tls, slice, &moved)
                                            : tcp_write(guest->fd, &slice, 1, &moved);
    ASSERT(status != STATUS_OK || moved == size);
    return status == STATUS_OK;
}

static inline bool guest_send_hello(struct guest *guest, uint64_t router)
{
    uint8_t bytes[mesh_hello_size_max];
    struct mesh_hello hello = {.router = router, .name = slice_str("guest")};
    return guest_send(guest, bytes, mesh_hello_write(&hello, bytes));
}

// The condition may have an effect: it is true once.
#define GUEST_UNTIL(scene, guest, condition)                                                       \
    do {                                                                                           \
        uint64_t guest_end_ms = scene_now_ms() + scene_patience_ms;                                \
        bool guest_is_done = false;                                                                \
        while (!guest_is_done && scene_now_ms() < guest_end_ms) {                                  \
            scene_turn(scene);                                                                     \
            guest_step(guest);                                                                     \
            guest_is_done = (condition);                                                           \
        }                                                                                          \
        if (!guest_is_done) {                                                                      \
            test_fail(__FILE__, __LINE__, "%s", #condition);                                       \
            return;                                                                                \
        }                                                                                          \
    } while (0)
