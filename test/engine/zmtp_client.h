// SPDX-License-Identifier: Apache-2.0
//
// zmtp_client.h -- a peer in the loop of the test, which says bytes and keeps what it hears.
//
// It knows nothing of the protocol: tests spell it out.
#pragma once

#include "base/base.h"
#include "base/slice.h"
#include "net/tcp.h"
#include "sys/loop.h"

#include <stdio.h>

#define ZERO_4 "\0\0\0\0"
#define ZERO_16 ZERO_4 ZERO_4 ZERO_4 ZERO_4
#define FILLER "\0" ZERO_16 ZERO_4 ZERO_4 ZERO_4 "\0\0\0"
#define GREETING_0 "\xff\0\0\0\0\0\0\0\0\x7f\3\0NULL" ZERO_16 FILLER
#define GREETING_1 "\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" ZERO_16 FILLER
#define READY_SUB "\4\x19\5READY\13Socket-Type\0\0\0\3SUB"
#define READY_XSUB "\4\x1a\5READY\13Socket-Type\0\0\0\4XSUB"
#define READY_XPUB "\4\x1a\5READY\13Socket-Type\0\0\0\4XPUB"
#define READY_DEALER "\4\x29\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0\0"
#define READY_ROUTER "\4\x29\5READY\13Socket-Type\0\0\0\6ROUTER\10Identity\0\0\0\0"
#define BYTES(literal) slice_of(literal, sizeof(literal) - 1)

struct zmtp_client {
    struct loop *loop;
    int fd;
    bool is_closed; // by the other side
    size_t size;
    uint8_t bytes[1 << 20];
};

static inline void client_open(struct zmtp_client *client, struct loop *loop, uint16_t port)
{
    struct address address;

    client->loop = loop;
    client->is_closed = false;
    client->size = 0;
    ASSERT(address_from_literal("127.0.0.1", port, &address) == STATUS_OK);
    ASSERT(tcp_connect(&address, &client->fd) == STATUS_OK);
    loop_turn(loop, 5);
}

static inline void client_close(struct zmtp_client *client)
{
    tcp_close(&client->fd);
}

static inline void client_say(struct zmtp_client *client, struct slice bytes)
{
    while (bytes.size > 0 && !client->is_closed) {
        size_t size = 0;
        enum status status = tcp_write(client->fd, &bytes, 1, &size);
        if (status == STATUS_OK) {
            bytes = slice_of(bytes.bytes + size, bytes.size - size);
        } else if (status != STATUS_AGAIN) {
            client->is_closed = true;
        }
        loop_turn(client->loop, 0);
    }
}

static inline void client_hear(struct zmtp_client *client)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && client->size < sizeof(client->bytes)) {
        size_t size = 0;
        status = tcp_read(client->fd, client->bytes + client->size,
                          sizeof(client->bytes) - client->size, &size);
        client->size += size;
    }
    client->is_closed |= status != STATUS_OK && status != STATUS_AGAIN;
}

// Turns until it has heard exactly these bytes, and forgets them.  False: it heard others, or none
// came.
static inline bool client_hears(struct zmtp_client *client, struct slice expected)
{
    for (int i = 0; i < 1000 && client->size < expected.size && !client->is_closed; i++) {
        loop_turn(client->loop, 5);
        client_hear(client);
    }
    if (client->size < expected.size ||
        !slice_equal(slice_of(client->bytes, expected.size), expected)) {
        for (size_t i = 0; i < client->size && i < 400; i++) {
            printf("%s%02x", i == 0 ? "# heard " : "", client->bytes[i]);
        }
        printf("\n");
        return false;
    }
    client->size -= expected.size;
    memmove(client->bytes, client->bytes + expected.size, client->size);
    return true;
}

// Turns until the other side has closed.
static inline bool client_is_dropped(struct zmtp_client *client)
{
    for (int i = 0; i < 1000 && !client->is_closed; i++) {
        loop_turn(client->loop, 5);
        client_hear(client);
    }
    return client->is_closed;
}

// A PING that gets its PONG shows that the peer is there, and that it has sent nothing else.
static inline bool client_is_in_step(struct zmtp_client *client)
{
    client_say(client, BYTES("\4\11\4PING\0\0hi"));
    return client_hears(client, BYTES("\4\7\4PONGhi")) && client->size == 0;
}
