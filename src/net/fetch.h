// SPDX-License-Identifier: Apache-2.0
//
// fetch.h -- one small request: GET a path, or POST JSON to it, and take the whole response.
//
// For health probes, model lists and metrics of backends, and for spans; never for clients'
// requests.  Each fetch has its own connection, one deadline, and a bound on the response.
//
// Threads: belongs to the thread of its loop.  Memory: a fetch owns itself until it is done.
#pragma once

#include "base/address.h"

struct fetch;
struct loop;
struct tls_context;

struct fetch_result {
    uint16_t status;   // 0: no response
    bool is_part;      // the body was cut at the bound; only if takes_part
    struct slice body; // valid during the callback
    const char *why;   // of a fetch without a response
    uint64_t took_us;  // from the last byte of the request to the last one of the response
};

typedef void fetch_done_fn(void *owner, const struct fetch_result *result);

// The server that is asked.
struct fetch_peer {
    struct address address;
    const char *host;          // the name that its certificate must have
    const char *authority;     // host and port, as a Host field has them
    const char *authorization; // NULL: none
    bool tls;
};

struct fetch_options {
    struct loop *loop;
    const struct fetch_peer *peer; // read only before fetch_start returns
    struct tls_context *tls;       // needed if peer->tls
    const char *path;
    struct slice body; // JSON to be posted, copied; empty: GET
    uint32_t timeout_ms;
    size_t response_size_max; // head and body; 0: a megabyte
    bool takes_part;          // cut a response that is too large, instead of failing
    fetch_done_fn *done; // called once, never from inside fetch_start; the fetch is over by then
    void *owner;
};

// NULL when memory or descriptors are short: nothing was sent.
struct fetch *fetch_start(const struct fetch_options *options);

// Ends it without its callback; not from inside the callback.  Clears the caller's pointer, which
// may be NULL.
void fetch_cancel(struct fetch **fetch);
