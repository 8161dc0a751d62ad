// SPDX-License-Identifier: Apache-2.0
//
// mesh_link.h -- the link of a cluster whose routers talk to each other directly.
//
//       router 1 ---------- router 2        one TLS connection for each pair
//              \            /
//               \          /
//                 router 3
//
// Every router listens, and dials each address that it was given.  A DNS name stands for all its
// addresses, a name of SRV records also for their ports; both are resolved again when records
// expire.  Routers that only dial us are peers as well, so a list of peers on one side is enough.
// Backoff grows from 50 ms to 1 s; a connection that lasted a second is dialled again at once.
//
// A pair may dial each other at the same time.  The router with the lower id decides: it begins the
// first connection on which both hellos were exchanged, by a beat, and ends any other.  The router
// with the higher id sends nothing behind its hello before that beat, so both always agree and no
// frame is on a connection that is given up:
//
//     lower id                                higher id
//        |  ------------ hello --------------->  |
//        |  <----------- hello ----------------  |
//   came |  ------------ beat ---------------->  | came
//        |  <====== frames and beats =========>  |
//
// A newer connection takes the place of one that was silent for half of link_silence_ms.  A router
// that dials itself sees its own id in the hello; it leaves that address alone, as it does all
// addresses of routers that are there, and looks again after a minute.
//
// Both sides prove themselves (net/tls_peer.h): by the shared key, or by a certificate of the
// cluster's authority.  Host names are not compared: any router with such a certificate is a peer.
// A stranger gets nothing but a refused handshake, and with certificates a look at ours.  At most
// 64 accepted connections may be before their hello; one more ends the oldest.  Each has 3 s to its
// first beat.
//
// A peer whose connection ends has left at once.  Each peer has a queue of out_size_max bytes, so a
// peer that reads slowly loses frames and delays nobody.
//
// Threads: all belongs to the thread of its loop.  Memory: fixed by open, but for two buffers of a
// peer, taken when it comes for the first time and kept: its queue, and one frame with a record.
#pragma once

#include "base/address.h"
#include "cluster/link.h"

struct mesh_options {
    struct link_options link;
    const char *listen; // as address_parse reads it; port 0: any

    // As config_peer_split reads them: "host:port" with a literal address or a DNS name, or
    // "dns+srv://name".  At most 64.
    const char *const *peers;
    uint32_t peer_count;
    const char *dns_servers; // as those of dns_options; NULL: the system's

    // Exactly one identity: a key of link_secret_size bytes, or three PEM files.
    const uint8_t *shared_key;
    const char *certificate;
    const char *key;
    const char *ca;
};

// On failure `error` says which option and why, and *out is untouched.  No peer is dialled before
// the next turn of the loop.
enum status mesh_link_open(const struct mesh_options *options, struct link **out,
                           char error[link_error_size]);

// Where the link listens, with the port that it got.
void mesh_link_address(const struct link *link, struct address *out);
