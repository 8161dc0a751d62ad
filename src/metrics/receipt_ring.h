// SPDX-License-Identifier: Apache-2.0
//
// receipt_ring.h -- receipts on their way from one worker to the scribe.
//
// One that finds no room is lost and counted: no request waits for whoever reads.
//
// Threads: one puts, one takes.  Memory: taken by _create, and costs nothing until it is used.
#pragma once

#include "metrics/receipt.h"

struct receipt_ring;

// Holds some thousand receipts: what a worker can end between two looks of the scribe.  Larger would be slower, since
// what was written is read while it is still in a cache.
enum { receipt_ring_size = 2 << 20 };

// `block` has receipt_ring_block_size() zeroed bytes, aligned to a cache line, and is the caller's.
size_t receipt_ring_block_size(void);
struct receipt_ring *receipt_ring_over(void *block);

// False: there was no room.
bool receipt_ring_put(struct receipt_ring *ring, const struct receipt *receipt,
                      const struct receipt_parts *parts);

// The oldest, which stays where it is until receipt_ring_drop; NULL: there is none.
const struct receipt *receipt_ring_peek(const struct receipt_ring *ring);
void receipt_ring_drop(struct receipt_ring *ring);

// Any thread.
uint64_t receipt_ring_lost(const struct receipt_ring *ring);
