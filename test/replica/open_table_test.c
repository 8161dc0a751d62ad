// SPDX-License-Identifier: Apache-2.0
//
// The table beside a list that keeps every prediction until it ends.

#include "replica/open_table.h"

#include "base/rng.h"
#include "test.h"

#include <stdlib.h>

enum { entry_max = 64, key_max = 1024, length_max = 100, twin_max = 20000 };

struct twin_entry {
    uint64_t router;
    uint64_t number;
    uint64_t told_ms;
    uint32_t key_count;
    bool is_open;
};

static struct open_table table;
static struct twin_entry twin[twin_max];
static uint32_t twin_count;
static uint32_t expired_count;
static bool twin_failed;

static uint64_t key_of(uint64_t router, uint64_t number, uint32_t position)
{
    return rng_mix(router * 1000003 + number) + position;
}

static struct twin_entry *twin_find(uint64_t router, uint64_t number)
{
    for (uint32_t i = twin_count; i-- > 0;) {
        if (twin[i].is_open && twin[i].router == router && twin[i].number == number) {
            return &twin[i];
        }
    }
    return NULL;
}

static bool keys_are_right(const struct open_prediction *prediction)
{
    for (uint32_t i = 0; i < prediction->key_count; i++) {
        if (prediction->keys[i] != key_of(prediction->router, prediction->number, i)) {
            return false;
        }
    }
    return true;
}

static struct twin_entry *twin_oldest(void)
{
    for (uint32_t i = 0; i < twin_count; i++) {
        if (twin[i].is_open) {
            return &twin[i];
        }
    }
    return NULL;
}

static void note_expired(void *owner, const struct open_prediction *prediction)
{
    struct twin_entry *oldest = twin_oldest();
    twin_failed |= owner != &table || oldest == NULL || oldest->router != prediction->router ||
                   oldest->number != prediction->number || !keys_are_right(prediction);
    if (oldest != NULL) {
        oldest->is_open = false;
    }
    expired_count++;
}

static void set_up(void)
{
    ASSERT(open_table_open(&table, entry_max, key_max, note_expired, &table));
    twin_count = 0;
    expired_count = 0;
    twin_failed = false;
}

static void add(uint64_t router, uint64_t number, uint32_t key_count)
{
    static uint64_t keys[key_max];
    struct twin_entry *before = twin_find(router, number);
    for (uint32_t i = 0; i < key_count && i < key_max; i++) {
        keys[i] = key_of(router, number, i);
    }
    if (before != NULL && key_count > 0 && key_count <= key_max / 2) {
        before->is_open = false;
    }
    open_table_add(&table, &(struct open_prediction){.router = router,
                                                     .number = number,
                                                     .backend = 5,
                                                     .since_ms = 77,
                                                     .keys = keys,
                                                     .key_count = key_count});
    if (key_count > 0 && key_count <= key_max / 2) {
        twin[twin_count++] = (struct twin_entry){
            .router = router, .number = number, .key_count = key_count, .is_open = true};
    }
}

static bool end(uint64_t router, uint64_t number)
{
    struct open_prediction ended;
    if (!open_table_end(&table, router, number, &ended)) {
        return false;
    }
    struct twin_entry *entry = twin_find(router, number);
    twin_failed |= entry == NULL || entry->key_count != ended.key_count || !keys_are_right(&ended);
    if (entry != NULL) {
        entry->is_open = false;
    }
    return true;
}

// The table walks over what the list has, in its order.
static bool equals_twin(void)
{
    const struct open_prediction *prediction;
    uint64_t position = 0;
    uint32_t count = 0;
    uint32_t at = 0;
    while ((prediction = open_table_next(&table, &position)) != NULL) {
        while (at < twin_count && !twin[at].is_open) {
            at++;
        }
        if (at == twin_count || twin[at].router != prediction->router ||
            twin[at].number != prediction->number || twin[at].told_ms != prediction->told_ms ||
            twin[at].key_count != prediction->key_count || !keys_are_right(prediction)) {
            return false;
        }
        at++;
        count++;
    }
    while (at < twin_count && !twin[at].is_open) {
        at++;
    }
    return at == twin_count && count == table.count && !twin_failed;
}

TEST(a_prediction_ends_once_and_keeps_its_keys)
{
    struct open_prediction ended;
    set_up();
    add(1, 10, 3);
    CHECK_EQ(table.count, 1);
    CHECK(open_table_end(&table, 1, 10, &ended));
    CHECK_EQ(ended.key_count, 3);
    CHECK_EQ(ended.keys[2], key_of(1, 10, 2));
    CHECK_EQ(ended.backend, 5);
    CHECK_EQ(ended.since_ms, 77);
    CHECK(!open_table_end(&table, 1, 10, &ended));
    CHECK_EQ(table.count, 0);
    open_table_close(&table);
}

