// SPDX-License-Identifier: Apache-2.0
//
// receipt_ring.h -- receipts on their way from one worker to the scribe.
//
// A receipt that does not fit is dropped and counted: a request never waits for the scribe.
//
// Threads: one puts, one takes.  Memory: the caller's; pages are touched when they are used.
#pragma once

#include "metrics/receipt.h"

struct receipt_ring;

// Holds some thousand receipts, as many as a worker can end between two looks of the scribe.  A
// larger ring would be slower, since receipts would have left the caches before they are read.
enum { receipt_ring_size = 2 << 20 };

// `block` has receipt_ring_block_size() zeroed bytes, aligned to a cache line, and is the caller's.
size_t receipt_ring_block_size(void);
struct receipt_ring *receipt_ring_over(void *block);

// False: the ring is full.
bool receipt_ring_put(struct receipt_ring *ring, const struct receipt *receipt,
                      const struct receipt_parts *parts);

// The oldest receipt, valid until receipt_ring_drop; NULL: the ring is empty.
const struct receipt *receipt_ring_peek(const struct receipt_ring *ring);
void receipt_ring_drop(struct receipt_ring *ring);

// Any thread.
uint64_t receipt_ring_lost(const struct receipt_ring *ring);
