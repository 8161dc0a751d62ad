// SPDX-License-Identifier: Apache-2.0
//
// forward.h -- writes a head on, as the next hop should see it.
//
// Fields keep their order, case and bytes.  Only what belongs to one connection is left out
// (RFC 9110, 7.6.1), and only the fields of the options are added or replaced.
#pragma once

#include "base/slice.h"

struct http_head;
struct text;

struct http_forward_request {
    struct slice host;          // for a request without Host, as HTTP/1.0 allows
    struct slice request_id;    // added unless the client sent one
    struct slice authorization; // the value to send; empty: none
    bool keep_authorization;    // the client's own field passes and the one above is not sent
    struct slice forwarded_for; // the client's address, to be appended; empty: leave as it is
    struct slice rank;        // data-parallel, in place of the client's; empty: as the client said
    uint64_t content_length;  // where the body was changed; 0: as the client said
    struct slice traceparent; // in place of the client's; empty: as the client said
    // The traceparent above does not continue the client's, whose tracestate is then dropped.
    bool begins_trace;
};

struct http_forward_response {
    bool chunked;            // the body goes on with chunked framing
    bool close;              // this connection ends after the response
    bool say_keep_alive;     // to an HTTP/1.0 client that asked for it
    struct slice request_id; // added unless the backend sent one; empty: never
    struct slice backend;    // for x-warmpath-backend; empty: not sent
    struct slice decision;   // for x-warmpath-decision; empty: not sent
};

void http_forward_request(const struct http_head *head, const struct http_forward_request *how,
                          struct text *out);
void http_forward_response(const struct http_head *head, const struct http_forward_response *how,
                           struct text *out);