TEST(routers_number_their_predictions_apart)
{
    set_up();
    add(1, 10, 3);
    add(2, 10, 4);
    CHECK(end(2, 10));
    CHECK(!end(2, 10));
    CHECK(end(1, 10));
    CHECK(!twin_failed);
    open_table_close(&table);
}

TEST(a_second_prediction_of_a_name_replaces_the_first_silently)
{
    set_up();
    add(1, 10, 3);
    add(1, 10, 7);
    CHECK_EQ(table.count, 1);
    CHECK_EQ(expired_count, 0);
    CHECK(equals_twin());
    CHECK(end(1, 10));
    CHECK(!end(1, 10));
    open_table_close(&table);
}

TEST(the_oldest_prediction_expires_when_the_table_is_full)
{
    set_up();
    for (uint64_t i = 0; i < entry_max; i++) {
        add(1, i, 1);
    }
    CHECK_EQ(expired_count, 0);
    add(1, entry_max, 1);
    CHECK_EQ(expired_count, 1);
    CHECK(!end(1, 0));
    CHECK(end(1, 1));
    CHECK(equals_twin());
    open_table_close(&table);
}

TEST(predictions_expire_when_their_keys_do_not_fit)
{
    set_up();
    add(1, 1, key_max / 2);
    add(1, 2, key_max / 2);
    CHECK_EQ(expired_count, 0);
    add(1, 3, 1);
    CHECK_EQ(expired_count, 1);
    CHECK(equals_twin());
    add(1, 4, key_max / 2);
    CHECK(equals_twin());
    open_table_close(&table);
}

TEST(a_prediction_without_keys_or_with_too_many_is_not_kept)
{
    set_up();
    add(1, 1, 0);
    add(1, 2, key_max / 2 + 1);
    CHECK_EQ(table.count, 0);
    CHECK(!end(1, 1));
    CHECK(!end(1, 2));
    open_table_close(&table);
}

TEST(an_ended_prediction_in_front_keeps_its_place_until_it_is_needed)
{
    set_up();
    for (uint64_t i = 0; i < entry_max; i++) {
        add(1, i, 1);
    }
    CHECK(end(1, 0));
    add(1, entry_max, 1);
    CHECK_EQ(expired_count, 0);
    CHECK(equals_twin());
    open_table_close(&table);
}

TEST(a_prediction_that_is_told_of_is_marked_and_an_unknown_name_is_ignored)
{
    set_up();
    add(1, 10, 3);
    open_table_tell(&table, 1, 10, 500);
    open_table_tell(&table, 1, 11, 500);
    open_table_tell(&table, 2, 10, 500);
    twin[0].told_ms = 500;
    CHECK(equals_twin());
    open_table_close(&table);
}

TEST(a_walk_may_end_what_it_meets)
{
    uint64_t position = 0;
    uint32_t met = 0;
    const struct open_prediction *prediction;
    set_up();
    for (uint64_t i = 0; i < 20; i++) {
        add(1 + i % 2, i, 2);
    }
    while ((prediction = open_table_next(&table, &position)) != NULL) {
        met++;
        CHECK(end(prediction->router, prediction->number));
    }
    CHECK_EQ(met, 20);
    CHECK_EQ(table.count, 0);
    open_table_close(&table);
}

static void change_at_random(struct rng *rng)
{
    // Few names, so that they come again.
    uint64_t router = 1 + rng_below(rng, 3);
    uint64_t number = 1 + rng_below(rng, 60);
    uint32_t longest = rng_below(rng, 20) == 0 ? key_max : length_max;
    switch (rng_below(rng, 5)) {
    case 0:
    case 1:
        (void)end(router, number);
        break;
    case 2: {
        struct twin_entry *entry = twin_find(router, number);
        uint64_t now_ms = rng_next(rng);
        open_table_tell(&table, router, number, now_ms);
        if (entry != NULL) {
            entry->told_ms = now_ms;
        }
        break;
    }
    default:
        add(router, number, rng_below(rng, longest));
    }
}

static void compare_with_list(uint64_t seed)
{
    struct rng rng = {.state = seed};
    set_up();
    for (int i = 0; i < 2000; i++) {
        change_at_random(&rng);
        CHECK(equals_twin());
    }
    CHECK(expired_count > 10);
    open_table_close(&table);
}

TEST(the_table_equals_a_list_whatever_happens)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        compare_with_list(seed);
    }
}
