// SPDX-License-Identifier: Apache-2.0
//
// engine_site_internal.h -- one simulated server: a listener, the connections to it, and the
// engines behind them.
//
//     listener --accept--> connection --whole request--> api --job--> node of a rank
//                              ^                                       |
//                              +------------- progress ----------------+
//
// There is one engine, or several data-parallel ranks, each with its own cache, batch and
// publisher.  A request goes to the rank that it names, or to the least busy one.
//
// engine_connection.c speaks HTTP, engine_api.c knows the paths, engine_site.c opens, closes and
// fails the server.
//
// Threads: the one of its loop.
#pragma once

#include "base/address.h"
#include "base/rng.h"
#include "engine/engine_faults.h"
#include "engine/engine_node.h"
#include "engine/engine_server.h"
#include "http/body.h"
#include "net/transport.h"

#include <stdatomic.h>

struct kv_publisher;

enum {
    engine_connection_max = 4096, // to one engine; more are closed at once
    engine_body_size_max = 16 << 20,
};

// Limit of request bodies being read by all sites of a group; further requests get 503.
static const uint64_t engine_held_max = (uint64_t)512 << 20;

// Shared by the sites of one thread.
struct engine_group {
    struct loop *loop;
    struct prompt_reader *reader;
    uint8_t *scratch; // where responses are assembled
    size_t scratch_size;
    uint64_t held_size; // bytes of buffers of connections
    // Sends every site of the process an order with this valid body, or, with `is_clear`, ends all
    // faults.
    void (*tell_all)(void *owner, struct slice body, bool is_clear);
    void *owner;
};

struct engine_rank {
    struct engine_node *node;
    struct kv_publisher *publisher; // NULL: it publishes nothing
};

struct engine_site {
    struct loop_source listener; // first: its `ready` finds us from here
    struct engine_group *group;
    struct engine_rank ranks[engine_server_rank_max];
    uint32_t rank_count;
    uint32_t next_rank; // where the search for the least busy one begins
    struct engine_job_rules rules;
    struct engine_faults faults;
    struct engine_mishap mishap; // a crash or reset, applied at the end of this turn
    struct loop_deferred apply_mishap;
    bool is_mishap_due;
    struct rng rng;
    struct address address; // it listens here; immutable, and any thread may read it
    struct list_node *connections;
    uint32_t connection_count;
    uint64_t request_count;
    struct timer restart; // armed while it has crashed
};

struct engine_connection {
    struct transport transport; // first: `ready` finds us from here
    struct engine_site *site;
    struct list_node all; // in site->connections
    struct loop_deferred recycle;
    struct timer stall;
    struct http_head head;
    struct http_body body;
    uint8_t *in;
    size_t in_size;
    size_t in_capacity;
    size_t body_size; // decoded so far
    size_t rest_at;   // of `in`: where the next request begins
    uint8_t *out;     // bytes that the kernel did not take; NULL: none
    size_t out_size;
    size_t out_sent;
    struct engine_job *job; // NULL: none
    bool is_http10;         // the client speaks HTTP/1.0: no chunks
    bool is_closing;        // after the response that is being sent
    bool is_draining;       // all is sent; reads until the client has closed
    bool is_stalled;
};

// engine_connection.c

// Takes the descriptor.
void engine_connection_accept(struct engine_site *site, int fd);
void engine_connection_drop(struct engine_connection *connection, enum transport_end end);
void engine_connection_progress(void *owner, struct engine_job *job);

// engine_api.c

struct engine_api_call {
    struct engine_site *site;
    struct slice method;
    struct slice path;
    struct slice rank;    // X-data-parallel-rank; empty: none
    struct slice request; // its body
    // The response.
    struct engine_job *job; // not submitted yet; NULL: the response is complete
    uint32_t status;
    const char *type; // NULL: no body
    struct text *body;
};

// Fills in the response; `body` is given.
void engine_api_respond(struct engine_api_call *call);

// engine_site.c

// Opens server number `index`: listens, and is at `site`, which starts zeroed.  Keeps `group`, and
// the profile and names of the options.  On failure `error` says why.
enum status engine_site_open(struct engine_site *site, struct engine_group *group,
                             const struct engine_server_options *options, uint32_t index,
                             char error[engine_server_error_size]);

// Closing takes two calls, each followed by a turn of the loop, because memory is recycled at the
// end of a turn.
void engine_site_disconnect(struct engine_site *site);
void engine_site_close(struct engine_site *site);

// Applies the faults of a JSON body.  MALFORMED: nothing changed, and `error` says why.
enum status engine_site_order(struct engine_site *site, struct slice body,
                              char error[engine_faults_error_size]);
// Ends all faults; a crashed server starts again.
void engine_site_clear_faults(struct engine_site *site);
