// SPDX-License-Identifier: Apache-2.0
//
// prefix_ledger_internal.h -- what a ledger has beside its runs.
#pragma once

#include "prefix/prefix_ledger.h"
#include "prefix/prefix_runs_internal.h"

// The first word of a holder: backend, nothing, blocks held in any tier, blocks on the GPU, 16 bits
// each.  The second: nothing, nothing, blocks in host memory, blocks on disk.
static inline uint32_t on_gpu_of(uint64_t who)
{
    return (uint32_t)who & 0xffff;
}

static inline uint32_t in_host_of(uint64_t where)
{
    return (uint32_t)(where >> 16) & 0xffff;
}

static inline uint32_t on_disk_of(uint64_t where)
{
    return (uint32_t)where & 0xffff;
}

struct prefix_ledger {
    struct prefix_runs runs;
    bool is_lent; // the memory is the caller's

    // Recent evictions: hashes of key and backend.  The upper bits of each select its set, where it
    // takes an empty place or that of one of eight.
    _Atomic uint64_t *evicted;
    uint32_t evicted_shift;
    uint32_t evicted_way; // the writer's: the next place in a full set

    // Written by the writer, read by anyone.
    struct {
        _Alignas(64) _Atomic uint64_t refused;
    } shared;
};
