// SPDX-License-Identifier: Apache-2.0
//
// client.h -- an accepted connection: requests come out of it one after the other.
//
// Between requests a client is only this struct.  The first bytes of a request bring a buffer and
// an exchange; requests that are sent ahead (pipelined) wait in the buffer until their turn.
//
//     open -> [ exchange ] -> idle -> [ exchange ] -> ... -> closed
//                                           \-> lingering: the response is out; the rest of a
//                                               refused request is read and dropped, so that
//                                               the peer's kernel keeps the response
//
// One timer serves all phases: the deadline moves with every byte, the timer only when it fires.
//
// The exchange uses a connection through the functions below only.  They are what another kind of
// connection, such as a stream of HTTP/2, has to offer.
//
// Threads: belongs to its worker.
#pragma once

#include "base/address.h"
#include "net/transport.h"
#include "worker/buffer.h"
#include "worker/worker.h"

// Reads per wake-up: after that others have their turn.
enum { client_reads_per_turn = 16 };

struct request;

struct client {
    struct transport transport; // first: `ready` finds us from here
    struct worker *worker;
    struct exchange *exchange; // NULL: idle
    struct buffer in;          // bytes received and not yet used
    uint64_t deadline_ms;      // UINT64_MAX: none
    struct timer timer;
    struct list_node all;   // in worker->all_clients
    struct list_node again; // in worker->again
    struct loop_deferred recycle;
    struct address peer;
    bool is_lingering;
};

// How an exchange leaves its connection.
enum client_end {
    CLIENT_KEEP,     // for the next request
    CLIENT_CLOSE,    // or lingers, if unread bytes would make the kernel discard the response
    CLIENT_LINGER,   // the client still sends: its bytes are read and dropped for a while
    CLIENT_TRUNCATE, // the response lacks its end, which its framing shows
    CLIENT_RESET,    // nothing else would show that the response lacks its end
};

// Takes the descriptor.
void client_open(struct worker *worker, int fd, const struct address *peer);

// Goes on with the exchange, or begins one if bytes are there.
void client_wake(struct client *client);

// Wakes the client next turn: it could go on now but has had its share.
void client_again(struct client *client);

// Moves the deadline to `delay_ms` from now; 0: none.
void client_set_deadline(struct client *client, uint64_t delay_ms);

// Reads once into client->in.  AGAIN, CLOSED, IO as transport_read; TOO_LARGE when it is full;
// EXHAUSTED when no buffer is free.
enum status client_fill(struct client *client);

// Reads the next request's head.  OK: it is complete.  AGAIN: more must come.  MALFORMED,
// TOO_LARGE: request->head shows why.  Otherwise as client_fill.
enum status client_read_head(struct client *client, struct request *request);

// Reads its body, to request->body.  OK: it is complete.  `moved`: bytes of it came.
enum status client_read_body(struct client *client, struct request *request, bool *moved);

// Whether bytes have come behind the head.
bool client_has_body_bytes(const struct client *client, const struct request *request);

// Skips the body of a request that is refused.  False: it has not come yet.
bool client_skip_body(const struct client *client, struct request *request);

// Drops the request from client->in.  The bytes behind it begin the next one.
void client_skip_request(struct client *client, const struct request *request);

// As transport_write; AGAIN: the client does not read.
enum status client_write(struct client *client, const struct slice *parts, uint32_t count,
                         size_t *moved);

// Bytes that wait in the kernel for the client.
size_t client_unsent(const struct client *client);

// A client that closed its side while we work for it is gone, unless `half_close` is set.
bool client_is_gone(const struct client *client);

// The exchange is over.
void client_end(struct client *client, enum client_end end);

static inline bool client_is_open(const struct client *client)
{
    return transport_is_open(&client->transport);
}

// Draining: closes the clients without an exchange.
void client_close_idle(struct worker *worker);
