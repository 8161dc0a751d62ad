// SPDX-License-Identifier: Apache-2.0

#include "chronicle/member_table.h"

#include "base/rng.h"
#include "test.h"

enum { member_max = 40, id_max = 100 };

static uint64_t twin[member_max]; // who has the number
static uint32_t left_count;

static void note_left(void *owner, uint32_t number)
{
    (void)owner;
    left_count++;
    twin[number] = 0;
}

static uint32_t twin_find(uint64_t id)
{
    for (uint32_t i = 0; i < member_max; i++) {
        if (twin[i] == id) {
            return i;
        }
    }
    return member_none;
}

// Lets somebody in, or finds that there is no room.
static bool enter_agrees(struct member_table *table, uint64_t id)
{
    uint32_t before = twin_find(id);
    uint32_t number = member_table_enter(table, id);
    if (before != member_none) {
        return number == before;
    }
    if (number == member_none) {
        return twin_find(0) == member_none;
    }
    bool was_free = twin[number] == 0;
    twin[number] = id;
    return was_free;
}

static bool keep_agrees(struct member_table *table, struct rng *rng)
{
    bool is_kept[member_max];
    bool is_so = true;
    for (uint32_t i = 0; i < member_max; i++) {
        is_kept[i] = rng_below(rng, 3) != 0;
    }
    member_table_keep(table, is_kept, note_left, NULL);
    for (uint32_t i = 0; i < member_max; i++) {
        is_so = is_so && (is_kept[i] || twin[i] == 0);
    }
    return is_so;
}

static bool all_agree(const struct member_table *table)
{
    bool is_so = true;
    for (uint64_t id = 1; id <= id_max; id++) {
        is_so = is_so && member_table_find(table, id) == twin_find(id);
    }
    for (uint32_t i = 0; i < member_max; i++) {
        is_so = is_so && member_table_id(table, i) == twin[i];
    }
    return is_so;
}

TEST(numbers_stay_with_their_backends_until_those_leave)
{
    struct member_table *table = member_table_create(member_max);
    struct rng rng = {11};

    memset(twin, 0, sizeof(twin));
    for (uint32_t round = 0; round < 3000; round++) {
        CHECK(enter_agrees(table, 1 + rng_below(&rng, id_max)));
        CHECK(rng_below(&rng, 20) != 0 || keep_agrees(table, &rng));
        CHECK(all_agree(table));
    }
    CHECK(left_count > 100);
    CHECK_EQ(member_table_find(table, 0), member_none);
    member_table_destroy(&table);
    CHECK(table == NULL);
}

TEST(a_table_of_none_has_nobody)
{
    struct member_table *table = member_table_create(0);
    CHECK_EQ(member_table_find(table, 5), member_none);
    CHECK_EQ(member_table_enter(table, 5), member_none);
    member_table_destroy(&table);
}
