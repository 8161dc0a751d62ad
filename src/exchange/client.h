// SPDX-License-Identifier: Apache-2.0
//
// client.h -- an accepted connection: requests come out of it one after the other.
//
// Between requests a client is only this struct.  The first bytes of a request bring a buffer and an
// exchange; requests that are sent ahead (pipelined) wait in the buffer until their turn.
//
//     open -> [ exchange ] -> idle -> [ exchange ] -> ... -> closed
//                                           \-> lingering: the answer is out, the rest of a request
//                                               that was refused is read and dropped, so that the
//                                               peer's kernel does not throw the answer away
//
// One timer serves all phases: the deadline moves with every byte, the timer only when it fires.
//
// Threads: belongs to its worker.
#pragma once

#include "base/address.h"
#include "net/transport.h"
#include "worker/buffer.h"
#include "worker/worker.h"

// Reads per wake-up: after that others have their turn.
enum { client_reads_per_turn = 16 };

struct client {
    struct transport transport; // first: `ready` finds us from here
    struct worker *worker;
    struct exchange *exchange; // NULL: idle
    struct buffer in;          // bytes received and not yet answered
    uint64_t deadline_ms;      // UINT64_MAX: none
    struct timer timer;
    struct list_node all;   // in worker->all_clients
    struct list_node again; // in worker->again
    struct loop_deferred recycle;
    struct address peer;
    bool is_lingering;
};

// Takes the descriptor.
void client_open(struct worker *worker, int fd, const struct address *peer);

// Something happened: goes on with the exchange, or begins one if bytes are there.
void client_wake(struct client *client);

// Wakes the client next turn: it could go on now but has had its share.
void client_again(struct client *client);

// Reads once into client->in.  AGAIN, CLOSED, IO as transport_read; TOO_LARGE when it is full;
// EXHAUSTED when there is no buffer.
enum status client_fill(struct client *client);

// Moves the deadline to `delay_ms` from now; 0: none.
void client_set_deadline(struct client *client, uint64_t delay_ms);

// The exchange is over and the connection goes on.
void client_rest(struct client *client);

// Sends the end and reads on for a while; the exchange is over.
void client_linger(struct client *client);

void client_close(struct client *client, enum transport_end end);

static inline bool client_is_open(const struct client *client)
{
    return transport_is_open(&client->transport);
}

// Draining: those who wait for nothing are closed.
void client_close_idle(struct worker *worker);
