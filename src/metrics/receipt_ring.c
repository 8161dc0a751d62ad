// SPDX-License-Identifier: Apache-2.0
//
// Positions are counted in words and only grow.  A receipt lies in one piece from its position
// modulo the ring's size on.  It may extend into the spare words behind the ring; the words at the
// start of the ring that it would have covered stay unused.

#include "metrics/receipt_ring.h"

#include "base/base.h"

#include <stdatomic.h>

enum {
    ring_words = receipt_ring_size / sizeof(uint64_t),
    spare_words = receipt_size_max / sizeof(uint64_t),
};

struct receipt_ring {
    struct {
        _Alignas(64) _Atomic uint64_t written; // by the worker
        _Atomic uint64_t lost;                 // likewise
        uint64_t read_before;                  // the last value of `read` that the worker has seen
        _Alignas(64) _Atomic uint64_t read;    // by the scribe
    } shared;
    _Alignas(64) uint64_t words[ring_words + spare_words];
};

size_t receipt_ring_block_size(void)
{
    return sizeof(struct receipt_ring);
}

struct receipt_ring *receipt_ring_over(void *block)
{
    ASSERT((uintptr_t)block % 64 == 0);
    return block;
}

// Reads the scribe's position, which is in another core's cache, only when the ring seems full.
static bool receipt_ring_has_room(struct receipt_ring *ring, uint64_t end)
{
    if (end - ring->shared.read_before <= ring_words) {
        return true;
    }
    ring->shared.read_before = atomic_load_explicit(&ring->shared.read, memory_order_acquire);
    return end - ring->shared.read_before <= ring_words;
}

bool receipt_ring_put(struct receipt_ring *ring, const struct receipt *receipt,
                      const struct receipt_parts *parts)
{
    uint64_t written = atomic_load_explicit(&ring->shared.written, memory_order_relaxed);
    uint64_t end = written + receipt_size(receipt) / sizeof(uint64_t);

    if (!receipt_ring_has_room(ring, end)) {
        uint64_t lost = atomic_load_explicit(&ring->shared.lost, memory_order_relaxed);
        atomic_store_explicit(&ring->shared.lost, lost + 1, memory_order_relaxed);
        return false;
    }
    receipt_write(receipt, parts, ring->words + written % ring_words);
    atomic_store_explicit(&ring->shared.written, end, memory_order_release);
    return true;
}

const struct receipt *receipt_ring_peek(const struct receipt_ring *ring)
{
    uint64_t written = atomic_load_explicit(&ring->shared.written, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
    return read == written ? NULL : (const struct receipt *)(ring->words + read % ring_words);
}

void receipt_ring_drop(struct receipt_ring *ring)
{
    const struct receipt *oldest = receipt_ring_peek(ring);
    ASSERT(oldest != NULL);

    uint64_t read = atomic_load_explicit(&ring->shared.read, memory_order_relaxed);
    atomic_store_explicit(&ring->shared.read, read + receipt_size(oldest) / sizeof(uint64_t),
                          memory_order_release);
}

uint64_t receipt_ring_lost(const struct receipt_ring *ring)
{
    return atomic_load_explicit(&ring->shared.lost, memory_order_relaxed);
}
