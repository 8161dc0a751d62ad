// SPDX-License-Identifier: Apache-2.0
//
// event.h -- the server-sent event that the stand-in origin writes and the load tool reads.
//
// Every event has the same size and says when it was written and on which of the origin's streams,
// so that the load tool knows from the offset alone which bytes are what, however a proxy in
// between cuts the body into chunks and reads.
//
//     data: {"t":0000012345678901234,"s":00017,"choices":[{"index":0,"delta":{"content":" word"}}]}
//     |          |                       |
//     0          event_time_offset       event_stream_offset                  (and an empty line)
//
// The time is CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include "base/slice.h"

#define EVENT_HEAD "data: {\"t\":"
#define EVENT_MIDDLE ",\"s\":"
#define EVENT_TAIL ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n"

enum {
    event_time_offset = sizeof(EVENT_HEAD) - 1,
    event_time_digits = 19,
    event_stream_offset = event_time_offset + event_time_digits + sizeof(EVENT_MIDDLE) - 1,
    event_stream_digits = 5,
    event_size = event_stream_offset + event_stream_digits + sizeof(EVENT_TAIL) - 1,
};

// Finds the events in the data of a response, in any portions.
struct event_reader {
    uint64_t size;       // of the data so far
    uint64_t written_ns; // of the present event, as far as its digits have come
    uint32_t stream;
};

// `came` is called for each event that is complete.
void event_read(struct event_reader *reader, struct slice data,
                void (*came)(void *owner, uint64_t written_ns, uint32_t stream), void *owner);
