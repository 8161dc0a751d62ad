// SPDX-License-Identifier: Apache-2.0

#include "worker/recorder.h"

#include "base/rng.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

enum {
    keys_max = 8192,
    head_size = sizeof(struct recorder_entry),
    twin_max = recorder_ring_size / head_size + 1,
};

static uint64_t keys[keys_max];

static struct recorder *make(uint32_t worker_count)
{
    return recorder_create(
        &(struct recorder_options){.worker_count = worker_count, .span_tokens = 512});
}

// Entries that differ in every field, and keys that tell whose they are.
static struct recorder_entry entry_of(uint64_t number)
{
    return (struct recorder_entry){
        .arrived_us = number,
        .session_key = number * 3,
        .prompt_size = number * 5,
        .told_tokens = number * 7,
        .output_tokens = number * 11,
        .turn = (uint32_t)number * 13,
        .pool = (uint32_t)number % 64,
        .span_size = 2048,
        .span_tokens = (uint32_t)number * 17,
        .is_text = number % 2 == 0,
    };
}

static uint64_t key_of(uint64_t number, uint32_t place)
{
    return number << 32 | place;
}

static void put(struct recorder *recorder, uint32_t worker, uint64_t number, uint32_t key_count)
{
    uint64_t own[keys_max] = {0};
    struct recorder_entry entry = entry_of(number);
    for (uint32_t i = 0; i < key_count; i++) {
        own[i] = key_of(number, i);
    }
    recorder_put(recorder, worker, &entry, own, key_count, 1);
}

// Takes the oldest; false when it is not the one that was put, or not whole.
static bool takes(struct recorder *recorder, uint32_t worker, uint64_t number, uint32_t key_count)
{
    struct recorder_entry entry;
    struct recorder_entry wanted = entry_of(number);
    const uint64_t *taken = NULL;
    if (!recorder_peek(recorder, worker, &entry, &taken)) {
        return false;
    }
    bool same = entry.arrived_us == wanted.arrived_us && entry.session_key == wanted.session_key &&
                entry.prompt_size == wanted.prompt_size &&
                entry.told_tokens == wanted.told_tokens &&
                entry.output_tokens == wanted.output_tokens && entry.turn == wanted.turn &&
                entry.pool == wanted.pool && entry.span_size == wanted.span_size &&
                entry.span_tokens == wanted.span_tokens && entry.is_text == wanted.is_text &&
                entry.key_count == key_count;
    for (uint32_t i = 0; same && i < key_count; i++) {
        same = taken[i] == key_of(number, i);
    }
    recorder_drop(recorder, worker);
    return same;
}

static bool is_empty(struct recorder *recorder, uint32_t worker)
{
    struct recorder_entry entry;
    const uint64_t *taken = NULL;
    return !recorder_peek(recorder, worker, &entry, &taken);
}

TEST(the_keeper_takes_the_entries_of_workers)
{
    struct recorder *recorder = make(3);
    CHECK(recorder != NULL);
    CHECK_EQ(recorder_worker_count(recorder), 3);
    put(recorder, 1, 1, 4);
    put(recorder, 1, 2, 0);
    put(recorder, 2, 3, keys_max);
    CHECK(is_empty(recorder, 0));
    CHECK(takes(recorder, 1, 1, 4));
    CHECK(takes(recorder, 1, 2, 0));
    CHECK(is_empty(recorder, 1));
    CHECK(takes(recorder, 2, 3, keys_max));
    CHECK(is_empty(recorder, 2));
    CHECK_EQ(recorder_lost(recorder), 0);
    recorder_destroy(&recorder);
    CHECK(recorder == NULL);
    recorder_destroy(&recorder);
}

TEST(of_each_span_the_last_key_is_kept_and_of_a_part_none)
{
    struct recorder *recorder = make(1);
    struct recorder_entry entry = entry_of(1);
    const uint64_t *taken = NULL;
    for (uint32_t i = 0; i < 20; i++) {
        keys[i] = i;
    }
    recorder_put(recorder, 0, &entry, keys, 20, 8);
    recorder_put(recorder, 0, &entry, keys, 7, 8);
    CHECK(recorder_peek(recorder, 0, &entry, &taken));
    CHECK_EQ(entry.key_count, 2);
    CHECK_EQ(taken[0], 7);
    CHECK_EQ(taken[1], 15);
    recorder_drop(recorder, 0);
    CHECK(recorder_peek(recorder, 0, &entry, &taken));
    CHECK_EQ(entry.key_count, 0);
    recorder_destroy(&recorder);
}

