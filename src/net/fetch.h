// SPDX-License-Identifier: Apache-2.0
//
// fetch.h -- asks a server one small question: GET a path, or POST a JSON text to it, and take the
// whole answer.
//
// For health probes, model lists and metrics of backends, and for what we tell others; never for
// clients' requests.  Each fetch has its own connection, one deadline for all of it, and a bound on
// the answer.
//
// Threads: belongs to the thread of its loop.  Memory: a fetch owns itself until it is done.
#pragma once

#include "base/address.h"

struct fetch;
struct loop;
struct tls_context;

struct fetch_result {
    uint16_t status;   // 0: there was no answer
    bool is_part;      // the body goes on beyond what fetches hold; only if takes_part
    struct slice body; // valid during the callback
    const char *why;   // when there was no answer
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
    size_t answer_size_max; // head and body; 0: a megabyte
    bool takes_part;        // of an answer that is too large, its beginning, instead of a failure
    fetch_done_fn *done;    // called once, never from inside fetch_start; the fetch is over by then
    void *owner;
};

// NULL when memory or descriptors are short: nothing was asked, so nothing was learned.
struct fetch *fetch_start(const struct fetch_options *options);

// Ends it without its callback, from anywhere but that.  Clears the caller's pointer, which may be
// NULL.
void fetch_cancel(struct fetch **fetch);
