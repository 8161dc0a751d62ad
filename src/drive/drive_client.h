// SPDX-License-Identifier: Apache-2.0
//
// drive_client.h -- sends requests to one endpoint and reads the responses, thousands at a time.
//
// Each request has a connection to itself while it lasts.  Idle connections are reused, the latest
// first.  A request that meets an idle connection which the server has closed is sent again, once,
// on a new connection; that is not an error.
//
//     closed -> connecting -> sending -> reading -> idle -> sending ...
//
// Limits: `connections_max` requests at once; a request of drive_request_size_max bytes;
// `timeout_ms` from the sending to the last byte.
//
// Threads: belongs to the thread of its loop.  Memory: reserved at first; a request's text while it
// is being sent, and what drive_response.h says.
#pragma once

#include "base/address.h"
#include "drive/drive_response.h"
#include "drive/drive_text.h"

struct drive_client;
struct loop;
struct tls_context;

enum { drive_request_size_max = 64 << 20, drive_connections_max = 60000 };

// One request.  The caller's, from drive_client_send until `done`.
struct drive_request {
    struct work_item item;
    uint64_t sent_us;       // when it had a connection to go to
    bool keeps_text;        // of the response
    struct histogram *gaps; // NULL: not wanted
    uint64_t *token_us;     // times of the first token_max tokens
    uint32_t token_max;
    uint64_t written_us; // its last byte
};

struct drive_client_options {
    struct loop *loop;
    const struct address *addresses; // new connections take turns
    uint32_t address_count;
    const char *host;        // for TLS
    struct tls_context *tls; // NULL: plain
    const char *head;        // of all requests, from its first line to before Content-Length
    const struct drive_shape *shape;
    const struct drive_memory *memory;
    uint32_t connections_max;
    uint32_t timeout_ms;
    // The response is valid during the call.  Never called from inside drive_client_send.
    void (*done)(void *owner, struct drive_request *request, const struct drive_response *response);
    void *owner;
};

struct drive_client_counts {
    uint32_t in_flight;
    uint32_t in_flight_max;
    uint64_t connections; // ever opened
    uint64_t stale;       // requests that were sent again
};

// Keeps what the options point to.  NULL when memory is short.
struct drive_client *drive_client_create(const struct drive_client_options *options);

// Requests in flight end without `done`.  Between turns of the loop only.
void drive_client_destroy(struct drive_client **client);

// Whether another request may be sent now.
bool drive_client_has_room(const struct drive_client *client);

void drive_client_send(struct drive_client *client, struct drive_request *request);

struct drive_client_counts drive_client_counts(const struct drive_client *client);