TEST(a_span_is_about_as_many_tokens_as_wanted_whatever_the_blocks_are)
{
    struct recorder *recorder = make(1);
    CHECK_EQ(recorder_stride(recorder, 64), 32);
    CHECK_EQ(recorder_stride(recorder, 256), 8);
    CHECK_EQ(recorder_stride(recorder, 300), 7);
    CHECK_EQ(recorder_stride(recorder, 512), 4);
    CHECK_EQ(recorder_stride(recorder, 1024), 2);
    CHECK_EQ(recorder_stride(recorder, 4), 512);
    CHECK_EQ(recorder_stride(recorder, 1 << 20), 1);
    recorder_destroy(&recorder);
}

// The ring as an array that is never full before it is: what is in it, and how large it is.
struct twin {
    uint32_t counts[twin_max];
    uint64_t first; // number of the oldest
    uint64_t next;
    uint64_t used;
    uint64_t lost;
};

static void twin_put(struct twin *twin, struct recorder *recorder, uint32_t key_count)
{
    uint64_t size = head_size + key_count * sizeof(uint64_t);
    put(recorder, 0, twin->next, key_count);
    if (twin->used + size > recorder_ring_size) {
        twin->lost++;
        return;
    }
    twin->counts[twin->next++ % twin_max] = key_count;
    twin->used += size;
}

static bool twin_take(struct twin *twin, struct recorder *recorder)
{
    if (twin->first == twin->next) {
        return is_empty(recorder, 0);
    }
    uint32_t key_count = twin->counts[twin->first % twin_max];
    twin->used -= head_size + key_count * sizeof(uint64_t);
    return takes(recorder, 0, twin->first++, key_count);
}

// Some puts and some takes; false when the two differ.
static bool play(struct twin *twin, struct recorder *recorder, struct rng *rng, uint32_t take_max)
{
    uint32_t puts = rng_below(rng, 60);
    uint32_t take_count = rng_below(rng, take_max);
    bool same = true;
    for (uint32_t i = 0; i < puts; i++) {
        uint32_t most = rng_below(rng, 20) == 0 ? keys_max : 300;
        twin_put(twin, recorder, rng_below(rng, most + 1));
    }
    for (uint32_t i = 0; same && i < take_count; i++) {
        same = twin_take(twin, recorder);
    }
    return same && recorder_lost(recorder) == twin->lost;
}

TEST(the_ring_is_an_array_that_forgets_what_does_not_fit)
{
    static struct twin twin;
    struct recorder *recorder = make(1);
    struct rng rng = {.state = 7};
    for (uint32_t round = 0; round < 400; round++) {
        // At times more is put than taken, and it fills.
        CHECK(play(&twin, recorder, &rng, round / 50 % 2 == 0 ? 20 : 100));
    }
    CHECK(twin.lost > 0);
    while (twin.first != twin.next) {
        CHECK(twin_take(&twin, recorder));
    }
    CHECK(is_empty(recorder, 0));
    recorder_destroy(&recorder);
}

enum { race_count = 30000 };

static uint32_t race_keys(uint64_t number)
{
    return (uint32_t)(number * 2654435761 % 977);
}

static void *race_worker(void *owner)
{
    for (uint64_t i = 1; i <= race_count; i++) {
        put(owner, 0, i, race_keys(i));
    }
    return NULL;
}

TEST(a_keeper_beside_its_worker_sees_whole_entries_in_order)
{
    struct recorder *recorder = make(1);
    pthread_t thread;
    uint64_t last = 0;
    uint64_t count = 0;
    CHECK(pthread_create(&thread, NULL, race_worker, recorder) == 0);
    // The last entry may be lost too.  In the end each entry that was put was read or lost.
    while (count + recorder_lost(recorder) < race_count) {
        struct recorder_entry entry;
        const uint64_t *taken = NULL;
        if (!recorder_peek(recorder, 0, &entry, &taken)) {
            sched_yield();
            continue;
        }
        CHECK(entry.arrived_us > last);
        last = entry.arrived_us;
        CHECK(takes(recorder, 0, last, race_keys(last)));
        count++;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(is_empty(recorder, 0));
    CHECK(count > 0);
    recorder_destroy(&recorder);
}
