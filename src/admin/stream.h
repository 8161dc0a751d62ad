// SPDX-License-Identifier: Apache-2.0
//
// stream.h -- the overview and new decisions, once a second, to every client of /stream:
// server-sent events.
//
//     event: overview     at once, and every second
//     event: decisions    after it, if there are new ones
//
// Streams that have had the same so far share what is sent next, so that it is built once however
// many there are.  One that has not taken all of the last round is passed over until it has; what
// it missed of the line of time comes with the next.  So a slow reader costs one round's memory,
// and no other stream's time.  One that takes nothing for stream_stuck_ms is ended.
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
    stream_decisions_max = 50, // in one round
};

// All of them.
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
    struct stream_round *round; // being written; NULL: idle
    size_t sent;                // of it
    uint64_t point_ms;          // the last point of the line of time that it has had
    uint64_t serial;            // the last change of decisions
    uint64_t progress_ms;       // when it last took something
    void (*ended)(struct stream *stream);
};

// Keeps `options`.
void streams_init(struct streams *streams, const struct admin_options *options, uint64_t start_ms);

// No stream may be open.
void streams_fini(struct streams *streams);

// Begins with the response head and the first round, which the next stream_write sends.
// `ended` is called, from no call of the stream's, when it is to be closed.  False: there are
// stream_count_max already.
bool stream_open(struct streams *streams, struct stream *stream, struct transport *transport,
                 void (*ended)(struct stream *stream));

// Writes what there is.  OK: all of it; AGAIN: the rest when the transport can; others: it is gone.
enum status stream_write(struct stream *stream);

// Does nothing to one that is not open.
void stream_close(struct stream *stream);
