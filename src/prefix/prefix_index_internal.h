// SPDX-License-Identifier: Apache-2.0
//
// prefix_index_internal.h -- what an index has beside its runs: belief, and the order of eviction.
#pragma once

#include "prefix/prefix_index.h"
#include "prefix/prefix_runs_internal.h"

// The first word of a holder: backend, epoch, blocks held, blocks confirmed, 16 bits each.  The
// second: the backend's clock at the last touch, and the seconds.
static inline uint32_t epoch_of(uint64_t who)
{
    return (uint32_t)(who >> 32) & 0xffff;
}

static inline uint32_t confirmed_of(uint64_t who)
{
    return (uint32_t)who & 0xffff;
}

static inline uint64_t make_who(uint32_t backend, uint32_t epoch, uint32_t held, uint32_t confirmed)
{
    return (uint64_t)backend << 48 | (uint64_t)epoch << 32 | (uint64_t)held << 16 | confirmed;
}

static inline uint64_t pack(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

struct backend_state {
    _Atomic uint64_t pace; // clock, and floor: blocks last touched before the floor are gone
    _Atomic uint32_t epoch;
    _Atomic uint32_t capacity;
};

// A run that the current store has touched.
struct store_step {
    _Atomic uint64_t *holder;
    uint32_t run;
    uint32_t depth;
};

struct prefix_index {
    struct prefix_runs runs; // first, see index_of()

    // Never change.
    struct backend_state *backends;
    struct store_step *steps;
    uint32_t step_max;
    uint32_t ttl_s;
    bool is_lent; // the memory is the caller's

    struct {
        _Alignas(64) uint32_t newest;
        uint32_t oldest;
        uint32_t mark;
        uint32_t step_count;
    } writer;

    // Written by the writer, read by anyone.
    struct {
        _Alignas(64) _Atomic uint64_t evictions;
        _Atomic uint64_t expiries;
    } shared;
};

static inline struct prefix_index *index_of(struct prefix_runs *runs)
{
    return (struct prefix_index *)(void *)runs;
}
_Static_assert(offsetof(struct prefix_index, runs) == 0, "an index begins with its runs");

// Whether a holder still has what it says, and how many new blocks ago it was touched.
static inline bool is_believed(const struct prefix_index *index, uint64_t who, uint64_t when,
                               uint32_t now_s, uint32_t *age)
{
    const struct backend_state *backend = &index->backends[backend_of(who)];
    if ((SEE(&backend->epoch) & 0xffff) != epoch_of(who)) {
        return false;
    }
    uint64_t pace = SEE(&backend->pace);
    uint32_t capacity = SEE(&backend->capacity);
    uint32_t clock = (uint32_t)(pace >> 32);
    int32_t since = (int32_t)(clock - (uint32_t)(when >> 32));
    // A touch after `pace` was read is a touch just now.
    *age = since > 0 ? (uint32_t)since : 0;
    if (*age >= clock - (uint32_t)pace || (capacity != 0 && *age >= capacity)) {
        return false;
    }
    return index->ttl_s == 0 || (int64_t)(int32_t)(now_s - (uint32_t)when) < (int64_t)index->ttl_s;
}
