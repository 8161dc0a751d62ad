// SPDX-License-Identifier: Apache-2.0
//
// mesh_wire.h -- the bytes between two routers of a mesh, inside TLS.  Numbers are little endian.
//
//     hello   "warmmesh"  version u32  router u64  name size u16  hello size u16  name  hello
//     frame   size u32  bytes             size 0: a beat, which only says that the router is there
//
// Both sides send a hello, then frames.  Every version begins with the magic and the version, so
// that a router can name the version that it does not know.
//
// Readers take any bytes and say how many more they need; slices point into the caller's bytes.
#pragma once

#include "base/slice.h"
#include "base/status.h"
#include "cluster/link.h"

enum {
    mesh_version = 1,
    mesh_hello_head_size = 24,
    mesh_hello_size_max = mesh_hello_head_size + (link_name_size - 1) + link_hello_size_max,
    mesh_frame_head_size = 4,
};

struct mesh_hello {
    uint32_t version;
    uint64_t router;   // not 0
    struct slice name; // at most link_name_size - 1 bytes of UTF-8 without control characters
    struct slice hello;
};

// Whether a name can be sent.
bool mesh_name_is_good(struct slice name);

// Writes a hello of this version; returns its size.
size_t mesh_hello_write(const struct mesh_hello *hello, uint8_t out[mesh_hello_size_max]);

// OK: `bytes` is a whole hello, or `out->version` is not ours and the other members are 0.
// AGAIN: a hello has at least *wanted bytes, more than these, and at most mesh_hello_size_max.
// MALFORMED: it is something else.  Bytes behind the hello are ignored; with *wanted in hand, none
// are there.
enum status mesh_hello_read(struct slice bytes, struct mesh_hello *out, size_t *wanted);

void mesh_frame_head_write(size_t size, uint8_t out[mesh_frame_head_size]);

// OK: *frame, of at most link_frame_size_max bytes, is the first in `bytes`, and *used bytes are
// its own.  AGAIN: it is not whole yet.  MALFORMED: it is larger than that.
enum status mesh_frame_read(struct slice bytes, struct slice *frame, size_t *used);
