// SPDX-License-Identifier: Apache-2.0
//
// worker_internal.h -- one worker thread and everything that belongs to it.
//
// All memory of the request path is reserved when the worker starts, in pools: clients (accepted
// connections), exchanges, requests, readers (what was read of their bodies), upstreams (connections to
// backends), heads (of responses) and buffers.  An idle client holds none of the others; a stream that flows holds no
// buffer, since a buffer is held only while bytes wait in it.
//
// Objects whose descriptors were in the loop are recycled at the end of the turn, so an event that
// is still on its way never meets another object in the same memory.
#pragma once

#include "base/list.h"
#include "base/pool.h"
#include "base/rng.h"
#include "dialect/token_reader.h"
#include "http/problem.h"
#include "proxy/body_store.h"
#include "proxy/proxy.h"
#include "proxy/retry_budget.h"
#include "sys/loop.h"

struct client;
struct exchange;
struct fleet_view;
struct knowledge;
struct meters;
struct receipt_ring;
struct recorder;
struct route;
struct thread;
struct tls_context;
struct upstream;

enum { listener_count_max = 16, trail_class_count = 6, event_space_size = 16384 };

// What the keeper hands to the workers in one piece.
struct plan {
    const struct config *config;
    struct tls_context **server_tls; // one for each worker, or NULL when listeners are plain
    struct tls_context **client_tls; // likewise; NULL when no backend of the file wants it
};

// Shared by all workers.
struct proxy_shared {
    _Alignas(64) atomic_uint in_flight; // requests, against limits.requests
    _Alignas(64) atomic_uint connection_count;
    _Alignas(64) atomic_uint_fast64_t body_memory;
    _Alignas(64) atomic_bool draining;
    uint32_t connection_count_max; // fixed at start
    _Atomic(struct plan *) plan;
};

struct listener {
    struct loop_source source;
    struct worker *worker;
    bool pending; // connections may wait that could not be accepted
};

// Bytes in a slot of worker->buffers, of which [begin, end) wait.  No slot: nothing waits.
struct buffer {
    uint8_t *bytes;
    uint32_t begin;
    uint32_t end;
};

// Prompts above this are encoded in portions, in the worker's lane.
enum { token_portion_max = 65536 };

// Where long prompts are encoded, one at a time.
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
    struct receipt_ring *ring; // NULL: nobody reads receipts
    uint64_t receipt_number;
    uint32_t
        detailed_left; // requests of this second of which all is noted, and which are announced
    uint64_t wall_offset_us; // from the loop's clock to the time of day, as of the last second
    bool is_traced;          // somebody exports spans; as it was at start, whatever a reload says
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
    struct pool trails[trail_class_count]; // by the number of keys
    struct body_store bodies;
    void *memory; // of the pools
    size_t memory_size;

    uint8_t *event_space;          // where the data lines of one event are joined
    struct http_head *answer_head; // for an answer's head that comes in one piece
    struct list_node **idle;       // by slot of the backend: connections that wait for work
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
        atomic_uint_fast64_t problems[HTTP_PROBLEM_COUNT];
        atomic_uint_fast64_t upstream_opened;
        atomic_uint_fast64_t upstream_reused;
        atomic_uint upstream_idle;
        atomic_uint client_count;
        atomic_uint buffer_count;
        atomic_bool drained;
    } shared;
};

struct worker_options {
    uint32_t index;
    struct proxy_shared *proxy;
    struct fleet *fleet;
    struct reclaim *reclaim;
    struct knowledge *knowledge;
    struct recorder *recorder;
    struct receipt_ring *ring;
    const struct dialect_set *dialects;
    size_t token_text_max;
    const int *listener_fds; // taken over
    uint32_t listener_count;
};

// Starts the thread.  The plan must be published before.  On failure `*out` is untouched and the
// descriptors are closed.
enum status worker_start(const struct worker_options *options, struct worker **out);

// The thread ends at the end of its turn; all connections are cut.
void worker_stop(struct worker **worker);

// One writer, so no atomic addition is needed.
static inline void worker_count(atomic_uint_fast64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

// Buffers.  False when the pool is empty.
bool buffer_take(struct worker *worker, struct buffer *buffer);
void buffer_put(struct worker *worker, struct buffer *buffer);

static inline struct slice buffer_slice(const struct buffer *buffer)
{
    return slice_of(buffer->bytes + buffer->begin, buffer->end - buffer->begin);
}

static inline bool buffer_is_empty(const struct buffer *buffer)
{
    return buffer->begin == buffer->end;
}

// For connections to backends; NULL when it cannot be made, which is logged.
struct tls_context *worker_client_tls(struct worker *worker);

// Wakes the client next turn: it could go on now but has had its share.
void worker_again(struct worker *worker, struct client *client);
