// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "prefix/prefix_runs_internal.h"
#include "test.h"

static _Alignas(64) uint8_t block[1 << 20];

static void make(struct prefix_runs *runs, size_t size)
{
    memset(block, 0xa5, sizeof(block)); // nothing leans on memory that happens to be 0
    prefix_runs_init(runs, block, size, 1 << 28);
    runs->backend_count = 4096;
}

static uint32_t publish(struct prefix_runs *runs, uint64_t key)
{
    uint32_t id = prefix_runs_new(runs, &key, 1);
    if (id != 0) {
        prefix_runs_publish(runs, id);
    }
    return id;
}

// A key of a bucket: undoes the product by which keys are spread.
static uint64_t key_in(const struct prefix_runs *runs, uint32_t bucket, uint32_t n)
{
    ASSERT(runs->bucket_count != 0 && bucket < runs->bucket_count);
    uint64_t first = bucket * (UINT64_C(1) << 32) / runs->bucket_count + 1;
    uint64_t mixed = first * (UINT64_C(1) << 32) + n;
    uint64_t key = mixed * UINT64_C(0xf1de83e19937733d);
    ASSERT(run_bucket_of(runs, key) == bucket);
    return key;
}

TEST(a_run_is_found_by_its_first_key_from_when_it_is_published_until_it_is_freed)
{
    struct prefix_runs runs;
    make(&runs, sizeof(block));
    const uint64_t keys[] = {11, 22, 33};
    uint32_t id = prefix_runs_new(&runs, keys, 3);
    CHECK_EQ(find_own(&runs, 11), 0);
    prefix_runs_publish(&runs, id);
    CHECK_EQ(find_own(&runs, 11), id);
    CHECK_EQ(find_own(&runs, 22), 0);
    CHECK_EQ(OWN(&runs.shared.run_count), 1);
    CHECK_EQ(key_count_of(OWN(&granule_at(&runs, id)->shape)), 3);
    uint32_t version = OWN(&granule_at(&runs, id)->version);
    prefix_runs_free(&runs, id);
    CHECK_EQ(find_own(&runs, 11), 0);
    CHECK(OWN(&granule_at(&runs, id)->version) != version);
    CHECK_EQ(OWN(&runs.shared.run_count), 0);
    CHECK_EQ(OWN(&runs.shared.granules_used), 0);
}

static void fill_and_empty(struct prefix_runs *runs, uint64_t first_key)
{
    uint32_t count = 0;
    while (publish(runs, first_key + count) != 0) {
        count++;
    }
    CHECK_EQ(count, runs->granule_count - 1);
    CHECK_EQ(OWN(&runs->shared.granules_used), count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = find_own(runs, first_key + i);
        CHECK(id != 0);
        prefix_runs_free(runs, id);
    }
    CHECK_EQ(OWN(&runs->shared.granules_used), 0);
}

TEST(all_memory_is_used_and_all_of_it_comes_back)
{
    struct prefix_runs runs;
    make(&runs, 100000);
    for (uint32_t round = 0; round < 3; round++) {
        fill_and_empty(&runs, (uint64_t)1000 * round);
    }
    CHECK_EQ(block[100000], 0xa5);
}

static bool free_run_of_7(struct prefix_runs *runs)
{
    uint32_t id = find_own(runs, 7);
    if (id != 0) {
        prefix_runs_free(runs, id);
    }
    return id != 0;
}

TEST(make_room_is_called_when_no_granule_is_free)
{
    struct prefix_runs runs;
    make(&runs, prefix_runs_size_min());
    runs.make_room = free_run_of_7;
    for (uint64_t key = 7; key < 7 + granule_count_min - 1; key++) {
        CHECK(publish(&runs, key) != 0);
    }
    CHECK(publish(&runs, 100) != 0);
    CHECK_EQ(find_own(&runs, 7), 0);
    CHECK(find_own(&runs, 8) != 0);
    CHECK_EQ(publish(&runs, 101), 0);
}

enum { crowd = 200 };

// Of the last two buckets: those that do not fit go on in the first.
static uint64_t crowd_key(const struct prefix_runs *runs, uint32_t n)
{
    return key_in(runs, runs->bucket_count - 1 - n % 2, n);
}

static void find_crowd(const struct prefix_runs *runs, const uint32_t *ids)
{
    for (uint32_t i = 0; i < crowd; i++) {
        CHECK_EQ(find_own(runs, crowd_key(runs, i)), ids[i]);
    }
}

TEST(a_bucket_that_is_full_hides_no_run)
{
    struct prefix_runs runs;
    make(&runs, sizeof(block));
    uint32_t ids[crowd];
    for (uint32_t i = 0; i < crowd; i++) {
        ids[i] = publish(&runs, crowd_key(&runs, i));
    }
    struct rng rng = {.state = 1};
    for (uint32_t left = crowd; left > 0; left--) {
        uint32_t gone = rng_below(&rng, crowd);
        while (ids[gone] == 0) {
            gone = (gone + 1) % crowd;
        }
        prefix_runs_free(&runs, ids[gone]);
        ids[gone] = 0;
        find_crowd(&runs, ids);
    }
    for (uint32_t i = 0; i < runs.bucket_count; i++) {
        CHECK_EQ(OWN(&runs.buckets[i].passed), 0);
    }
}

