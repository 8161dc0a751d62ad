// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_names.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

// How much is done: more where it is fast.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { step_count = 1000000 };
#else
enum { step_count = 4000000 };
#endif

enum { plenty = 256 << 20, copies_max = 65535 };

TEST(a_name_leads_to_its_place_until_its_last_copy_is_gone)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 0);
    CHECK_EQ(kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less).place, 0);
    CHECK_EQ(kv_names_add(names, 7, PREFIX_GPU, 100).before, 0);
    CHECK_EQ(kv_names_add(names, 7, PREFIX_GPU, 100).before, 100);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 100);
    CHECK_EQ(kv_names_count(names), 1);

    struct kv_names_gone gone = kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less);
    CHECK_EQ(gone.place, 100);
    CHECK(!gone.is_last);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 100);
    gone = kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less);
    CHECK_EQ(gone.place, 100);
    CHECK(gone.is_last);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 0);
    CHECK_EQ(kv_names_count(names), 0);
    kv_names_destroy(&names);
    CHECK(names == NULL);
    CHECK_EQ(budget.used, 0);
    kv_names_destroy(&names);
}

TEST(each_tier_has_names_of_its_own)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    kv_names_add(names, 7, PREFIX_GPU, 100);
    kv_names_add(names, 7, PREFIX_HOST, 200);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 100);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_HOST), 200);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_DISK), 0);
    kv_names_clear(names, PREFIX_GPU);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_GPU), 0);
    CHECK_EQ(kv_names_find(names, 7, PREFIX_HOST), 200);
    CHECK_EQ(kv_names_count(names), 1);
    kv_names_destroy(&names);
}

TEST(a_name_that_is_said_of_another_place_has_one_copy_there)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    kv_names_add(names, 7, PREFIX_GPU, 100);
    kv_names_add(names, 7, PREFIX_GPU, 100);
    CHECK_EQ(kv_names_add(names, 7, PREFIX_GPU, 101).before, 100);
    CHECK(kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less).is_last);
    CHECK_EQ(kv_names_count(names), 0);
    kv_names_destroy(&names);
}

TEST(reported_copies_replace_counted_ones)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    for (uint32_t i = 0; i < 5; i++) {
        kv_names_add(names, 7, PREFIX_GPU, 100);
    }
    CHECK(!kv_names_remove(names, 7, PREFIX_GPU, 2).is_last);
    CHECK(!kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less).is_last);
    CHECK(kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less).is_last);
    kv_names_add(names, 7, PREFIX_GPU, 100);
    kv_names_add(names, 7, PREFIX_GPU, 100);
    CHECK(kv_names_remove(names, 7, PREFIX_GPU, 0).is_last);
    kv_names_destroy(&names);
}

TEST(more_copies_than_can_be_counted_stay_until_reported_or_cleared)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    for (uint32_t i = 0; i < copies_max + 10; i++) {
        CHECK_EQ(kv_names_add(names, 7, PREFIX_GPU, 100).before, i == 0 ? 0 : 100);
    }
    for (uint32_t i = 0; i < 2 * copies_max; i++) {
        CHECK(!kv_names_remove(names, 7, PREFIX_GPU, kv_names_one_less).is_last);
    }
    CHECK(!kv_names_remove(names, 7, PREFIX_GPU, INT64_MAX).is_last);
    CHECK(kv_names_remove(names, 7, PREFIX_GPU, 0).is_last);
    kv_names_destroy(&names);
}

TEST(a_table_takes_16_to_19_bytes_a_name_at_any_size)
{
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    for (uint32_t i = 1; i <= 400000; i++) {
        CHECK(!kv_names_add(names, i, PREFIX_GPU, i).is_full);
        CHECK(i < 50000 || (budget.used >= i * UINT64_C(16) && budget.used <= i * UINT64_C(19)));
    }
    for (uint32_t i = 1; i <= 400000; i++) {
        CHECK_EQ(kv_names_find(names, i, PREFIX_GPU), i);
    }
    kv_names_clear(names, PREFIX_GPU);
    CHECK_EQ(budget.used, 0);
    kv_names_destroy(&names);
}

TEST(a_budget_that_is_spent_refuses_new_names_and_keeps_the_old_ones)
{
    // Two tables share it: what one gives back the other may take.
    struct kv_names_budget budget = {.limit = 100000};
    struct kv_names *names = kv_names_create(&budget);
    struct kv_names *others = kv_names_create(&budget);
    uint32_t taken = 0;
    while (!kv_names_add(names, taken + 1, PREFIX_GPU, taken + 1).is_full) {
        taken++;
    }
    CHECK(taken > 2000);
    CHECK(budget.used <= budget.limit);
    CHECK_EQ(kv_names_find(names, taken + 1, PREFIX_GPU), 0);
    // Another copy of what is there needs nothing.
    CHECK_EQ(kv_names_add(names, 5, PREFIX_GPU, 5).before, 5);
    for (uint32_t i = 1; i <= taken; i++) {
        CHECK_EQ(kv_names_find(names, i, PREFIX_GPU), i);
    }
    uint32_t others_taken = 0;
    while (!kv_names_add(others, others_taken + 1, PREFIX_GPU, 1).is_full) {
        others_taken++;
    }
    kv_names_clear(names, PREFIX_GPU);
    CHECK(!kv_names_add(others, others_taken + 1, PREFIX_GPU, 1).is_full);
    kv_names_destroy(&names);
    kv_names_destroy(&others);
    CHECK_EQ(budget.used, 0);
}

