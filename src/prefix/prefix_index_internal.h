// SPDX-License-Identifier: Apache-2.0
//
// prefix_index_internal.h -- how an index lies in memory, and how its writer and its readers meet.
//
// Invariants (I1 and so on) and pictures: docs/internals/index.md.
//
// Between writer and readers there is neither a lock nor a state in which a run cannot be read.  What
// the writer changes in place is right before and after each single store; where it would not be,
// because memory is about to be used for something else, the writer first makes the run right without
// that memory, then changes the run's version, then reuses.  A reader who was still there finds the
// version changed and reads again.  All loads of readers by which they get further are acquire
// and all stores of the writer release, which is what keeps that order, and costs nothing on x86.
#pragma once

#include "base/base.h"
#include "prefix/prefix_index.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    run_key_max = 16,
    inline_words = 4, // two holders of two words
    chunk_words = 20, // ten holders
    fan_out = chunk_words,
    holder_words = 2,
    bucket_slots = 15,
    bucket_runs = 12, // there is a bucket for so many granules
};

// Marks a slot that is not empty.
static const uint32_t slot_used = UINT32_C(1) << 31;

// Marks an `overflow` that is a directory of lists instead of one list.
static const uint32_t directory_bit = UINT32_C(1) << 31;

// All memory is cut into these.  The words of a run are two holders and its keys; those of a chunk
// are ten holders; those of a directory are the first chunks of its lists.
struct granule {
    _Atomic uint32_t version;  // of a run: what was reachable from it may have been reused
    _Atomic uint32_t next;     // chunk: in its list; free: in the list of those
    _Atomic uint32_t overflow; // run: its chunk list or directory
    // The writer's alone:
    uint32_t newer; // run: stored more recently
    uint32_t older;
    uint32_t stored_s;
    uint32_t mark;          // of the store that touched it last
    _Atomic uint32_t shape; // readers too: 24 bits of its first key, and the number of its keys
    _Atomic uint64_t words[chunk_words];
};
_Static_assert(sizeof(struct granule) == 192, "three cache lines");

// Where runs are found by their first key.  A slot is the number of a run with as many bits of that
// key above it as there is room for, so that hardly ever a run is read that is not meant; 0: empty.
// A run that finds its bucket full goes to the next one that is not.
struct bucket {
    _Atomic uint32_t passed; // runs that found this bucket full and are in a later one
    _Atomic uint32_t slots[bucket_slots];
};
_Static_assert(sizeof(struct bucket) == 64, "one cache line");
_Static_assert(bucket_runs <= bucket_slots, "there is room for every run");

// A holder is two words.  The first: backend, epoch, blocks held, blocks confirmed, 16 bits each; a
// bit for each key of the run.  The second: the backend's clock at the last touch, and the seconds.
static inline uint32_t backend_of(uint64_t who)
{
    return (uint32_t)(who >> 48);
}

static inline uint32_t epoch_of(uint64_t who)
{
    return (uint32_t)(who >> 32) & 0xffff;
}

static inline uint32_t held_of(uint64_t who)
{
    return (uint32_t)(who >> 16) & 0xffff;
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
    _Atomic uint64_t pace; // clock, and the floor: what was touched before it is gone
    _Atomic uint32_t epoch;
    _Atomic uint32_t capacity;
};

// A run that the store under way has touched.
struct step {
    _Atomic uint64_t *holder;
    uint32_t run;
    uint32_t depth;
};

struct prefix_index {
    // Never change.
    struct granule *granules; // number 0 stands for none
    struct bucket *buckets;
    struct backend_state *backends;
    struct step *steps;
    uint32_t granule_count;
    uint32_t bucket_count;
    uint32_t id_mask; // of a slot
    uint32_t backend_count;
    uint32_t step_max;
    uint32_t ttl_s;
    bool is_lent; // the memory is the caller's

    // The writer's.
    _Alignas(64) uint32_t free;
    uint32_t fresh; // from here on granules were never used
    uint32_t newest;
    uint32_t oldest;
    uint32_t mark;
    uint32_t step_count;

    // Written by the writer, read by anyone.
    struct {
        _Alignas(64) _Atomic uint64_t granules_used;
        _Atomic uint64_t run_count;
        _Atomic uint64_t evictions;
        _Atomic uint64_t expiries;
    } shared;
};

// Readers load with acquire and the writer stores with release: see the top.  The writer's own
// loads need no order.  A test of races has all of them give way to other threads now and then.
#ifdef PREFIX_INDEX_PAUSES
void prefix_index_pause(void);
#else
static inline void prefix_index_pause(void)
{
}
#endif
#define SEE(field) (prefix_index_pause(), atomic_load_explicit(field, memory_order_acquire))
#define OWN(field) atomic_load_explicit(field, memory_order_relaxed)
#define PUT(field, value)                                                                          \
    (prefix_index_pause(), atomic_store_explicit(field, value, memory_order_release))

static inline struct granule *granule_at(const struct prefix_index *index, uint32_t id)
{
    return &index->granules[id];
}

// Keys are hashes already; the product is for tests, whose keys may be anything.
static inline uint64_t mix_key(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint32_t bucket_of(const struct prefix_index *index, uint64_t key)
{
    return (uint32_t)((mix_key(key) >> 32) * index->bucket_count >> 32);
}

static inline uint32_t bucket_after(const struct prefix_index *index, uint32_t bucket)
{
    return bucket + 1 < index->bucket_count ? bucket + 1 : 0;
}

static inline uint32_t slot_of(const struct prefix_index *index, uint64_t key, uint32_t id)
{
    return slot_used | ((uint32_t)mix_key(key) & ~index->id_mask) | id;
}

// Which slots of a bucket may lead to a run that begins with this key, one bit each.  The writer and
// readers: those read a slot again before they follow it.
static inline uint32_t likely_slots(const struct prefix_index *index, const struct bucket *bucket,
                                    uint64_t key)
{
    uint32_t wanted = slot_of(index, key, 0);
    uint32_t id_mask = index->id_mask;
    uint32_t likely = 0;
    // Without a branch, as nobody could predict where in its bucket a run is.
    for (uint32_t i = bucket_slots; i-- > 0;) {
        likely = likely + likely + ((OWN(&bucket->slots[i]) ^ wanted) <= id_mask);
    }
    return likely;
}

static inline void prefetch_bucket(const struct prefix_index *index, uint64_t key)
{
    __builtin_prefetch(&index->buckets[bucket_of(index, key)]);
}

// What a run's `shape` must be but for the number of keys: more bits than a slot has room for, so that
// the keys, which are in other cache lines, are not touched in vain.
static inline uint32_t tag_of(uint64_t key)
{
    return (uint32_t)(key >> 40) << 8;
}

static inline uint32_t key_count_of(uint32_t shape)
{
    return shape & 0xff;
}

static inline uint64_t key_at(const struct granule *run, uint32_t place)
{
    return SEE(&run->words[inline_words + place]);
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// How many of these keys a run begins with.  Each key stands for all before it, so when the last is
// equal all are, and the lines between are not touched.
static inline uint32_t agree(const struct granule *run, const uint64_t *keys, uint32_t key_count)
{
    if (key_at(run, key_count - 1) == keys[key_count - 1]) {
        return key_count;
    }
    uint32_t same = 0;
    while (same < key_count && key_at(run, same) == keys[same]) {
        same++;
    }
    return same;
}

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
