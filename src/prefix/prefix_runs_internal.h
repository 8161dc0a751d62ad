// SPDX-License-Identifier: Apache-2.0
//
// prefix_runs_internal.h -- how runs and their holders lie in memory, and how their writer and
// their readers meet.  The index (prefix_index.h) and the ledger (prefix_ledger.h) are made of
// these.
//
// Invariants (I1 and so on) and pictures: docs/internals/index.md.
//
// Runs have no lock and can be read in every state.  A change in place is valid before and after
// each single store.  Before memory is reused, the writer first makes the run valid without that
// memory, then changes the run's version, then reuses the memory.  A reader that was still there
// finds the version changed and reads again.  Readers load with acquire and the writer stores
// with release, which keeps this order and costs nothing on x86.
#pragma once

#include "base/base.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    run_key_max = 16,
    inline_words = 4, // two holders of two words
    chunk_words = 20, // ten holders
    fan_out = chunk_words,
    holder_words = 2,
    bucket_slots = 15,
    bucket_runs = 12, // there is a bucket for so many granules
    granule_count_min = 4,
};

// Marks a slot that is not empty.
static const uint32_t slot_used = UINT32_C(1) << 31;

// Marks an `overflow` that is a directory of lists instead of one list.
static const uint32_t directory_bit = UINT32_C(1) << 31;

// All memory is cut into these.  The words of a run are two holders and its keys; those of a chunk
// are ten holders; those of a directory are the first chunks of its lists.
struct granule {
    _Atomic uint32_t version; // of a run: what was reachable from it may have been reused
    // Chunk: in its list; free: in the list of those; run of an index: the tag of the key before
    // its first one, see key_tag.
    _Atomic uint32_t next;
    _Atomic uint32_t overflow; // run: its chunk list or directory
    // The writer's alone.
    union {
        struct {            // of an index: of a run
            uint32_t newer; // stored more recently
            uint32_t older;
            uint32_t stored_s;
            uint32_t mark; // of the store that touched it last
        };
        uint32_t holder_count; // of a ledger: of a run, and 0 in all that is none
    };
    _Atomic uint32_t shape; // readers too: 24 bits of its first key, and the number of its keys
    _Atomic uint64_t words[chunk_words];
};
_Static_assert(sizeof(struct granule) == 192, "three cache lines");

// Where runs are found by their first key.  A slot is the number of a run with as many bits of that
// key above it as there is room for, so that hardly ever a run is read that is not meant; 0: empty.
// A run that finds its bucket full goes to the next one that is not.
struct run_bucket {
    _Atomic uint32_t passed; // runs that found this bucket full and are in a later one
    _Atomic uint32_t slots[bucket_slots];
};
_Static_assert(sizeof(struct run_bucket) == 64, "one cache line");
_Static_assert(bucket_runs <= bucket_slots, "there is room for every run");

struct prefix_runs {
    // Never change.
    struct granule *granules; // number 0 stands for none
    struct run_bucket *buckets;
    uint32_t granule_count;
    uint32_t bucket_count;
    uint32_t id_mask; // of a slot
    uint32_t backend_count;
    // Evicts a granule when all are in use; false: it cannot.  NULL: granules are never evicted.
    bool (*make_room)(struct prefix_runs *runs);

    struct {
        _Alignas(64) uint32_t free;
        uint32_t fresh; // from here on granules were never used
    } writer;

