// SPDX-License-Identifier: Apache-2.0

#include "feed/backend_peer.h"

#include "config/config.h"
#include "fleet/backend.h"
#include "net/tls.h"
#include "sys/log.h"

struct fetch_peer backend_peer(const struct backend *backend)
{
    return (struct fetch_peer){
        .address = backend->address,
        .host = backend->host,
        .authority = backend->authority,
        .authorization = backend->authorization,
        .tls = backend->tls,
    };
}

struct tls_context *backend_peer_tls(const struct fetch_peer *peer, const struct config *config,
                                     struct tls_context **kept)
{
    if (peer->tls && *kept == NULL) {
        char error[tls_error_size];
        struct tls_client_options options = {.ca = config->backend_tls.ca,
                                             .verify = config->backend_tls.verify};
        if (tls_client_create(&options, kept, error) != STATUS_OK) {
            log_error_seldom(0, "TLS to backends: %s", error);
        }
    }
    return *kept;
}
