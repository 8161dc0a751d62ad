// SPDX-License-Identifier: Apache-2.0
//
// endpoint.h -- the spelling of URLs and addresses: parts of a text, no sockets, no names resolved.
//
//     https://gpu-7.internal:8000/    [2001:db8::1]:8080    :8080    10.0.0.2    tcp://*:5557
//     ^tls    ^host          ^port
#pragma once

#include "base/slice.h"

struct text;

struct config_endpoint {
    struct slice host; // without brackets; part of the text; empty: every address
    uint16_t port;     // 0: none written
    bool tls;
};

// A backend: http or https, a host, at most a port and a "/".  The port is filled in.  NULL on
// success, else what is wrong, and `*out` is untouched.
const char *config_url_split(struct slice url, struct config_endpoint *out);

// Whom we report to: as above, and it may have a path, which is part of the text: empty, or it
// begins with "/".
const char *config_collector_split(struct slice url, struct config_endpoint *out,
                                   struct slice *path);

// To listen on: `ip:port`, `[v6]:port`, `:port` or `*:port`.  NULL on success.
const char *config_address_split(struct slice address, struct config_endpoint *out);

// A name server: an address with or without a port.  NULL on success.
const char *config_server_split(struct slice server, struct config_endpoint *out);

// A router of the cluster: `host:port`, or `dns+srv://name` with port 0, because SRV records name
// the ports.  NULL on success.
const char *config_peer_split(struct slice peer, struct config_endpoint *out);

// A ZeroMQ endpoint.
struct config_socket {
    struct slice host; // of tcp, without brackets; empty: `*`
    uint16_t port;     // of tcp; 0: it is ipc
    struct slice path; // of ipc
};

// `tcp://host:port`, `tcp://*:port` or `ipc://path`.  NULL on success.
const char *config_socket_split(struct slice endpoint, struct config_socket *out);

// Appends the endpoint of one data-parallel rank: the rank is added to the port, and `own_host` is
// put for `*`, in brackets if it needs them.  False, with nothing appended: the port is too large,
// or the endpoint is ipc, which has no ports.
bool config_socket_write(const struct config_socket *socket, uint32_t rank, struct slice own_host,
                         struct text *out);
