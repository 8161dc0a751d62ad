// SPDX-License-Identifier: Apache-2.0
//
// backend_peer.h -- a backend as the server of a fetch (net/fetch.h), and the TLS context to reach
// it.
#pragma once

#include "net/fetch.h"

struct backend;
struct config;

// Borrows the backend's texts.
struct fetch_peer backend_peer(const struct backend *backend);

// Returns the TLS context for the peer, or NULL if it could not be made, which is logged.  It is
// made when the first peer wants TLS and kept in `*kept`, which the caller destroys when
// backend_tls may have changed.
struct tls_context *backend_peer_tls(const struct fetch_peer *peer, const struct config *config,
                                     struct tls_context **kept);
