// SPDX-License-Identifier: Apache-2.0
//
// lab_router.h -- one router of the lab: its own fleet, loads, knowledge and route.
//
// Several routers see the same engines: each has a backend for every engine, with the same URL and
// therefore the same identity.  A router that shares has a struct replica, the same code that
// shares between processes:
//
//     tap of its knowledge, its loads, its arrivals --> replica --> frames of the outbox
//     frames of other routers --> replica --> its knowledge, its loads, its traffic
//
// The outbox keeps frames until their sender's next turn (lab_cluster.h).
//
// Pure.  Threads: one owner.  Memory: taken by _open, and the outbox grows with its frames.
#pragma once

#include "policy/policy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fleet_view;
struct load_report;
struct reclaim;
struct slice;

struct lab_router_options {
    const struct policy *policy;
    const struct policy_knobs *knobs; // NULL: the defaults
    uint32_t number;                  // from 0
    uint32_t backend_max;
    uint32_t block_tokens;
    uint64_t seed;
    bool is_sharing;
    struct reclaim *reclaim; // kept
};

struct lab_frame {
    uint64_t to; // id of a router; 0: all
    size_t at;   // in the bytes of the outbox
    size_t size;
};

struct lab_outbox {
    struct lab_frame *frames;
    uint32_t frame_count;
    uint32_t frame_capacity;
    uint8_t *bytes;
    size_t size;
    size_t capacity;
};

struct lab_router {
    uint64_t id; // never 0
    struct fleet *fleet;
    const struct fleet_view *view;
    struct knowledge *knowledge;
    struct route *route;
    struct backend **backends; // by slot: none is used twice
    bool *has_left;            // likewise
    struct load_told *told;    // likewise: the speeds that other routers know
    uint64_t speeds_us;        // when they were told last
    uint32_t backend_count;
    uint32_t backend_max;
    struct replica *replica; // NULL: it shares nothing
    struct lab_outbox outbox;
    uint64_t now_us;
};

uint64_t lab_router_id(uint32_t number);

// False when memory is short; the router owes lab_router_close in any case.
bool lab_router_open(struct lab_router *router, const struct lab_router_options *options);
void lab_router_close(struct lab_router *router);

// Adds the backend of the next slot.  Changes of the fleet take effect with _publish.  Both are
// false when memory is short.
bool lab_router_join(struct lab_router *router);
void lab_router_leave(struct lab_router *router, uint32_t slot);
bool lab_router_publish(struct lab_router *router);

// The moment of the following calls.
void lab_router_set_now(struct lab_router *router, uint64_t now_us);

// Passes what its knowledge has learned on to the replica.  A full frame goes to the outbox.
void lab_router_note(struct lab_router *router);

// Tells its loads and arrivals too, and puts all that has gathered into the outbox.
void lab_router_pump(struct lab_router *router);

// Bytes of a frame; valid while no frame is added.
struct slice lab_router_frame(const struct lab_router *router, uint32_t index);
void lab_router_clear(struct lab_router *router);

// A frame of the router with that id.
void lab_router_take(struct lab_router *router, uint64_t from, struct slice frame);
