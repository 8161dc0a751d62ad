// SPDX-License-Identifier: Apache-2.0
//
// stream.h -- the overview and new decisions, once a second, to every client of /stream:
// server-sent events.
//
//     event: overview     at once, and every second
//     event: decisions    after it, if there are new ones
//
// Streams at the same position share the next message, which is built once.  A stream that has not
// sent all of the last message is skipped until it has; the points of the time series that it
// missed come with the next one.  So a slow reader costs the memory of one message, and does not
// delay other streams.  A stream without progress for stream_stuck_ms is closed.
//
// A stream is part of a connection, which owns the transport and closes both.
//
// Threads: the keeper's.
#pragma once

#include "base/list.h"
#include "base/status.h"
#include "base/timer_wheel.h"

struct admin_options;
struct stream_round;
struct transport;

enum {
    stream_count_max = 16,
    stream_step_ms = 1000,
    stream_stuck_ms = 30000,
    stream_decisions_max = 50, // in one message
};

// All streams.
struct streams {
    const struct admin_options *options;
    uint64_t start_ms; // of the router
    struct list_node *open;
    uint32_t count;
    struct timer timer;
};

struct stream {
    struct list_node all; // in streams->open
    struct streams *streams;
    struct transport *transport;
    struct stream_round *round; // the message being sent; NULL: idle
    size_t sent;                // of it
    uint64_t point_ms;          // the last point of the time series that was sent
    uint64_t serial;            // the last decision that was sent
    uint64_t progress_ms;       // when bytes were last sent
    void (*ended)(struct stream *stream);
};

// Keeps `options`.
void streams_init(struct streams *streams, const struct admin_options *options, uint64_t start_ms);

// No stream may be open.
void streams_fini(struct streams *streams);

// Begins with the response head and the first round, which the next stream_write sends.
// `ended` is called when the stream must be closed, never from within a call to it.  False: there
// are stream_count_max streams already, or memory is short.
bool stream_open(struct streams *streams, struct stream *stream, struct transport *transport,
                 void (*ended)(struct stream *stream));

// Sends the message.  OK: all of it; AGAIN: the rest when the transport is writable; else: the
// connection is closed.
enum status stream_write(struct stream *stream);

// Does nothing if the stream is not open.
void stream_close(struct stream *stream);
