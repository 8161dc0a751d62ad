// SPDX-License-Identifier: Apache-2.0
//
// tls.h -- TLS over a connected, non-blocking descriptor, for both roles.
//
// A context is an identity (server: certificate and key; client: whom to trust), checked when it is
// created and immutable after.  Each worker creates its own: a shared one costs a lock per
// handshake.  A session is one connection.  All calls return STATUS_AGAIN when the descriptor has
// to become readable or writable first (either may be needed whatever one asked for, which an
// edge-triggered loop that watches both does not have to know), STATUS_CLOSED after an orderly end,
// STATUS_IO otherwise.
//
// Threads: a context may open sessions from the thread that owns it only.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct tls_context;
struct tls_session;

enum { tls_error_size = 256 };

struct tls_server_options {
    const char *certificate; // PEM, the chain
    const char *key;         // PEM
};

struct tls_client_options {
    const char *ca; // PEM; NULL: the system's store
    bool verify;    // chain and host name
};

// On failure `error` says which file and why.  `*out` is untouched on failure.
enum status tls_server_create(const struct tls_server_options *options, struct tls_context **out,
                              char error[tls_error_size]);
enum status tls_client_create(const struct tls_client_options *options, struct tls_context **out,
                              char error[tls_error_size]);

// Clears the caller's pointer.  Sessions that are open keep what they need of it.
void tls_context_destroy(struct tls_context **context);

// Takes no ownership of `fd`.  `host` is the name to send and to verify, for clients; NULL for
// servers.  An address literal is verified as an address and not sent.
enum status tls_session_open(struct tls_context *context, int fd, const char *host,
                             struct tls_session **out);

enum status tls_handshake(struct tls_session *session);

// STATUS_OK: *size bytes, at least one, were moved.  A write that returned STATUS_AGAIN may be
// repeated with other memory and a longer or shorter size.
enum status tls_read(struct tls_session *session, void *bytes, size_t capacity, size_t *size);
enum status tls_write(struct tls_session *session, struct slice bytes, size_t *size);

// Bytes already decrypted and not yet read: no event will announce them.
size_t tls_pending(const struct tls_session *session);

// `orderly` sends the closing alert, best effort; without it the peer sees a truncation.  Clears
// the caller's pointer, which may be NULL.
void tls_session_close(struct tls_session **session, bool orderly);
