// SPDX-License-Identifier: Apache-2.0
//
// transport.h -- a connected socket, plain or under TLS, as one thing to read from and write to.
//
// Events are edges: they are remembered here until a call returns AGAIN, so a reader checks
// can_read before it spends a system call.
//
// Threads: belongs to the thread of its loop.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "sys/loop.h"

struct tls_context;
struct tls_session;

struct transport {
    struct loop_source source; // first: the owner finds itself from here
    struct tls_session *tls;   // NULL: plain
    bool can_read;
    bool can_write;
    bool hung_up; // the peer stopped sending, or is gone
    bool is_dead; // the connection is gone
    bool handshaking;
};

enum transport_end {
    TRANSPORT_ORDERLY,  // the peer sees the end of a stream
    TRANSPORT_TRUNCATE, // under TLS, an end without the closing alert
    TRANSPORT_ABORT,    // the peer sees a reset
};

// Takes the descriptor and registers it.  `context` NULL: plain; otherwise a handshake comes first.
// `host` as for tls_session_open.  On failure the descriptor is closed.
enum status transport_open(struct transport *transport, struct loop *loop, int fd,
                           struct tls_context *context, const char *host);

// Notes the events; call it first in `ready`.
void transport_note(struct transport *transport, uint32_t events);

// OK: the handshake is over, or there is none; AGAIN: it goes on.
enum status transport_handshake(struct transport *transport);

// As the calls of tcp.h.  A reader must go on until AGAIN before it waits for `ready`.
enum status transport_read(struct transport *transport, void *bytes, size_t capacity, size_t *size);
enum status transport_write(struct transport *transport, const struct slice *slices,
                            uint32_t slice_count, size_t *size);

// Bytes that were written and have not reached the peer.
size_t transport_unsent(const struct transport *transport);

// Ends the sending side; reading goes on.  Does nothing under TLS, where only transport_close ends
// it.
void transport_finish(struct transport *transport);

// Does nothing if it is not open.
void transport_close(struct transport *transport, struct loop *loop, enum transport_end end);

static inline bool transport_is_open(const struct transport *transport)
{
    return transport->source.magic != 0;
}

// Why a handshake failed, for the log.
const char *transport_why(const struct transport *transport);
