// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_scan.h"

#include "prefix/prefix_index_internal.h"

_Static_assert((int)prefix_scan_keys_max == (int)run_key_max, "a whole run");

enum { scan_try_max = 100 };

// The two words of a holder belong together when the first is the same before and after.  False: it
// changed all the time.
static bool scan_holder(const _Atomic uint64_t *holder, uint64_t *who, uint64_t *when)
{
    for (uint32_t tries = 0; tries < scan_try_max; tries++) {
        *who = SEE(&holder[0]);
        *when = SEE(&holder[1]);
        if (SEE(&holder[0]) == *who) {
            return true;
        }
    }
    return false;
}

static void scan_add_holder(const struct prefix_scan *scan, const _Atomic uint64_t *holder,
                            struct prefix_scan_run *run)
{
    uint64_t who;
    uint64_t when;
    uint32_t age;
    if (!scan_holder(holder, &who, &when)) {
        return;
    }
    uint32_t leading = (uint32_t)__builtin_ctz(~(held_of(who) & confirmed_of(who)));
    if (leading == 0 || backend_of(who) >= scan->index->runs.backend_count ||
        run->holder_count == scan->holder_max ||
        !is_believed(scan->index, who, when, scan->now_s, &age)) {
        return;
    }
    int32_t age_s = (int32_t)(scan->now_s - (uint32_t)when);
    scan->holders[run->holder_count++] =
        (struct prefix_scan_holder){.backend = backend_of(who),
                                    .confirmed = min_u32(leading, run->key_count),
                                    .age = age,
                                    .age_s = age_s > 0 ? (uint32_t)age_s : 0};
}

// False: the run changed.
static bool scan_list(const struct prefix_scan *scan, const struct granule *run, uint32_t version,
                      uint32_t id, struct prefix_scan_run *out)
{
    while (id != 0) {
        const struct granule *chunk = granule_at(&scan->index->runs, id);
        id = SEE(&chunk->next);
        for (uint32_t i = 0; i < chunk_words; i += holder_words) {
            scan_add_holder(scan, &chunk->words[i], out);
        }
        if (SEE(&run->version) != version) {
            return false;
        }
    }
    return true;
}

static bool scan_overflow(const struct prefix_scan *scan, const struct granule *run,
                          uint32_t version, struct prefix_scan_run *out)
{
    uint32_t overflow = SEE(&run->overflow);
    if ((overflow & directory_bit) == 0) {
        return SEE(&run->version) == version && scan_list(scan, run, version, overflow, out);
    }
    const struct granule *directory = granule_at(&scan->index->runs, overflow & ~directory_bit);
    uint32_t heads[fan_out];
    for (uint32_t i = 0; i < fan_out; i++) {
        heads[i] = (uint32_t)SEE(&directory->words[i]);
    }
    bool is_whole = SEE(&run->version) == version;
    for (uint32_t i = 0; i < fan_out && is_whole; i++) {
        is_whole = scan_list(scan, run, version, heads[i], out);
    }
    return is_whole;
}

// False: the run changed, or its slot has another one.
static bool scan_run(const struct prefix_scan *scan, const _Atomic uint32_t *place, uint32_t slot,
                     struct prefix_scan_run *out)
{
    uint32_t id = slot & scan->index->runs.id_mask;
    const struct granule *run = granule_at(&scan->index->runs, id);
    uint32_t version = SEE(&run->version);
    if (SEE(place) != slot) {
        return false;
    }
    uint32_t key_count = key_count_of(SEE(&run->shape));
    if (key_count == 0 || key_count > run_key_max) {
        return false;
    }
    out->before = SEE(&run->next);
    out->key_count = key_count;
    out->holders = scan->holders;
    out->holder_count = 0;
    for (uint32_t i = 0; i < key_count; i++) {
        out->keys[i] = key_at(run, i);
    }
    for (uint32_t i = 0; i < inline_words; i += holder_words) {
        scan_add_holder(scan, &run->words[i], out);
    }
    return scan_overflow(scan, run, version, out) && SEE(&run->version) == version;
}

static void scan_slot(const struct prefix_scan *scan, const _Atomic uint32_t *place)
{
    struct prefix_scan_run run;
    for (uint32_t tries = 0; tries < scan_try_max; tries++) {
        uint32_t slot = SEE(place);
        if (slot == 0) {
            return;
        }
        if (scan_run(scan, place, slot, &run)) {
            scan->found(scan->owner, &run);
            return;
        }
    }
}

bool prefix_scan_step(struct prefix_scan *scan, uint32_t bucket_count)
{
    const struct prefix_runs *runs = &scan->index->runs;
    for (; bucket_count > 0 && scan->bucket < runs->bucket_count; bucket_count--) {
        const struct run_bucket *bucket = &runs->buckets[scan->bucket++];
        for (uint32_t i = 0; i < bucket_slots; i++) {
            scan_slot(scan, &bucket->slots[i]);
        }
    }
    return scan->bucket < runs->bucket_count;
}

uint32_t prefix_scan_tag(uint64_t key)
{
    return key_tag(key);
}
