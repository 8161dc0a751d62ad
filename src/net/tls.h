// SPDX-License-Identifier: Apache-2.0
//
// tls.h -- TLS over a connected, non-blocking descriptor, for both roles.
//
// A context is an identity (server: certificate and key; client: trusted authorities), checked when
// it is created and immutable after.  Each worker creates its own: a shared one costs a lock per
// handshake.  A session is one connection.  All calls return STATUS_AGAIN when the descriptor has
// to become readable or writable first (a read may need to write; an edge-triggered loop watches
// both), STATUS_CLOSED after an orderly end, STATUS_IO otherwise.
//
// An end of the stream without the closing alert is not an end: it is STATUS_IO with ECONNRESET, so
// that an attacker cannot cut a body that ends with the connection.  A protocol
// error is STATUS_IO with EPROTO; tls_why describes it.  A failed
// session stays failed: every later call returns STATUS_IO with the same errno.
//
// TLS 1.2 and later, no renegotiation, no compression, no early data.  A server picks http/1.1 from
// what the client offers and refuses one that offers only other protocols; a client offers
// http/1.1.  Servers resume sessions by ticket, under keys that each context makes for itself, so a
// ticket is of use to the worker that gave it; clients do not resume, they keep connections.
//
// The descriptor is written with write(2): the program must ignore SIGPIPE.
//
// Threads: a context may open sessions from the thread that owns it only.
// Memory: a session is allocated when it is opened, and OpenSSL allocates inside calls; the 16 KB
// record buffers are given back whenever they are empty, so an idle connection has none.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct tls_context;
struct tls_session;

enum {
    tls_error_size = 256,
    tls_record_size_max = 16384, // RFC 8446, section 5.1; a write moves no more than one record
};

struct tls_server_options {
    const char *certificate; // PEM, the chain
    const char *key;         // PEM
};

struct tls_client_options {
    const char *ca; // PEM; NULL: the system's store
    bool verify;    // chain and host name
};

// On failure `error` says which file and why.  `*out` is untouched on failure.  STATUS_IO: a file
// could not be read; STATUS_MALFORMED: it holds something else than it should.  A key with a
// passphrase is refused.
enum status tls_server_create(const struct tls_server_options *options, struct tls_context **out,
                              char error[tls_error_size]);
enum status tls_client_create(const struct tls_client_options *options, struct tls_context **out,
                              char error[tls_error_size]);

// Clears the caller's pointer.  Sessions that are open keep what they need of it.
void tls_context_destroy(struct tls_context **context);

// Takes no ownership of `fd`.  `host` is the name to send and to verify, for clients; NULL for
// servers.  An address literal, without brackets, is verified as an address and not sent.
// STATUS_MALFORMED: `host` cannot be the name of a host; STATUS_EXHAUSTED: no memory.
enum status tls_session_open(struct tls_context *context, int fd, const char *host,
                             struct tls_session **out);

// STATUS_OK: done, and the first bytes may have arrived with the peer's last message, so read at
// once: no event needs to follow.
enum status tls_handshake(struct tls_session *session);

// STATUS_OK: *size bytes, at least one, were moved.  `*size` is untouched otherwise.  Finishes the
// handshake first if need be.
//
// A write that returned STATUS_AGAIN has already sealed its bytes, up to tls_record_size_max of
// them, in a record that the descriptor did not take whole.  The next write must begin with the
// same bytes, all of them; the memory may be another and more may follow.
enum status tls_read(struct tls_session *session, void *bytes, size_t capacity, size_t *size);
enum status tls_write(struct tls_session *session, struct slice bytes, size_t *size);

// Why the session failed, in words for the log: "certificate has expired", "hostname mismatch",
// "Connection reset by peer".  Empty before any failure; lives as long as the program.
const char *tls_why(const struct tls_session *session);

// `orderly` sends the closing alert, best effort; without it the peer sees a truncation.  Clears
// the caller's pointer, which may be NULL.
void tls_session_close(struct tls_session **session, bool orderly);
