// SPDX-License-Identifier: Apache-2.0
//
// mesh_internal.h -- the parts of a mesh link and what they ask of each other.
//
//     mesh_name        a peer of the configuration; a DNS name is resolved again and again
//       mesh_dial      an address of a name, with its backoff and its last failure
//         mesh_connection   a socket, from connecting or accepting to the first beat and on
//           mesh_peer       a router that is there, with its queue and its input
//
// A peer has exactly one connection.  A connection leads to a peer when it is up, and to a dial if
// we dialled it.  Connections end in mesh_connection_end alone, never within link_send: a write
// that fails notes the reason, and the next turn ends the connection.
#pragma once

#include "base/rng.h"
#include "base/slice.h"
#include "cluster/mesh_link.h"
#include "cluster/mesh_queue.h"
#include "cluster/mesh_wire.h"
#include "net/transport.h"
#include "sys/loop.h"

struct dns;
struct mesh_link;

enum {
    mesh_stranger_count_max = 64, // accepted, before their hello
    mesh_name_count_max = 64,     // bits of mesh_dial.names
    mesh_dial_count_max = 64,     // addresses: twice the routers
    // The last are for connections that ended in this turn.
    mesh_connection_count_max =
        mesh_stranger_count_max + mesh_dial_count_max + link_peer_count_max + 32,
    mesh_greet_ms = 3000, // from the start of a connection to its first beat
    mesh_tick_ms = 50,
    mesh_stale_ms = link_silence_ms / 2, // a newer connection takes the place of a silent one
    mesh_steady_ms = 1000,               // a connection that lasted so long is not in trouble
    mesh_rest_ms = 60000,
    mesh_backoff_min_ms = 50,
    mesh_backoff_max_ms = 1000,
    mesh_accepts_per_turn = 32,
    mesh_bytes_per_turn = 256 << 10, // read from one peer, and written to it
    mesh_in_size = mesh_frame_head_size + link_frame_size_max + (16 << 10), // a frame and a record
    mesh_address_size = sizeof(((struct link_peer_status *)0)->address),
    mesh_said_count_max = 4,
};

// Reasons that were logged since the last success, as hashes: each is logged once, and a few at
// most.
struct mesh_said {
    uint64_t hashes[mesh_said_count_max];
    uint32_t count;
};

struct mesh_name {
    struct mesh_link *link;
    char text[mesh_address_size]; // as configured, cut if it is longer
    char host[256];
    uint16_t port; // 0: the host is the name of SRV records, which have the ports
    bool is_literal;
    bool is_resolving;
    struct timer timer;
    struct mesh_said said;
};

struct mesh_dial {
    struct mesh_link *link;
    struct address address; // size 0: the slot is free
    uint64_t names;         // that stand for it, one bit each
    struct mesh_connection *connection;
    struct timer timer; // armed while it has no connection
    uint32_t failures;  // since a steady connection
    bool is_self;
    uint64_t router; // found here last; 0: none yet
    char router_name[link_name_size];
    char text[mesh_address_size];
    char why[link_error_size];
    struct mesh_said said;
};

enum mesh_phase {
    MESH_FREE,
    MESH_CONNECTING,
    MESH_SHAKING,  // TLS
    MESH_GREETING, // hellos
    MESH_WAITING,  // for the beat of the router with the lower id
    MESH_UP,
    MESH_ENDED, // the slot is free when the turn ends
};

struct mesh_connection {
    struct transport transport; // first: `ready` finds us from here
    struct loop_deferred recycle;
    struct mesh_link *link;
    struct mesh_dial *dial; // NULL: accepted, or its address was dropped
    struct mesh_peer *peer; // set in MESH_UP
    enum mesh_phase phase;
    struct address remote;
    uint64_t opened_ms;
    const char *failed; // why a write failed; the next turn ends the connection
    size_t hello_sent;
    struct mesh_hello hello; // the peer's, from MESH_WAITING on; points into `in`
    size_t in_size;
    uint8_t in[mesh_hello_size_max];
    size_t beat_size;
    uint8_t beat[mesh_frame_head_size];
};

