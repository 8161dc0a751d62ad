// SPDX-License-Identifier: Apache-2.0
//
// mesh_queue.h -- frames on their way to one peer, as bytes in a ring.
//
//     [ ...second part ]  free  [ first part... ]
//                       ^ end     ^ start
//
// A frame is in the queue whole or not at all.  Bytes at the start stay in place until they are
// taken, as a TLS write that has to be repeated demands.
//
// Threads: one owner.  Memory: the caller's.
#pragma once

#include "base/slice.h"

struct mesh_queue {
    uint8_t *bytes;
    size_t capacity;
    size_t start;
    size_t size;
};

// Keeps `bytes`.
void mesh_queue_init(struct mesh_queue *queue, void *bytes, size_t capacity);

// Bytes of one more frame that fit now, however long frames may be.
size_t mesh_queue_room(const struct mesh_queue *queue);

// False: it does not fit.  An empty frame is a beat.
bool mesh_queue_put(struct mesh_queue *queue, struct slice frame);

// All bytes of the queue, in order; returns how many of the two slices are not empty.
uint32_t mesh_queue_slices(const struct mesh_queue *queue, struct slice out[2]);

// Takes bytes off the start.
void mesh_queue_take(struct mesh_queue *queue, size_t size);
