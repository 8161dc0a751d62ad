// SPDX-License-Identifier: Apache-2.0
//
// worker.h -- one worker thread and everything that belongs to it.
//
// All memory of the request path is reserved when the worker starts, in pools: clients (accepted
// connections), exchanges, requests, readers (what was read of their bodies), upstreams
// (connections to backends), heads (of responses) and buffers.  An idle client holds none of the
// others; a stream that flows holds no buffer, since a buffer is held only while bytes wait in it.
//
// Objects whose descriptors were in the loop are recycled at the end of the turn, so an event that
// is still on its way never meets another object in the same memory.
#pragma once

#include "base/list.h"
#include "base/pool.h"
#include "base/rng.h"
#include "dialect/token_reader.h"
#include "http/problem.h"
#include "sys/loop.h"
#include "worker/body_store.h"
#include "worker/poison_table.h"
#include "worker/retry_budget.h"

struct client;
struct exchange;
struct fleet_view;
struct knowledge;
struct meters;
struct policy_memory;
struct receipt_ring;
struct recorder;
struct route;
struct thread;
struct tls_context;
struct upstream;

enum { listener_count_max = 16, observer_class_count = 6, event_space_size = 16384 };

// A configuration with its TLS contexts and the memories of its policies, as the keeper hands it
// to the workers.
struct plan {
    const struct config *config;
    struct tls_context **server_tls; // one for each worker, or NULL when listeners are plain
    struct tls_context **client_tls; // likewise; NULL when no backend of the file wants it
    struct policy_memory **memories; // one for each pool; NULL for a policy without state
    uint32_t memory_count;
};

// Shared by all workers.
struct proxy_shared {
    _Alignas(64) atomic_uint in_flight; // requests, against limits.requests
    _Alignas(64) atomic_uint connection_count;
    _Alignas(64) atomic_uint_fast64_t body_memory;
    _Alignas(64) atomic_bool draining;
    uint32_t connection_count_max; // fixed at start
    _Atomic(struct plan *) plan;
    struct poison_table poison;
};

struct listener {
    struct loop_source source;
    struct worker *worker;
    bool pending; // connections may wait that could not be accepted
};

// Prompts above this are encoded in portions, in the worker's lane.
enum { token_portion_max = 65536 };

// Encodes long prompts, one at a time.
struct lane {
    struct token_reader *reader; // NULL: no model has a tokenizer
    struct exchange *owner;      // whose turn it is
    struct token_result result;
};

struct worker {
    struct proxy_shared *proxy;
    struct fleet *fleet;
    struct reclaim *reclaim;
    struct knowledge *knowledge;
    struct recorder *recorder; // NULL: nothing is recorded
    struct meters *meters;     // NULL: nothing is counted
    struct receipt_ring *ring; // NULL: receipts are not read
    uint64_t receipt_number;
    uint32_t
        detailed_left; // requests of this second of which all is noted, and which are announced
    uint64_t wall_offset_us; // from the loop's clock to the time of day, as of the last second
    bool is_traced;          // spans are exported; as it was at start, whatever a reload says
    struct token_thread *token_thread; // NULL: no model has a tokenizer
    struct loop *loop;
    struct thread *thread;

    // Taken once a turn.
    const struct plan *plan;
    const struct config *config;
    const struct fleet_view *view;
    uint64_t view_generation;

    struct route *route;
    struct lane lane;
    struct rng rng;
    struct retry_budget retry_budget;
    struct tls_context *client_tls; // for a backend that was added later; made when first needed

    // Our number, and sizes, which were fixed at start.
    uint32_t index;
    uint32_t head_size_max;
    uint32_t read_size;   // the most that is read in one go
    uint32_t buffer_size; // read_size and room for the fields that we add
    uint32_t connection_count_max;
    uint32_t request_count_max;
    uint32_t backend_count_max;
    uint32_t idle_count_max;
    uint64_t body_size_max;

    struct pool clients;
    struct pool exchanges;
    struct pool upstreams;
    struct pool requests;
    struct pool readers; // of bodies
    struct pool heads;   // of responses that came in pieces
    struct pool buffers;
    struct pool accounts;
    struct pool observers[observer_class_count]; // by the number of keys
    struct body_store bodies;
    void *memory; // of the pools
    size_t memory_size;

    uint8_t *event_space;            // where the data lines of one event are joined
    struct http_head *response_head; // for a head that comes in one piece
    struct list_node **idle;         // by slot of the backend: connections that wait for work
    struct list_node *all_clients;
    struct list_node *again; // clients that gave way to others and go on next turn
    struct listener listeners[listener_count_max];
    uint32_t listener_count;
    uint32_t idle_count; // connections in all of `idle`
    struct timer housekeeping;
    bool draining;

    // Written by this worker, read by the keeper.
    struct {
        _Alignas(64) atomic_uint_fast64_t request_count;
        atomic_uint_fast64_t retry_count;
        atomic_uint_fast64_t poison_count; // requests with a poison prompt that got no byte
        atomic_uint_fast64_t problems[HTTP_PROBLEM_COUNT];
        atomic_uint_fast64_t upstream_opened;
        atomic_uint_fast64_t upstream_reused;
        atomic_uint upstream_idle;
        atomic_uint client_count;
        atomic_uint buffer_count;
        atomic_bool drained;
    } shared;
};

// One writer, so no atomic addition is needed.
static inline void worker_count(atomic_uint_fast64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}