struct mesh_peer {
    uint64_t router;                    // 0: the slot is free
    struct mesh_connection *connection; // NULL: free
    char name[link_name_size];
    char address[mesh_address_size];
    uint64_t came_ms;
    uint64_t heard_ms;
    uint64_t sent_ms;
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t frames_dropped;
    struct mesh_queue queue; // its bytes stay when the slot is free
    uint8_t *in;             // likewise
    size_t in_size;
};

struct mesh_link {
    struct link link; // first
    struct loop *loop;
    const struct link_events *events;
    void *owner;
    uint64_t router;
    size_t out_size_max;
    struct loop_source listener;
    bool can_accept;
    struct tls_context *server;
    struct tls_context *client;
    struct dns *dns; // NULL: all peers are literals
    struct rng rng;
    struct timer tick;
    struct timer resume; // for work that was put off, because no event follows
    uint64_t bytes_in;   // of peers that left
    uint64_t bytes_out;
    uint64_t frames_dropped;
    size_t hello_size;
    uint8_t hello[mesh_hello_size_max];
    char why[link_error_size]; // space for a reason with numbers
    uint32_t name_count;
    struct mesh_name names[mesh_name_count_max];
    struct mesh_dial dials[mesh_dial_count_max];
    struct mesh_connection connections[mesh_connection_count_max];
    struct mesh_peer peers[link_peer_count_max];
};

// mesh_link.c

// Comes back in the next millisecond, to accept, read and write on.
void mesh_link_resume(struct mesh_link *link);

// Whether to log this reason.
bool mesh_said_is_new(struct mesh_said *said, const char *why);

// mesh_name.c

// NULL on success, else what is wrong with `text`.
const char *mesh_name_parse(struct mesh_name *name, const char *text);
void mesh_name_start(struct mesh_name *name);
void mesh_name_stop(struct mesh_name *name);

// mesh_dial.c

// The addresses that `name` stands for now; dials new ones and drops those without a name.
void mesh_dial_set(struct mesh_link *link, uint32_t name, const struct address *addresses,
                   uint32_t count);
void mesh_dial_stop_all(struct mesh_link *link);

// Says which router is at this address.
void mesh_dial_found(struct mesh_dial *dial, const struct mesh_hello *hello);

enum mesh_end {
    MESH_END_FAILED,
    MESH_END_QUIET, // a failure that is not worth a line
    MESH_END_REST,  // the address need not be dialled now
};

// Its connection, which was not up, is over.
void mesh_dial_ended(struct mesh_dial *dial, enum mesh_end how, const char *why);

// A router came or left: its addresses rest, or are dialled.
void mesh_dial_router_came(struct mesh_link *link, uint64_t router);
void mesh_dial_router_left(struct mesh_link *link, uint64_t router, uint64_t lasted_ms,
                           const char *why);

// An address at which the router was found, or NULL.
const struct mesh_dial *mesh_dial_of(const struct mesh_link *link, uint64_t router);

// mesh_connection.c

// Until AGAIN, or until enough was accepted in this turn.
void mesh_connection_accept(struct mesh_link *link);

// OK: the dial has a connection.  Otherwise *why says why not.
enum status mesh_connection_dial(struct mesh_dial *dial, const char **why);

// Goes on with reading.
void mesh_connection_advance(struct mesh_connection *connection);
void mesh_connection_end(struct mesh_connection *connection, enum mesh_end how, const char *why);

// Ends connections that took too long.
void mesh_connection_expire(struct mesh_connection *connection);

// mesh_peer.c

struct mesh_peer *mesh_peer_find(struct mesh_link *link, uint64_t router);

// The router at the other end of a connection whose hello was read is there.  Ends the connection
// if there are too many peers.
void mesh_peer_come(struct mesh_connection *connection);

// Its connection is over.
void mesh_peer_leave(struct mesh_peer *peer, const char *why);

// Takes frames until AGAIN, or until enough was read in this turn.
void mesh_peer_read(struct mesh_peer *peer);

// Writes once.  True: there is more, and room for it.
bool mesh_peer_write(struct mesh_peer *peer);

// Writes until AGAIN, or until enough was written in this turn.
void mesh_peer_flush(struct mesh_peer *peer);

// Beats, and notices silence.
void mesh_peer_tick(struct mesh_peer *peer);
