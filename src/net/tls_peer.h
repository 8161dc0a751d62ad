// SPDX-License-Identifier: Apache-2.0
//
// tls_peer.h -- contexts for TLS between two of our own processes, which both prove themselves.
//
//     shared key    TLS 1.3 with an external key (RFC 8446, section 2.2) and Diffie-Hellman, so
//                   that a stolen key does not open recorded traffic; certificates are not used
//     certificates  TLS 1.3 in which both sides show a certificate of the given authority
//
// Host names are not compared: every process with the key, or with a certificate of that authority,
// is a peer.  So the authority must sign for peers alone.  Only TLS 1.3 is spoken, and sessions are
// never resumed: each connection proves itself.
//
// A context is for one role, and its sessions are those of tls.h.  tls_session_open of a client
// takes the address of the peer as its `host`; only an address literal, which is not sent.
#pragma once

#include "net/tls.h"

#include <stdbool.h>
#include <stdint.h>

enum { tls_key_size = 32 };

struct tls_peer_options {
    bool is_server;
    const uint8_t *shared_key; // tls_key_size bytes, copied; NULL: certificates
    const char *certificate;   // PEM, the chain; these three are NULL with a shared key
    const char *key;           // PEM
    const char *ca;            // PEM
};

// Failures as those of tls_server_create.
enum status tls_peer_create(const struct tls_peer_options *options, struct tls_context **out,
                            char error[tls_error_size]);