// Fills a table until it is full.  Returns the number of names, 0 if some were not found.
static uint32_t fill(struct kv_names_budget *budget, uint64_t first)
{
    struct kv_names *names = kv_names_create(budget);
    uint32_t count = 0;
    while (!kv_names_add(names, first + count, PREFIX_GPU, count + 1).is_full) {
        count++;
    }
    bool is_whole = kv_names_count(names) == count;
    for (uint32_t i = 0; i < count; i++) {
        is_whole = is_whole && kv_names_find(names, first + i, PREFIX_GPU) == i + 1;
    }
    kv_names_destroy(&names);
    return is_whole ? count : 0;
}

TEST(tables_in_a_block_share_its_slabs)
{
    enum { size = 4 << 20 };
    struct kv_names_budget budget = {.limit = size, .block = aligned_alloc(64, size)};
    ASSERT(budget.block != NULL);
    memset(budget.block, 0xff, size); // it need not be empty
    for (uint32_t round = 0; round < 4; round++) {
        // While it grows there are two of it: half of the memory is what one table can have.
        CHECK(fill(&budget, round) > size / 2 / 21);
        CHECK_EQ(budget.used, 0);
        CHECK(budget.fresh <= size);
    }
    free(budget.block);
}

static void sum_places(void *owner, uint32_t place)
{
    *(uint64_t *)owner += place;
}

// The header's promises in the simplest form: an entry for each possible name.
enum { name_count = 60000 };
struct twin {
    uint32_t places[prefix_tier_count][name_count];
    uint32_t copies[prefix_tier_count][name_count];
};

static uint64_t hash_of(uint32_t name)
{
    // Some engines count, others hash.
    return name % 2 == 0 ? name : rng_mix(name);
}

static bool step(struct kv_names *names, struct twin *twin, struct rng *rng, uint32_t add_percent)
{
    enum prefix_tier tier = rng_below(rng, prefix_tier_count);
    uint32_t name = rng_below(rng, name_count);
    uint32_t *place = &twin->places[tier][name];
    uint32_t *copies = &twin->copies[tier][name];
    if (rng_below(rng, 100) < add_percent) {
        uint32_t before = *place;
        uint32_t next = before != 0 && rng_below(rng, 8) != 0 ? before : 1 + rng_below(rng, 1000);
        *copies = next == before ? *copies + 1 : 1;
        *place = next;
        struct kv_names_added added = kv_names_add(names, hash_of(name), tier, next);
        return added.before == before && !added.is_full;
    }
    int64_t left = rng_below(rng, 16) == 0 ? (int64_t)rng_below(rng, 3) : kv_names_one_less;
    struct kv_names_gone gone = kv_names_remove(names, hash_of(name), tier, left);
    if (gone.place != *place) {
        return false;
    }
    if (*place != 0) {
        *copies = left == kv_names_one_less ? *copies - 1 : (uint32_t)left;
        *place = *copies == 0 ? 0 : *place;
    }
    return gone.is_last == (gone.place != 0 && *copies == 0);
}

static bool agree(const struct kv_names *names, const struct twin *twin)
{
    uint64_t count = 0;
    for (enum prefix_tier tier = 0; tier < prefix_tier_count; tier++) {
        uint64_t sum = 0;
        for (uint32_t name = 0; name < name_count; name++) {
            if (kv_names_find(names, hash_of(name), tier) != twin->places[tier][name]) {
                return false;
            }
            count += twin->places[tier][name] != 0;
            sum += twin->places[tier][name];
        }
        uint64_t visited = 0;
        kv_names_each(names, tier, sum_places, &visited);
        if (visited != sum) {
            return false;
        }
    }
    return kv_names_count(names) == count;
}

static void clear(struct kv_names *names, struct twin *twin, enum prefix_tier tier)
{
    kv_names_clear(names, tier);
    memset(twin->places[tier], 0, sizeof(twin->places[tier]));
    memset(twin->copies[tier], 0, sizeof(twin->copies[tier]));
}

TEST(millions_of_changes_agree_with_a_table_of_everything)
{
    static struct twin twin;
    struct kv_names_budget budget = {.limit = plenty};
    struct kv_names *names = kv_names_create(&budget);
    struct rng rng = {.state = 1};
    for (uint32_t i = 0; i < step_count; i++) {
        // By turns more names are added than removed, and the reverse: lines fill and become
        // empty again.
        CHECK(step(names, &twin, &rng, i / (step_count / 8) % 2 == 0 ? 70 : 40));
        CHECK(i % (step_count / 32) != 0 || agree(names, &twin));
        if (rng_below(&rng, step_count / 10) == 0) {
            clear(names, &twin, rng_below(&rng, prefix_tier_count));
        }
    }
    CHECK(agree(names, &twin));
    kv_names_destroy(&names);
    CHECK_EQ(budget.used, 0);
}
