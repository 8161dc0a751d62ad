// SPDX-License-Identifier: Apache-2.0
//
// probe_stream.h -- sends one request to an engine and times each part of the response.
//
// Each request has its own connection.  Of a streamed completion the time of each event that has a
// choice is kept, and its usage; of any other response the status and, if wanted, the body.
//
//     connect, handshake -> send: sent_us -> head -> event: token_us[0], [1], ... -> end: end_us
//
// Threads: belongs to the thread of its loop.  Memory: the caller's, which must not move until
// is_over.
#pragma once

#include "base/address.h"
#include "base/slice.h"
#include "http/response.h"
#include "http/sse.h"
#include "net/transport.h"

struct text;
struct tls_context;

enum {
    probe_stream_token_max = 128, // later ones are counted, not timed
    probe_stream_buffer_size = 65536,
    probe_stream_event_size = 65536,
};

struct probe_stream_options {
    struct loop *loop;
    const struct address *address;
    struct tls_context *tls; // NULL: plain
    const char *host;        // for TLS
    struct slice request;    // head and body; kept until is_over
    struct text *body;       // NULL, or where the response body goes, as far as it fits
};

struct probe_stream {
    struct transport transport; // first: `ready` finds us from here
    // The result.
    bool is_over;
    const char *why; // it ended before its time; NULL: it did not
    uint16_t status; // 0: no response
    uint64_t sent_us;
    uint64_t end_us;
    uint64_t token_us[probe_stream_token_max];
    uint32_t token_count;
    uint64_t prompt_tokens; // as its usage says; 0: it does not
    uint64_t output_tokens;
    bool tells_cached;
    uint64_t cached_tokens;
    // Its own.
    struct loop *loop;
    struct text *body;
    struct slice request; // what is left of it
    bool is_connected;
    bool has_events;
    struct http_response response;
    struct sse sse;
    uint8_t head[probe_stream_buffer_size];
    uint8_t buffer[probe_stream_buffer_size];
    uint8_t event[probe_stream_event_size];
};

// Always begins: what is wrong already shows as is_over.
void probe_stream_start(struct probe_stream *stream, const struct probe_stream_options *options);

// Ends it where it is.  Does nothing to one that is over.  The memory is free after the loop's
// turn.
void probe_stream_stop(struct probe_stream *stream, const char *why);