TEST(a_search_ends_where_every_bucket_was_passed)
{
    struct prefix_runs runs;
    make(&runs, 2 * sizeof(struct run_bucket) + 23 * sizeof(struct granule));
    CHECK_EQ(runs.bucket_count, 2);
    for (uint32_t i = 0; i < bucket_slots + 1; i++) {
        publish(&runs, key_in(&runs, 0, i));
    }
    for (uint32_t i = 0; i < 10; i++) {
        prefix_runs_free(&runs, find_own(&runs, key_in(&runs, 0, i)));
    }
    for (uint32_t i = 0; i < bucket_slots; i++) {
        publish(&runs, key_in(&runs, 1, i));
    }
    CHECK(OWN(&runs.buckets[0].passed) != 0 && OWN(&runs.buckets[1].passed) != 0);
    CHECK_EQ(find_own(&runs, key_in(&runs, 0, 5000)), 0);
    CHECK_EQ(find_own(&runs, key_in(&runs, 1, 5000)), 0);
    CHECK(find_own(&runs, key_in(&runs, 0, bucket_slots)) != 0);
    CHECK(find_own(&runs, key_in(&runs, 1, bucket_slots - 1)) != 0);
}

static _Atomic uint64_t *place_for(struct prefix_runs *runs, struct granule *run, uint32_t backend)
{
    uint32_t chunk_count;
    _Atomic uint64_t *holder = find_place(runs, run, backend, &chunk_count);
    return holder != NULL ? holder : prefix_runs_add_place(runs, run, backend, chunk_count);
}

static void hold(_Atomic uint64_t *holder, uint32_t backend)
{
    PUT(&holder[1], (uint64_t)backend * 3);
    PUT(&holder[0], (uint64_t)backend << 48 | 1 << 16);
}

static void hold_by(uint32_t holder_count)
{
    struct prefix_runs runs;
    make(&runs, sizeof(block));
    uint32_t id = publish(&runs, 5);
    struct granule *run = granule_at(&runs, id);
    for (uint32_t i = 0; i < holder_count; i++) {
        CHECK(find_holder(&runs, run, i) == NULL);
        hold(place_for(&runs, run, i), i);
    }
    for (uint32_t i = 0; i < holder_count; i++) {
        _Atomic uint64_t *holder = find_holder(&runs, run, i);
        CHECK(holder != NULL && place_for(&runs, run, i) == holder);
        CHECK_EQ(OWN(&holder[1]), i * 3);
    }
    uint32_t seen = 0;
    struct holder_cursor cursor = cursor_of_all(&runs, run);
    for (_Atomic uint64_t *holder; (holder = cursor_next(&cursor)) != NULL;) {
        seen += held_of(OWN(&holder[0])) != 0;
    }
    CHECK_EQ(seen, holder_count);
    CHECK_EQ((OWN(&run->overflow) & directory_bit) != 0, holder_count > 102);
    prefix_runs_free(&runs, id);
    CHECK_EQ(OWN(&runs.shared.granules_used), 0);
}

TEST(every_holder_has_a_place_of_its_own)
{
    const uint32_t counts[] = {1, 2, 3, 12, 13, 102, 103, 500, 4096};
    for (uint32_t i = 0; i < ARRAY_COUNT(counts); i++) {
        hold_by(counts[i]);
    }
}

TEST(a_backend_that_comes_back_gets_its_old_place)
{
    struct prefix_runs runs;
    make(&runs, sizeof(block));
    struct granule *run = granule_at(&runs, publish(&runs, 5));
    _Atomic uint64_t *places[10];
    for (uint32_t i = 0; i < ARRAY_COUNT(places); i++) {
        places[i] = place_for(&runs, run, 100 + i);
        hold(places[i], 100 + i);
    }
    for (uint32_t i = 0; i < ARRAY_COUNT(places); i++) {
        PUT(&places[i][0], (uint64_t)(100 + i) << 48);
    }
    CHECK(place_for(&runs, run, 107) == places[7]);
    CHECK(place_for(&runs, run, 103) == places[3]);
    CHECK(place_for(&runs, run, 1000) == places[0]);
}

// One granule is left, and a long list wants twenty.
TEST(without_memory_to_spread_it_a_list_just_gets_longer)
{
    struct prefix_runs runs;
    make(&runs, 16 * sizeof(struct granule));
    struct granule *run = granule_at(&runs, publish(&runs, 5));
    uint32_t count = 0;
    for (_Atomic uint64_t *holder; (holder = place_for(&runs, run, count)) != NULL; count++) {
        hold(holder, count);
    }
    CHECK_EQ(OWN(&runs.shared.granules_used), runs.granule_count - 1);
    CHECK_EQ(count, 2 + 10 * (runs.granule_count - 2));
    CHECK(count > 102);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(find_holder(&runs, run, i) != NULL);
    }
}
