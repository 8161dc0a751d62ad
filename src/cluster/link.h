// SPDX-License-Identifier: Apache-2.0
//
// link.h -- moves frames between the routers of a cluster: directly, or through a store.
//
//     router A  --- mesh_link:  one TLS connection to each other router ---  router B
//     router A  --- store_link: streams and keys of Redis or Valkey      ---  router B
//
// A link knows which routers are there and moves whole frames; it does not know what is in a frame.
// It keeps the order of the frames of each sender, and may lose and repeat frames: the frames
// number themselves, and their reader notices.  It never holds more than `out_size_max` bytes for a
// peer (mesh) or for the store; what does not fit is dropped and counted.
//
// Membership: a router that was not heard of for link_silence_ms has left, and so have all when our
// own connection to the store is down for that long.  A router that comes back is announced again.
//
// A link reconnects by itself and never gives up.  It logs one line when a peer or the store is
// lost, with the reason, and one when it is back.
//
// Threads: all of it belongs to the thread of its loop.  Memory: taken by open, except for what
// OpenSSL allocates and for addresses of peers.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

enum {
    link_error_size = 256,
    link_frame_size_max = 32 << 10,
    link_peer_count_max = 31, // 32 routers
    link_name_size = 64,      // with its NUL
    link_hello_size_max = 256,
    link_silence_ms = 2000,
    link_beat_ms = 250, // a router that has nothing to send says that it is there
    link_secret_size = 32,
};

// Called from the loop's turns; none of them may close the link.  All may send.
struct link_events {
    // The router is there.  `hello` is what it passed as link_options.hello; `name` is its name
    // for people.  Both are from outside.
    void (*came)(void *owner, uint64_t router, const char *name, struct slice hello);
    void (*left)(void *owner, uint64_t router);
    // Only from routers that came and did not leave.
    void (*frame)(void *owner, uint64_t router, struct slice frame);
};

struct link_options {
    struct loop *loop; // kept, as `events` and `owner`
    const struct link_events *events;
    void *owner;
    uint64_t router;           // our own id, random for each process, not 0
    char name[link_name_size]; // of this router, for people
    struct slice hello;        // copied
    size_t out_size_max;
};

// One peer, for people.
struct link_peer_status {
    uint64_t router; // 0: an address without a router behind it
    char name[link_name_size];
    char address[128]; // as configured, or as resolved; empty behind a store
    bool is_there;
    uint64_t heard_ms;         // when, by the clock of the loop; 0: never
    uint64_t bytes_in;         // since it came
    uint64_t bytes_out;        // likewise
    uint64_t frames_dropped;   // that did not fit
    char why[link_error_size]; // of the last failure; empty: none
};

struct link_status {
    const char *kind;          // "mesh", "redis"
    bool is_up;                // mesh: always; a store: connected and obeying
    char why[link_error_size]; // not up
    uint64_t bytes_in;         // since the start
    uint64_t bytes_out;
    uint64_t frames_dropped;
    uint32_t peer_count;
    struct link_peer_status peers[link_peer_count_max];
};

// The verbs of a kind of link.
struct link;
struct link_kind {
    // Clears the caller's pointer, which may be NULL.  Between turns of the loop only.  Tells the
    // peers that this router leaves, if that needs no waiting.
    void (*close)(struct link **link);
    // Puts a frame of at most link_frame_size_max bytes, copied, into the queue of one router, or
    // of every router that is there (`to` 0).  False: it was dropped for at least one of them.
    bool (*send)(struct link *link, uint64_t to, struct slice frame);
    // Bytes that the queue to this router (0: to the fullest) still has room for.
    size_t (*room)(const struct link *link, uint64_t to);
    void (*status)(const struct link *link, struct link_status *out);
};

// The first member of every link.
struct link {
    const struct link_kind *kind;
};

static inline void link_close(struct link **link)
{
    if (*link != NULL) {
        (*link)->kind->close(link);
    }
}

static inline bool link_send(struct link *link, uint64_t to, struct slice frame)
{
    return link->kind->send(link, to, frame);
}

static inline size_t link_room(const struct link *link, uint64_t to)
{
    return link->kind->room(link, to);
}

static inline void link_read_status(const struct link *link, struct link_status *out)
{
    link->kind->status(link, out);
}
