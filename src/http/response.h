// SPDX-License-Identifier: Apache-2.0
//
// response.h -- reads one HTTP/1.1 response as its bytes arrive, in any portions.
//
//     100 head | 200 he        ad | data | da        ta | next ...
//     \_ skipped  \_ held in the buffer      \_ handed out in place   \_ is_reusable becomes false
//
// Interim responses (1xx) are skipped.  The data of the body is handed out where it lies, without
// its framing; the caller keeps the parts that it needs.
//
// Threads: one owner.  Memory: the caller's buffer, used only while a head is incomplete.
#pragma once

#include "http/body.h"

struct http_response {
    struct http_head head; // once has_head; its slices are good until the next read
    struct http_body body;
    bool has_head;
    bool is_reusable; // the connection may carry another request, as far as can be told so far
    uint8_t interim_count;
    uint32_t held; // bytes of an incomplete head in the buffer
    uint32_t capacity;
    uint8_t *buffer;
};

// Keeps `buffer`, whose capacity is also the limit of a head.  Once has_head is set and the head is
// read, the caller may use the buffer for other things.
void http_response_start(struct http_response *response, uint8_t *buffer, uint32_t capacity);

// Reads bytes[0 .. size), which it changes.  *data is the data of the body that came with them.
// OK: the response is complete.  AGAIN: more must come.  TOO_LARGE: the head does not fit.
// EXHAUSTED: too many interim responses.  MALFORMED: not HTTP.
enum status http_response_read(struct http_response *response, uint8_t *bytes, size_t size,
                               struct slice *data);

// The peer has closed the connection.  OK: that completes the response.  CLOSED: it is cut short.
enum status http_response_close(struct http_response *response);
