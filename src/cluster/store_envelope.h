// SPDX-License-Identifier: Apache-2.0
//
// store_envelope.h -- the form of each value that a router writes to a store.
//
//     byte 0      form: 1 plain, 2 sealed
//     byte 1      kind
//     bytes 2-9   counter of the sender, the high byte first
//     then        the body; sealed: encrypted, with a tag of 16 bytes
//
// A sender counts all its values together, so no two have the same counter, which is the nonce.
// The key is made from the secret, the cluster and the sender's id.  The head, the sender and the
// addressee are authenticated: a value cannot pass as another kind, as another router's, or in
// another stream.  A router with a secret takes sealed values only.  Readers refuse counters that
// do not grow, which is not decided here.
//
// The body of a hello:
//
//     size and bytes of the name, size and bytes of the hello, count and ids of the routers that
//     the sender has heard: a size or a count is one byte, the hello's size is two, an id is eight
//
// Values are from outside: anything may be in them.  Pure, but for memory of OpenSSL.
#pragma once

#include "cluster/link.h"
#include "net/seal.h"

enum {
    store_envelope_head_size = 10,
    store_envelope_extra_size = store_envelope_head_size + seal_tag_size,
    store_envelope_size_max = link_frame_size_max + store_envelope_extra_size,
    store_hello_size_max =
        1 + link_name_size + 2 + link_hello_size_max + 1 + 8 * link_peer_count_max,
    store_cluster_size_max = 64,
};

enum store_kind {
    STORE_HELLO = 1,
    STORE_FRAME,
    STORE_LEAVE,
    STORE_PROBE, // means nothing: shows whether the sender may write
};

struct store_envelope {
    uint64_t from;
    uint64_t to; // 0: everybody
    enum store_kind kind;
    uint64_t counter; // not 0
    struct slice body;
};

// The key of one sender in one cluster.  EXHAUSTED: no memory.
enum status store_envelope_key(const uint8_t secret[link_secret_size], const char *cluster,
                               uint64_t from, struct seal **out);

// `out` has room for the body and store_envelope_extra_size; returns the size.  `seal` NULL: plain.
// 0: no memory.
size_t store_envelope_write(const struct store_envelope *envelope, struct seal *seal, uint8_t *out);

// `from` and `to` of `out` are set by the caller; the rest is filled in.  `seal` NULL: plain.
// `space` has room for store_envelope_size_max bytes; the body may be there or in `bytes`.  False:
// not a value of this sender for this addressee.
bool store_envelope_read(struct slice bytes, struct seal *seal, uint8_t *space,
                         struct store_envelope *out);

struct store_hello {
    char name[link_name_size]; // printable ASCII
    struct slice hello;
    uint64_t seen[link_peer_count_max];
    uint32_t seen_count;
};

// `out` has room for store_hello_size_max bytes; returns the size.
size_t store_hello_write(const struct store_hello *hello, uint8_t *out);

// `out` borrows from `bytes`.  False: malformed.
bool store_hello_read(struct slice bytes, struct store_hello *out);

static inline bool store_hello_lists(const struct store_hello *hello, uint64_t router)
{
    for (uint32_t i = 0; i < hello->seen_count; i++) {
        if (hello->seen[i] == router) {
            return true;
        }
    }
    return false;
}
