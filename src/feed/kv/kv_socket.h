// SPDX-License-Identifier: Apache-2.0
//
// kv_socket.h -- the three kinds of ZeroMQ sockets that receive KV events.
//
//     subscribe   SUB, to a publisher that binds; tells when its connection comes and goes
//     bind        SUB, for publishers that connect; there may be many, and topics tell them apart
//     ask         DEALER, for one replay: the request is sent when it is open
//
// The number of waiting messages and their size are bounded.  A SUB that is full makes its
// publisher wait and then drop, which is a gap in the numbers; a peer that sends a larger message
// is disconnected.  Heartbeats find peers that do not respond.  The library reconnects by itself.
//
// `ready` is called when something may have come, and when a socket is opened.  The owner then
// receives until AGAIN, or comes back by itself.
//
// Threads: the loop's; the library has one of its own for I/O.  Memory: the library's.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct kv_socket;
struct kv_sockets;
struct loop;

enum {
    kv_frame_max = 6, // in one message; further ones are counted and dropped
    kv_socket_error_size = 256,
    kv_socket_address_size = 256,
    kv_socket_waiting_max = 10000,         // messages
    kv_socket_replay_waiting_max = 100000, // ten times what engines keep unless told otherwise
};

// The context that all sockets share.  Keeps `loop`.  EXHAUSTED: memory is short.  IO: see errno.
enum status kv_sockets_create(struct loop *loop, struct kv_sockets **out);

// All sockets must be closed.  Clears the caller's pointer, which may be NULL.
void kv_sockets_destroy(struct kv_sockets **sockets);

struct kv_socket_options {
    const char *address;        // as ZeroMQ spells it: tcp://10.0.0.7:5557
    const char *topic;          // prefix of topics; NULL: any
    void (*ready)(void *owner); // something may have come
    void *owner;                // kept
};

// IO: `error` says why.  An absent peer is not an error.
enum status kv_socket_subscribe(struct kv_sockets *sockets, const struct kv_socket_options *options,
                                struct kv_socket **out, char error[kv_socket_error_size]);
enum status kv_socket_bind(struct kv_sockets *sockets, const struct kv_socket_options *options,
                           struct kv_socket **out, char error[kv_socket_error_size]);
enum status kv_socket_ask(struct kv_sockets *sockets, const struct kv_socket_options *options,
                          uint64_t from, struct kv_socket **out, char error[kv_socket_error_size]);

// Clears the caller's pointer, which may be NULL.  Not within the socket's own `ready`.
void kv_socket_close(struct kv_socket **socket);

// The address of a bound socket, with the port that it got.
void kv_socket_address(const struct kv_socket *socket, char out[kv_socket_address_size]);

struct kv_frames {
    struct slice frames[kv_frame_max]; // good until the next call for this socket
    uint32_t count;                    // of the message; may be more than kv_frame_max
};

// AGAIN: no message waits.
enum status kv_socket_receive(struct kv_socket *socket, struct kv_frames *out);

enum kv_socket_news { KV_SOCKET_NO_NEWS, KV_SOCKET_CONNECTED, KV_SOCKET_DISCONNECTED };

// The next change of the connection of a SUB that subscribes.
enum kv_socket_news kv_socket_news(struct kv_socket *socket);
