// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_runs_internal.h"

enum {
    list_chunk_max = 10, // a longer list of holders is spread over fan_out lists
};

size_t prefix_runs_size_min(void)
{
    return sizeof(struct run_bucket) + granule_count_min * sizeof(struct granule);
}

// Buckets, which are touched from the start, come first, so that few pages of granules are
// resident.
void prefix_runs_init(struct prefix_runs *runs, void *block, size_t size,
                      uint32_t granule_count_max)
{
    ASSERT((uintptr_t)block % 64 == 0 && size >= prefix_runs_size_min());
    // Each group of granules comes with a bucket; one more is for those left over.
    size_t group = bucket_runs * sizeof(struct granule) + sizeof(struct run_bucket);
    size_t left = size - sizeof(struct run_bucket);
    size_t more = left % group / sizeof(struct granule);
    size_t granule_count =
        left / group * bucket_runs + (more < bucket_runs ? more : bucket_runs - 1);
    granule_count = granule_count < granule_count_max ? granule_count : granule_count_max;
    *runs = (struct prefix_runs){
        .buckets = block,
        .granule_count = (uint32_t)granule_count,
        .bucket_count = (uint32_t)(granule_count / bucket_runs + 1),
        .id_mask = UINT32_MAX >> __builtin_clz((uint32_t)granule_count),
        .writer = {.fresh = 1},
    };
    runs->granules = (struct granule *)(void *)(runs->buckets + runs->bucket_count);
    ASSERT((char *)(runs->granules + granule_count) <= (char *)block + size);
    for (uint32_t i = 0; i < runs->bucket_count; i++) {
        atomic_init(&runs->buckets[i].passed, 0);
        for (uint32_t k = 0; k < bucket_slots; k++) {
            atomic_init(&runs->buckets[i].slots[k], 0);
        }
    }
}

static void give_granule(struct prefix_runs *runs, uint32_t id)
{
    PUT(&granule_at(runs, id)->next, runs->writer.free);
    runs->writer.free = id;
    count_by(&runs->shared.granules_used, -1);
}

// Prefetches the granule that is taken next, which is rarely in a CPU cache.
static void prefetch_next(const struct prefix_runs *runs)
{
    uint32_t id = runs->writer.free != 0 ? runs->writer.free : runs->writer.fresh;
    if (id < runs->granule_count) {
        const char *granule = (const char *)granule_at(runs, id);
        __builtin_prefetch(granule, 1);
        __builtin_prefetch(granule + 64, 1);
        __builtin_prefetch(granule + 128, 1);
    }
}

// 0 when memory is short.
static uint32_t take_granule(struct prefix_runs *runs)
{
    if (runs->writer.free == 0 && runs->writer.fresh == runs->granule_count &&
        (runs->make_room == NULL || !runs->make_room(runs))) {
        return 0;
    }
    uint32_t id = runs->writer.free;
    if (id != 0) {
        runs->writer.free = OWN(&granule_at(runs, id)->next);
    } else {
        id = runs->writer.fresh++;
        PUT(&granule_at(runs, id)->version, 0);
    }
    count_by(&runs->shared.granules_used, 1);
    prefetch_next(runs);
    return id;
}

static _Atomic uint32_t *find_slot(struct run_bucket *bucket, uint32_t slot)
{
    for (uint32_t i = 0; i < bucket_slots; i++) {
        if (OWN(&bucket->slots[i]) == slot) {
            return &bucket->slots[i];
        }
    }
    return NULL;
}

static void enter_bucket(struct prefix_runs *runs, uint32_t id)
{
    uint64_t key = key_at(granule_at(runs, id), 0);
    uint32_t at = run_bucket_of(runs, key);
    _Atomic uint32_t *place;
    while ((place = find_slot(&runs->buckets[at], 0)) == NULL) {
        struct run_bucket *full = &runs->buckets[at];
        PUT(&full->passed, OWN(&full->passed) + 1);
        at = run_bucket_after(runs, at);
    }
    PUT(place, slot_of(runs, key, id));
}

static void leave_bucket(struct prefix_runs *runs, uint32_t id)
{
    uint64_t key = key_at(granule_at(runs, id), 0);
    uint32_t slot = slot_of(runs, key, id);
    uint32_t first = run_bucket_of(runs, key);
    uint32_t at = first;
    _Atomic uint32_t *place;
    while ((place = find_slot(&runs->buckets[at], slot)) == NULL) {
        ASSERT(OWN(&runs->buckets[at].passed) != 0);
        at = run_bucket_after(runs, at);
    }
    PUT(place, 0);
    for (; first != at; first = run_bucket_after(runs, first)) {
        PUT(&runs->buckets[first].passed, OWN(&runs->buckets[first].passed) - 1);
    }
}

static void give_chunks(struct prefix_runs *runs, uint32_t id)
{
    while (id != 0) {
        uint32_t next = OWN(&granule_at(runs, id)->next);
        give_granule(runs, id);
        id = next;
    }
}

