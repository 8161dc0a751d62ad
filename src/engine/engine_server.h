// SPDX-License-Identifier: Apache-2.0
//
// engine_server.h -- simulated inference servers over HTTP: one port each, many in one process.
// Each is an engine, or several data-parallel ranks.
//
//     thread 0: loop | engine 0 | engine 2 | ...          each with its listener, connections,
//     thread 1: loop | engine 1 | engine 3 | ...          model, clock and faults
//
// Engines are spread over threads and share nothing; an order for all of them is queued for each
// thread.
//
// Limits: engine_server_count_max engines, engine_connection_max connections to each, bodies of
// 16 MiB, 512 MiB of bodies being read in each thread.
//
// Memory: about 40 bytes for each block of a simulated cache, 12 for each block of a request that
// is in an engine, 4 KiB for a connection.
#pragma once

#include "base/status.h"
#include "engine/engine_job.h"

struct engine_server;
struct kv_event_format;
struct text;

enum {
    engine_server_count_max = 4096,
    engine_server_thread_max = 256,
    engine_server_rank_max = 64,
    engine_server_error_size = 320,
};

struct engine_server_options {
    const char *host; // a literal address
    uint16_t port;    // of the first one, the others follow; 0: the kernel chooses for each
    uint32_t count;
    uint32_t rank_count; // of each
    uint32_t thread_count;
    double speed; // how many times faster than life
    const struct profile *profile;
    const char *const *adapters; // names that are served beside the model
    uint32_t adapter_count;
    uint32_t output_tokens; // of a response, if the client sets no limit
    uint64_t seed;
    const struct kv_event_format *events; // how they publish their KV events; NULL: not at all
    uint16_t events_port;                 // of the first rank of the first one, the others follow
    uint16_t replay_port;                 // likewise; 0: nothing is replayed
    double events_loss;                   // share of their batches that subscribers do not get
};

// All listen when it returns OK.  Copies the options and keeps the names.
enum status engine_server_start(const struct engine_server_options *options,
                                struct engine_server **out, char error[engine_server_error_size]);

// Cuts all connections.  Clears the caller's pointer, which may be NULL.
void engine_server_stop(struct engine_server **server);

// "127.0.0.1:9001"
void engine_server_write_address(const struct engine_server *server, uint32_t index,
                                 struct text *out);
