// SPDX-License-Identifier: Apache-2.0
//
// sse.h -- finds server-sent events in bytes as they arrive.
//
// The parser looks for the ends of events (an empty line; lines end in LF, CR or CRLF) and for the
// `data` of each.  Most events arrive whole, and then nothing is copied: the data is a slice of the
// bytes that were fed.  An event that arrives in pieces is put together in a buffer of the
// caller's; one that outgrows the buffer is passed over, and its end still found.
//
//     while (sse_next(&sse, &bytes, &event)) ...      // `bytes` moves on behind each event
//     // the rest of `bytes` begins the next event and was noted
//
// Several data lines of one event are joined with LF, as the standard says, in the buffer.
// Comments (lines that begin with a colon) and fields other than data and event are ignored.
// Anything that ends in an empty line is an event here, even without data: a comment sent to keep
// the connection alive, or an empty line by itself.  The last bytes of a stream, without an empty
// line, are not an event.
//
// Threads: one owner.  Memory: the caller's buffer, only while an event is incomplete.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct sse {
    uint8_t
        *buffer; // room for an event that comes in pieces; NULL: none, such events are passed over
    uint32_t capacity;
    uint32_t held;       // bytes of the present event that are in the buffer
    bool is_passed_over; // the present event did not fit
    bool after_cr;       // the last byte was a CR: an LF that follows belongs to it
    bool line_is_empty;  // no byte of the present line has come
    bool has_begun;      // an event has ended: no byte order mark can follow
};

struct sse_event {
    struct slice data;  // of all data lines; empty when there was none
    struct slice name;  // of the event field; empty when there was none
    struct slice whole; // all its bytes in this feed, empty line included
    bool is_complete;   // false: it was too large for the buffer, and data and name are empty
};

// `buffer` may be NULL and set later, while nothing is held.  Keeps it.
void sse_begin(struct sse *sse, uint8_t *buffer, uint32_t capacity);

// The next event that ends in `bytes`; moves `bytes` behind it.  False: none ends there, what is
// left was taken note of, and `bytes` is empty.  The slices are good until the next call.
bool sse_next(struct sse *sse, struct slice *bytes, struct sse_event *out);

// Bytes that belong to an event that has not ended: those of the last feed are its tail.
bool sse_is_inside(const struct sse *sse);