static void give_overflow(struct prefix_runs *runs, uint32_t overflow)
{
    if ((overflow & directory_bit) == 0) {
        give_chunks(runs, overflow);
        return;
    }
    struct granule *directory = granule_at(runs, overflow & ~directory_bit);
    for (uint32_t i = 0; i < fan_out; i++) {
        give_chunks(runs, (uint32_t)OWN(&directory->words[i]));
    }
    give_granule(runs, overflow & ~directory_bit);
}

// An empty chunk, to be the head of a list that goes on with `next`.  0 when memory is short.
static uint32_t new_chunk(struct prefix_runs *runs, uint32_t next)
{
    uint32_t id = take_granule(runs);
    if (id != 0) {
        struct granule *chunk = granule_at(runs, id);
        for (uint32_t i = 0; i < chunk_words; i++) {
            PUT(&chunk->words[i], 0);
        }
        PUT(&chunk->next, next);
        chunk->holder_count = 0;
    }
    return id;
}

// A free place in the backend's list of a directory.  NULL when memory is short.
static _Atomic uint64_t *place_in_list(struct prefix_runs *runs, struct granule *directory,
                                       uint32_t backend)
{
    _Atomic uint64_t *head = &directory->words[backend % fan_out];
    for (uint32_t id = (uint32_t)OWN(head); id != 0; id = OWN(&granule_at(runs, id)->next)) {
        struct granule *chunk = granule_at(runs, id);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            if (held_of(OWN(&chunk->words[i])) == 0) {
                return &chunk->words[i];
            }
        }
    }
    uint32_t id = new_chunk(runs, (uint32_t)OWN(head));
    if (id == 0) {
        return NULL;
    }
    PUT(head, id);
    return &granule_at(runs, id)->words[0];
}

// Makes a directory of a long list.  Without memory for it the list stays as it is.
static void spread_holders(struct prefix_runs *runs, struct granule *run)
{
    uint32_t list = OWN(&run->overflow);
    uint32_t id = new_chunk(runs, 0);
    if (id == 0) {
        return;
    }
    struct granule *directory = granule_at(runs, id);
    for (uint32_t at = list; at != 0; at = OWN(&granule_at(runs, at)->next)) {
        struct granule *chunk = granule_at(runs, at);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            uint64_t who = OWN(&chunk->words[i]);
            if (held_of(who) == 0) {
                continue;
            }
            _Atomic uint64_t *place = place_in_list(runs, directory, backend_of(who));
            if (place == NULL) {
                give_overflow(runs, id | directory_bit);
                return;
            }
            PUT(&place[1], OWN(&chunk->words[i + 1]));
            PUT(&place[0], who);
        }
    }
    PUT(&run->overflow, id | directory_bit);
    change_version(run);
    give_chunks(runs, list);
}

_Atomic uint64_t *prefix_runs_add_place(struct prefix_runs *runs, struct granule *run,
                                        uint32_t backend, uint32_t chunk_count)
{
    if ((OWN(&run->overflow) & directory_bit) == 0 && chunk_count >= list_chunk_max) {
        spread_holders(runs, run);
    }
    uint32_t overflow = OWN(&run->overflow);
    if ((overflow & directory_bit) != 0) {
        return place_in_list(runs, granule_at(runs, overflow & ~directory_bit), backend);
    }
    uint32_t id = new_chunk(runs, overflow);
    if (id == 0) {
        return NULL;
    }
    PUT(&run->overflow, id);
    return &granule_at(runs, id)->words[0];
}

void prefix_runs_write_keys(struct granule *run, uint32_t first, const uint64_t *keys,
                            uint32_t key_count)
{
    for (uint32_t i = 0; i < key_count; i++) {
        PUT(&run->words[inline_words + first + i], keys[i]);
    }
    PUT(&run->shape, tag_of(key_at(run, 0)) | (first + key_count));
}

uint32_t prefix_runs_new(struct prefix_runs *runs, const uint64_t *keys, uint32_t key_count)
{
    uint32_t id = take_granule(runs);
    if (id != 0) {
        struct granule *run = granule_at(runs, id);
        for (uint32_t i = 0; i < inline_words; i++) {
            PUT(&run->words[i], 0);
        }
        PUT(&run->overflow, 0);
        run->holder_count = 0;
        prefix_runs_write_keys(run, 0, keys, key_count);
    }
    return id;
}

void prefix_runs_publish(struct prefix_runs *runs, uint32_t id)
{
    enter_bucket(runs, id);
    count_by(&runs->shared.run_count, 1);
}

void prefix_runs_free(struct prefix_runs *runs, uint32_t id)
{
    struct granule *run = granule_at(runs, id);
    leave_bucket(runs, id);
    change_version(run);
    give_overflow(runs, OWN(&run->overflow));
    give_granule(runs, id);
    count_by(&runs->shared.run_count, -1);
}
