// SPDX-License-Identifier: Apache-2.0
//
// body.h -- finds the end of an HTTP/1.1 body, whatever its framing, in place and as the bytes
// arrive.
//
// A body has no bytes, a given length, chunks, or all bytes until the peer closes.  This is the
// only reader of that choice: the relay, fetches, the load generator and the probes call it.
//
// Threads: one owner.  Memory: none of its own.
#pragma once

#include "http/chunked.h"
#include "http/head.h"

struct http_body {
    enum http_framing framing;
    bool is_complete;
    uint64_t left; // of HTTP_LENGTH: bytes still to come
    struct chunked chunked;
};

// `head` is complete; for a response, http_head_response_framing was called on it.  `keep` says how
// much of a chunked body stays.
void http_body_start(struct http_body *body, const struct http_head *head, enum chunked_keep keep);

// Reads bytes[0 .. size).  Afterwards *used bytes were read and bytes[0 .. *kept) is the body's
// data; unused bytes stay where they are.  OK: the body is complete, the unused bytes follow it.
// AGAIN: all bytes were used and more must come.  MALFORMED, TOO_LARGE: as chunked_scan.
enum status http_body_scan(struct http_body *body, uint8_t *bytes, size_t size, size_t *used,
                           size_t *kept);

// The peer has closed the connection.  OK: that completes the body.  CLOSED: the body is cut short.
enum status http_body_close(struct http_body *body);
