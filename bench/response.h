// SPDX-License-Identifier: Apache-2.0
//
// response.h -- reads an HTTP/1.1 response as far as a load tool must: status, where the body ends,
// how many bytes it has, and which events are in it.
//
// Independent of our own HTTP code on purpose: what the proxy under test gets wrong must not be
// read wrong in the same way here.  Anything odd is an error, never a guess.
#pragma once

#include "base/slice.h"

enum response_phase {
    RESPONSE_HEAD,
    RESPONSE_SIZED,      // body_left bytes are to come
    RESPONSE_CHUNK_SIZE, // in a chunk's size line
    RESPONSE_CHUNK,      // chunk_left bytes of a chunk are to come
    RESPONSE_CHUNK_END,  // the line end behind a chunk's bytes
    RESPONSE_TRAILER,    // behind the last chunk, until an empty line
    RESPONSE_DONE,
    RESPONSE_BROKEN,
};

enum { response_head_size_max = 2048 };

// Who wants to know of events.
struct response_observer {
    // An event is whole: `stream` of the origin wrote it at `written_ns`.
    void (*event)(void *owner, uint64_t written_ns, uint32_t stream);
    void *owner;
};

struct response {
    enum response_phase phase;
    uint32_t status;
    bool closes;         // the server wants to close behind it
    uint32_t line_size;  // of a size line or trailer line, without CR
    uint32_t head_size;  // of head[]
    uint64_t left;       // bytes of the body, or of the chunk
    uint64_t body_size;  // so far
    uint64_t event_time; // of the current event, as far as its digits have come
    uint32_t event_stream;
    uint8_t head[response_head_size_max];
};

void response_start(struct response *response);

// Reads `bytes`, all of them unless the response ends before; returns how many.  A chunked body is
// taken for events.
size_t response_read(struct response *response, struct slice bytes,
                     const struct response_observer *observer);
