// SPDX-License-Identifier: Apache-2.0
//
// rig.h -- a proxy with one worker, and the test at both of its ends.
//
//     client (the test)  --->  proxy (a thread of its own)  --->  backend (the test)
//
// The test says what the client sends, takes the connection that the proxy opens, reads what came
// and says what the backend answers.  It has one thread, so a test is a script that is read
// from top to bottom, and what happens between two lines is the proxy's doing alone.
//
// Every wait ends after rig_patience_ms.  Whatever fails prints what it wanted and what it saw, and
// returns false or NULL; a NULL peer is passed on safely, so that one CHECK is enough for a chain.
//
// A test that fails leaves its rig as it is; the next rig_start clears it away.
#pragma once

#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "proxy/proxy.h"

#include <stdatomic.h>

enum {
    rig_backend_count_max = 8,
    rig_peer_count_max = 128,
    rig_patience_ms = 5000,
    rig_url_size = 64
};

struct receipt_ring;
struct rig;

// One end of a connection.
struct peer {
    struct rig *rig;
    int fd; // -1: not in use
    const char *what;
};

struct rig_backend {
    int fd; // bound from the start, listening unless it refuses
    uint16_t port;
    struct backend *backend;
};

struct rig {
    struct reclaim reclaim;
    struct config *config;
    struct fleet *fleet;
    struct proxy *proxy;
    struct rig_backend backends[rig_backend_count_max];
    struct peer peers[rig_peer_count_max];
    uint32_t backend_count;
    uint16_t port;
    bool running;
};

struct rig_options {
    const char *config;                 // lines of YAML; `listen` and `backends` are the rig's
    uint32_t backend_count;             // 0: one
    uint32_t refusing;                  // bit i: nobody listens at backend i
    uint32_t worker_count;              // 0: one
    struct recorder *recorder;          // the test's; NULL: nothing is recorded
    const struct dialect_set *dialects; // the test's; NULL: no model has a tokenizer
    struct receipt_ring *ring;          // the test's, for one worker; NULL: nobody reads receipts
};

// The request and the answer that most tests use; both pass through the proxy unchanged.
#define RIG_GET "GET /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n"
#define RIG_OK "HTTP/1.1 200 OK\r\nx-request-id: r\r\ncontent-length: 2\r\n\r\nok"

// The backend's entry for the fleet; the url is written to `url`.
struct fleet_spec rig_spec(const struct rig *rig, uint32_t index, char url[rig_url_size]);

bool rig_start(struct rig *rig, const struct rig_options *options);

// Closes all peers, waits until everything was given back, and stops the proxy.  A proxy that the
// test has stopped is not asked.
bool rig_stop(struct rig *rig);

// A configuration of the same kind as rig_start makes; the caller owns it.
struct config *rig_config(const struct rig *rig, const char *config);

// The proxy with a configuration that the rig owns from then on; waits until the worker has it.
bool rig_replan(struct rig *rig, const char *config);

// Publishes changes of the fleet; returns when the worker routes by them.
bool rig_publish(struct rig *rig);

// Returns when every worker has taken a whole turn: what had arrived before was looked at.
bool rig_turn(struct rig *rig);

// As of a turn that began after the call.
struct proxy_totals rig_totals(struct rig *rig);

// Waits until no request is in flight, here or at a backend, and no memory is held.  Connections
// that rest may stay.
bool rig_becomes_idle(struct rig *rig);

// Waits until that many clients are connected.
bool rig_has_connections(struct rig *rig, uint32_t count);

// Waits until that much memory is charged for bodies: it grows as they arrive.
bool rig_holds_bodies(struct rig *rig, uint64_t size);

struct peer *rig_connect(struct rig *rig);

// With a small receive buffer, so that what it does not read soon stops the proxy.
struct peer *rig_connect_slow(struct rig *rig);

// The next connection that the proxy opens to that backend; or to any, which *index tells.
struct peer *rig_accept(struct rig *rig, uint32_t index);
struct peer *rig_accept_any(struct rig *rig, uint32_t *index);

// Makes a backend that refuses into one that lets connections wait for ever.
void rig_choke(struct rig *rig, uint32_t index);

// Whether no connection waits at any backend, after a turn.
bool rig_has_no_call(struct rig *rig);

// A client that asks RIG_GET, and the backend that has read it; both can be used at once.
struct rig_pair {
    struct peer *client;
    struct peer *backend;
};
bool rig_ask(struct rig *rig, const char *request, struct rig_pair *out);

bool peer_send(struct peer *peer, const char *text);
bool peer_send_bytes(struct peer *peer, const void *bytes, size_t size);
bool peer_send_zeros(struct peer *peer, size_t size);

// Exactly these bytes come next.
bool peer_expect(struct peer *peer, const char *text);
bool peer_expect_bytes(struct peer *peer, const void *bytes, size_t size);

// The end of the stream comes next, and was not a reset; a reset; either of them.
bool peer_expect_end(struct peer *peer);
bool peer_expect_reset(struct peer *peer);
bool peer_expect_gone(struct peer *peer);

// One head, with its empty line.
bool peer_read_head(struct peer *peer, char *head, size_t capacity);

// All that comes until the stream ends one way or the other.
bool peer_read_rest(struct peer *peer, char *text, size_t capacity);

// Reads and drops until the stream ends; returns how much it was, SIZE_MAX when it does not end.
size_t peer_drain(struct peer *peer);

// One of the proxy's own answers.
bool peer_expect_problem(struct peer *peer, int status, const char *code);

// Sends one way and reads the other way at once, for more than the kernel holds.
struct rig_flow {
    struct peer *from;
    struct peer *to;
    const void *bytes; // sent
    size_t size;
    const void *expected; // read
    size_t expected_size;
};
bool rig_pump(const struct rig_flow *flow);

// Sends zeros until nothing moves for a while or `most` are sent; returns how many were.
size_t peer_fill(struct peer *peer, size_t most);

// Nothing came and the stream has not ended, after a turn.
bool peer_is_silent(struct peer *peer);

void peer_finish(struct peer *peer); // sends the end; goes on reading
void peer_close(struct peer *peer);
void peer_reset(struct peer *peer);

// Bytes that differ from place to place, so that a portion lost or sent twice is seen.
void rig_noise(uint8_t *bytes, size_t size, uint64_t seed);
