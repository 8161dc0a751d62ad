// SPDX-License-Identifier: Apache-2.0
//
// tls_internal.h -- the structs of tls.h and the steps that tls.c and tls_peer.c share.
#pragma once

#include "net/tls.h"
#include "net/tls_peer.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_context {
    SSL_CTX *openssl;
    bool is_server;
    bool verify;  // the host name, for clients
    bool is_peer; // made by tls_peer_create
    bool is_keyed;
    uint8_t shared_key[tls_key_size];
};

struct tls_session {
    SSL *openssl;
    const char *why; // static text; "" until something failed
    size_t sealed;   // bytes that the next write has to begin with
    int error;       // errno of the failure; then nothing may be sent, not even the closing alert
    bool is_peer;
    bool is_keyed;
    uint8_t shared_key[tls_key_size]; // a copy: the context may go before the session
};

enum status tls_context_create(const SSL_METHOD *method, struct tls_context **out);

// Failures as those of tls_server_create.
enum status tls_load_identity(SSL_CTX *openssl, const struct tls_server_options *options,
                              char error[tls_error_size]);

// `ca` NULL: the system's.
enum status tls_load_trust(SSL_CTX *openssl, const char *ca, char error[tls_error_size]);

// Words for a failed handshake between peers, by the reason code of OpenSSL.  NULL: the text of
// OpenSSL is good enough.
const char *tls_peer_words(int reason, bool is_keyed);