    // Written by the writer, read by anyone.
    struct {
        _Alignas(64) _Atomic uint64_t granules_used;
        _Atomic uint64_t run_count;
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

static inline void count_by(_Atomic uint64_t *counter, int64_t change)
{
    atomic_store_explicit(counter, OWN(counter) + (uint64_t)change, memory_order_relaxed);
}

// A holder is two words.  Of the first, both kinds have the backend in the upper 16 bits and the
// blocks that it holds in bits 16 to 31, one for each key of the run.  A holder of none is an empty
// place.
static inline uint32_t backend_of(uint64_t who)
{
    return (uint32_t)(who >> 48);
}

static inline uint32_t held_of(uint64_t who)
{
    return (uint32_t)(who >> 16) & 0xffff;
}

static inline struct granule *granule_at(const struct prefix_runs *runs, uint32_t id)
{
    return &runs->granules[id];
}

// Keys are hashes already; the product is for tests, whose keys may be anything.
static inline uint64_t mix_key(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint32_t run_bucket_of(const struct prefix_runs *runs, uint64_t key)
{
    return (uint32_t)((mix_key(key) >> 32) * runs->bucket_count >> 32);
}

static inline uint32_t run_bucket_after(const struct prefix_runs *runs, uint32_t bucket)
{
    return bucket + 1 < runs->bucket_count ? bucket + 1 : 0;
}

static inline uint32_t slot_of(const struct prefix_runs *runs, uint64_t key, uint32_t id)
{
    return slot_used | ((uint32_t)mix_key(key) & ~runs->id_mask) | id;
}

// Which slots of a bucket may lead to a run that begins with this key, one bit each.  The writer
// and readers: those read a slot again before they follow it.
static inline uint32_t likely_slots(const struct prefix_runs *runs, const struct run_bucket *bucket,
                                    uint64_t key)
{
    uint32_t wanted = slot_of(runs, key, 0);
    uint32_t id_mask = runs->id_mask;
    uint32_t likely = 0;
    // Without a branch: the position in a bucket is not predictable.
    for (uint32_t i = bucket_slots; i-- > 0;) {
        likely = likely + likely + ((OWN(&bucket->slots[i]) ^ wanted) <= id_mask);
    }
    return likely;
}

static inline void prefetch_bucket(const struct prefix_runs *runs, uint64_t key)
{
    __builtin_prefetch(&runs->buckets[run_bucket_of(runs, key)]);
}

// A run's `shape` without the number of keys: more bits of the key than a slot has room for, so
// that the keys, which are in other cache lines, are not touched in vain.
static inline uint32_t tag_of(uint64_t key)
{
    return (uint32_t)(key >> 40) << 8;
}

// 32 bits of a key, never 0.  By the tag of the key before it, a run is found to go on from the run
// that ends with that key: see prefix_scan.h.
static inline uint32_t key_tag(uint64_t key)
{
    uint32_t tag = (uint32_t)(mix_key(key) >> 16);
    return tag != 0 ? tag : 1;
}

// `tag` 0: the run begins a chain.
static inline void set_key_before(struct granule *run, uint32_t tag)
{
    PUT(&run->next, tag);
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

// How many of these keys follow each other in a run, from a place on.  Each key stands for all
// before it, so when the last is equal all are, and the lines between are not touched.
static inline uint32_t keys_in_common(const struct granule *run, uint32_t place,
                                      const uint64_t *keys, uint32_t key_count)
{
    if (key_count > 0 && key_at(run, place + key_count - 1) == keys[key_count - 1]) {
        return key_count;
    }
    uint32_t same = 0;
    while (same < key_count && key_at(run, place + same) == keys[same]) {
        same++;
    }
    return same;
}

// The writer's search for the run that begins with a key; 0: there is none.
static inline uint32_t find_own(const struct prefix_runs *runs, uint64_t key)
{
    uint32_t at = run_bucket_of(runs, key);
    for (uint32_t i = 0; i < runs->bucket_count; i++) {
        const struct run_bucket *bucket = &runs->buckets[at];
        uint32_t likely = likely_slots(runs, bucket, key);
        for (; likely != 0; likely &= likely - 1) {
            uint32_t id = OWN(&bucket->slots[__builtin_ctz(likely)]) & runs->id_mask;
            const struct granule *run = granule_at(runs, id);
            if ((OWN(&run->shape) ^ tag_of(key)) < 256 && key_at(run, 0) == key) {
                return id;
            }
        }
        if (OWN(&bucket->passed) == 0) {
            break;
        }
        at = run_bucket_after(runs, at);
    }
    return 0;
}

// Walks the places for holders of a run: all of them, or those where one backend can be.
struct holder_cursor {
    const struct prefix_runs *runs;
    struct granule *granule;
    uint32_t word;
    uint32_t word_end;
    uint32_t overflow;
    uint32_t next;
    uint32_t list;
    uint32_t list_end;
    uint32_t chunk_count; // seen
};

static inline uint32_t list_head(const struct prefix_runs *runs, uint32_t overflow, uint32_t list)
{
    return (overflow & directory_bit) == 0
               ? overflow
               : (uint32_t)OWN(&granule_at(runs, overflow & ~directory_bit)->words[list]);
}

static inline struct holder_cursor cursor_of_backend(const struct prefix_runs *runs,
                                                     struct granule *run, uint32_t backend)
{
    uint32_t overflow = OWN(&run->overflow);
    uint32_t list = (overflow & directory_bit) != 0 ? backend % fan_out : 0;
    return (struct holder_cursor){.runs = runs,
                                  .granule = run,
                                  .word_end = inline_words,
                                  .overflow = overflow,
                                  .next = list_head(runs, overflow, list),
                                  .list = list + 1,
                                  .list_end = list + 1};
}

static inline struct holder_cursor cursor_of_all(const struct prefix_runs *runs,
                                                 struct granule *run)
{
    uint32_t overflow = OWN(&run->overflow);
    return (struct holder_cursor){.runs = runs,
                                  .granule = run,
                                  .word_end = inline_words,
                                  .overflow = overflow,
                                  .list_end = (overflow & directory_bit) != 0 ? fan_out : 1};
}

// NULL at the end.
static inline _Atomic uint64_t *cursor_next(struct holder_cursor *cursor)
{
    if (cursor->word == cursor->word_end) {
        while (cursor->next == 0 && cursor->list < cursor->list_end) {
            cursor->next = list_head(cursor->runs, cursor->overflow, cursor->list++);
        }
        if (cursor->next == 0) {
            return NULL;
        }
        cursor->granule = granule_at(cursor->runs, cursor->next);
        cursor->next = OWN(&cursor->granule->next);
        cursor->word = 0;
        cursor->word_end = chunk_words;
        cursor->chunk_count++;
    }
    cursor->word += holder_words;
    return &cursor->granule->words[cursor->word - holder_words];
}

static inline _Atomic uint64_t *find_holder(const struct prefix_runs *runs, struct granule *run,
                                            uint32_t backend)
{
    struct holder_cursor cursor = cursor_of_backend(runs, run, backend);
    _Atomic uint64_t *holder;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        if (backend_of(who) == backend && held_of(who) != 0) {
            return holder;
        }
    }
    return NULL;
}

// Where the backend is among the holders of a run, or else an empty place where it can be put.
// NULL: there is none in the chunks, of which *chunk_count were seen.
static inline _Atomic uint64_t *find_place(const struct prefix_runs *runs, struct granule *run,
                                           uint32_t backend, uint32_t *chunk_count)
{
    struct holder_cursor cursor = cursor_of_backend(runs, run, backend);
    _Atomic uint64_t *holder;
    _Atomic uint64_t *empty = NULL;
    while ((holder = cursor_next(&cursor)) != NULL) {
        uint64_t who = OWN(&holder[0]);
        if (held_of(who) != 0 && backend_of(who) == backend) {
            return holder;
        }
        // Its own old place is best: a reader who has passed it does not meet the backend again.
        if (held_of(who) == 0 && (empty == NULL || backend_of(who) == backend)) {
            empty = holder;
        }
    }
    *chunk_count = cursor.chunk_count;
    return empty;
}

static inline void change_version(struct granule *run)
{
    PUT(&run->version, OWN(&run->version) + 1);
}

// Makes runs of a block of cache lines, of whose granules at most granule_count_max are used.  The
// block has room for a bucket and granule_count_min granules.
void prefix_runs_init(struct prefix_runs *runs, void *block, size_t size,
                      uint32_t granule_count_max);
size_t prefix_runs_size_min(void);

// A run without holders, which readers do not see yet.  0 when memory is short.
uint32_t prefix_runs_new(struct prefix_runs *runs, const uint64_t *keys, uint32_t key_count);

// Makes the run visible by its first key.
void prefix_runs_publish(struct prefix_runs *runs, uint32_t id);

// Gives back a run that was published, with all its holders.
void prefix_runs_free(struct prefix_runs *runs, uint32_t id);

// A new place for a holder of a run, all of whose places are taken; `chunk_count` as find_place()
// says.  NULL when memory is short.
_Atomic uint64_t *prefix_runs_add_place(struct prefix_runs *runs, struct granule *run,
                                        uint32_t backend, uint32_t chunk_count);

// Behind the first keys of a run.
void prefix_runs_write_keys(struct granule *run, uint32_t first, const uint64_t *keys,
                            uint32_t key_count);
