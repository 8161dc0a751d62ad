// SPDX-License-Identifier: Apache-2.0
//
// store_connection.h -- one connection to a store or to a Sentinel: commands out, replies in.
//
//     open -> resolve -> connect -> TLS -> HELLO, AUTH, SELECT -> `ready`
//     send, send, send ...  `reply`, `reply`, `reply` ...          in the order of the commands
//     `lost`, once, for any reason: refused, reset, late, malformed
//
// Commands are pipelined: a send never waits, neither for the network nor for earlier replies.  The
// bytes that wait and the commands without a reply are bounded, and a command whose reply is late
// ends the connection: a store that is stopped or cut off keeps its socket open.
//
// HELLO selects RESP2 and logs in; a server that does not know it, or refuses it, gets AUTH.
//
// Threads: belongs to the thread of its loop.  Memory: buffers are taken by create; hiredis
// allocates commands and replies, OpenSSL what it needs.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "cluster/store_codec.h"
#include "cluster/store_error.h"

struct dns;
struct loop;
struct store_connection;
struct tls_context;

enum {
    // Beyond out_size_max, for commands that are not frames.
    store_out_reserve = 32 << 10,
    store_pending_max = 4096, // commands without a reply
    store_pending_reserve = 256,
    store_why_size = 256,
};

struct store_login {
    char user[store_login_size]; // empty: the default user
    char password[store_login_size];
    bool has_password;
    uint32_t database;
    char client_name[64]; // shown by CLIENT LIST; empty: none
    bool must_be_master;
};

// Called from the loop's turns.  All may send and close; none may open or destroy.
struct store_connection_events {
    void (*ready)(void *owner);
    // `what` and `about` are those of the command.  The reply is freed afterwards.
    void (*reply)(void *owner, uint32_t what, uint64_t about, const struct store_reply *reply);
    // The connection is closed.  `error`: the store refused the login, or is a replica (then its
    // remedy is STORE_RELOCATE); NULL: any other reason.
    void (*lost)(void *owner, const char *why, const struct store_error *error);
};

struct store_connection_options {
    struct loop *loop;
    struct dns *dns;
    struct tls_context *tls;         // NULL: plain
    const struct store_login *login; // NULL: no greeting, `ready` comes when it is connected
    const struct store_connection_events *events;
    void *owner;
    size_t out_size_max; // bytes of frames that wait
    struct store_codec_bounds bounds;
    uint32_t connect_timeout_ms; // from each: connecting, TLS and greeting together
};

struct store_command {
    const struct slice *words;
    uint32_t word_count;
    uint32_t what;       // for the owner
    uint64_t about;      // likewise
    uint32_t timeout_ms; // of its reply
    bool is_frame;       // may not use the reserves
    bool has_successor;  // the next send follows at once: one system call for both
};

// Keeps all that `options` points to, except for the options themselves.  EXHAUSTED: no memory.
enum status store_connection_create(const struct store_connection_options *options,
                                    struct store_connection **out);

// Clears the caller's pointer, which may be NULL.  Between turns, and after dns_destroy: a query
// may be open.
void store_connection_destroy(struct store_connection **connection);

// The connection must be closed.  From a timer, or between turns: events of an earlier socket may
// still be in this turn's queue.
void store_connection_open(struct store_connection *connection, const struct store_host *host);

// Without `lost`.  Bytes that the kernel did not take are dropped; those that it took arrive.
void store_connection_close(struct store_connection *connection);

bool store_connection_is_closed(const struct store_connection *connection);
bool store_connection_is_ready(const struct store_connection *connection);

// False: not ready, or no room; nothing was sent.
bool store_connection_send(struct store_connection *connection,
                           const struct store_command *command);

// Bytes of commands with frames for which there is room; 0 if too many commands wait for replies.
size_t store_connection_room(const struct store_connection *connection);

uint64_t store_connection_bytes_in(const struct store_connection *connection);
uint64_t store_connection_bytes_out(const struct store_connection *connection);
