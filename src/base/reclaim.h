// SPDX-License-Identifier: Apache-2.0
//
// reclaim.h -- tells the writer when no reader can hold a replaced object any more.
//
// Readers are loops.  They take pointers to published objects only inside a turn and announce, once
// a turn, that they hold none.  The writer replaces an object, asks for a ticket, and may free the
// old one when every reader has announced itself after the ticket was drawn.
//
//     writer   publish new, ticket = 7 ........................ both are >= 7: free the old one
//     reader A          [ turn ] seen = 7 [ turn ] seen = 7
//     reader B  [ turn ............... ] seen = 7
//
// Readers pay one load and one store a turn, and never wait.
//
// Threads: any number of readers, each with its own slot; one writer.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { reclaim_reader_count_max = 256 };

struct reclaim {
    // Written by the writer, read by readers.
    struct {
        _Alignas(64) atomic_uint_fast64_t epoch;
    } shared;
    uint32_t reader_count;
    // Each written by its reader, read by the writer.
    struct {
        _Alignas(64) atomic_uint_fast64_t seen;
    } readers[reclaim_reader_count_max];
};

// Before the readers start.
static inline void reclaim_init(struct reclaim *reclaim, uint32_t reader_count)
{
    reclaim->reader_count = reader_count;
    atomic_init(&reclaim->shared.epoch, 0);
    for (uint32_t i = 0; i < reader_count; i++) {
        atomic_init(&reclaim->readers[i].seen, 0);
    }
}

// Reader, between turns: read the epoch, take the new objects and release the old ones, then
// announce that epoch: no object that was replaced up to it is held.
static inline uint64_t reclaim_epoch(const struct reclaim *reclaim)
{
    return atomic_load_explicit(&reclaim->shared.epoch, memory_order_acquire);
}

static inline void reclaim_announce(struct reclaim *reclaim, uint32_t reader, uint64_t epoch)
{
    atomic_store_explicit(&reclaim->readers[reader].seen, epoch, memory_order_release);
}

// Reader: it has stopped and takes no more objects.
static inline void reclaim_leave(struct reclaim *reclaim, uint32_t reader)
{
    atomic_store_explicit(&reclaim->readers[reader].seen, UINT64_MAX, memory_order_release);
}

// Writer: after the new object was published.
static inline uint64_t reclaim_ticket(struct reclaim *reclaim)
{
    return atomic_fetch_add_explicit(&reclaim->shared.epoch, 1, memory_order_acq_rel) + 1;
}

// Writer: whether no reader can hold an object that was replaced before the ticket was drawn.
static inline bool reclaim_is_past(const struct reclaim *reclaim, uint64_t ticket)
{
    for (uint32_t i = 0; i < reclaim->reader_count; i++) {
        if (atomic_load_explicit(&reclaim->readers[i].seen, memory_order_acquire) < ticket) {
            return false;
        }
    }
    return true;
}
